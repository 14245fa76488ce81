"""ADK's own tools take our composites for what they are."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route
from adk_fluent.backends.adk.running.convert import knowingly

FIRST = Agent("first").instruct("Draft a letter.").describe("Drafts letters.")
SECOND = Agent("second").instruct("Polish it.").describe("Polishes letters.")


async def card(expression: Any) -> Any:
    """The A2A card that ADK makes of what we build."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # ADK's own module uses what is deprecated
        from google.adk.a2a.utils.agent_card_builder import AgentCardBuilder

    with knowingly():
        return await AgentCardBuilder(agent=expression.build()).build()


@pytest.mark.newest
@pytest.mark.parametrize(
    ("expression", "tag"),
    [
        (Pipeline("letters", FIRST, SECOND), "sequential_workflow"),
        (FanOut("letters", FIRST, SECOND), "parallel_workflow"),
        (Loop(FIRST, SECOND, max_iterations=3, name="letters"), "loop_workflow"),
    ],
)
async def test_the_a2a_card_says_what_the_steps_are(expression: Any, tag: str) -> None:
    """The card's first skill is tagged as ADK tags its own, and describes each step."""
    skill = (await card(expression)).skills[0]
    assert list(skill.tags) == [tag]
    assert "Drafts letters" in skill.description
    assert "olishes letters" in skill.description


@pytest.mark.newest
async def test_the_card_of_a_loop_says_how_often() -> None:
    """ADK's description of a loop names its limit."""
    skill = (await card(Loop(FIRST, max_iterations=3, name="letters"))).skills[0]
    assert "max 3 iterations" in skill.description


@pytest.mark.parametrize("name", ["SequentialAgent", "ParallelAgent", "LoopAgent"])
def test_only_the_like_is_taken_for_it(name: str) -> None:
    """A route is none of ADK's own workflow agents, and no composite is two of them."""
    from google.adk import agents

    cls = getattr(agents, name)
    built = [FanOut("f", FIRST, SECOND), Pipeline("p", FIRST, SECOND), Loop(FIRST, name="l")]
    natives = [expression.build() for expression in [*built, Route("k").eq(1, FIRST)]]
    assert [isinstance(native, cls) for native in natives].count(True) == 1
