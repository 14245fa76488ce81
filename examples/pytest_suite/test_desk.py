"""Tests of a pipeline without a model: contracts, routes, what models are told, failures."""

import pytest
from desk import clerk, desk

from adk_fluent.errors import ADKFluentError
from adk_fluent.testing import assert_contracts, call_tool, mock_backend

LOOKS_UP = [call_tool("order_state", order="A7"), "A7 is on its way."]


def test_nothing_is_wrong_before_it_runs() -> None:
    """No key is missing, no text is lost, and somebody answers the user, whatever the route."""
    assert_contracts(desk)


@pytest.mark.parametrize(
    ("topic", "author"), [("order", "clerk"), (" order\n", "clerk"), ("thanks", "talker")]
)
def test_each_topic_has_its_agent(topic: str, author: str) -> None:
    """A label is compared without spaces, and what is no order goes to the other agent."""
    models = mock_backend({"triage": topic, "clerk": LOOKS_UP, "talker": "You are welcome."})
    answer = desk.ask("Hello", backend=models)
    assert answer == {"clerk": "A7 is on its way.", "talker": "You are welcome."}[author]


def test_the_clerk_sees_what_the_tool_found() -> None:
    """The real tool runs, and its result is in the second request."""
    models = mock_backend({"triage": "order", "clerk": LOOKS_UP})
    desk.ask("Where is A7?", backend=models)
    assert "on its way" in str(models.calls["clerk"][1].contents[-1])


def test_an_unknown_order_is_an_error_that_names_the_agent() -> None:
    """A tool that fails ends the run with one line."""
    models = mock_backend({"clerk": [call_tool("order_state", order="B8"), "?"]})
    with pytest.raises(ADKFluentError, match="clerk"):
        clerk.ask("Where is B8?", backend=models)


@pytest.mark.real_model
def test_a_real_model_knows_an_order_when_it_sees_one() -> None:
    """The prompt of the classifier, asked of Gemini: runs with a key alone."""
    result = desk.ask("Where is my order A7?")
    assert result
