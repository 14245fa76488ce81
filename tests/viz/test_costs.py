"""Pictures show what each agent costs."""

from typing import Literal

import pytest

from adk_fluent import Agent, Route
from adk_fluent.cost import Price, estimate_cost

WRITER, EDITOR = Agent("writer", "m").writes("k"), Agent("editor", "m")
PIPELINE = WRITER >> Route("k").eq("x", EDITOR).otherwise(EDITOR.named("other"))
COST = estimate_cost(PIPELINE, prices={"m": Price.per_million(input=100, output=400)})


@pytest.mark.parametrize("form", ["mermaid", "svg", "html"])
def test_each_agent_shows_its_cost(form: Literal["mermaid", "svg", "html"]) -> None:
    """With an estimate, each agent's box says what it costs per invocation; without, nothing does."""
    picture = PIPELINE.visualize(form, cost=COST)
    for note in COST.notes().values():
        assert note in picture
    assert len(COST.notes()) == 3
    assert "per invocation" not in PIPELINE.visualize(form)


def test_the_page_says_it_in_words() -> None:
    """The page says it where it tells about a step."""
    assert f"It costs {COST.notes()['writer']}." in PIPELINE.visualize("html", cost=COST)


@pytest.mark.newest
def test_an_image_shows_it() -> None:
    """An image with costs is another than one without."""
    assert PIPELINE.visualize("png", cost=COST) != PIPELINE.visualize("png")
