"""Notes on agents without an instruction, and on tools without a description."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.enterprise_search_tool import EnterpriseWebSearchTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_tool import GoogleSearchTool, google_search
from google.adk.tools.url_context_tool import url_context
from google.genai.types import FunctionDeclaration
from pydantic import BaseModel

from adk_fluent import Agent, C, P, RemoteAgent, S, T
from adk_fluent.adopt import adopt
from adk_fluent.contracts import check_all, check_descriptions
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import mock_backend

CLERK = Agent("clerk").instruct("Help.")


class Ticket(BaseModel):
    """A ticket of a customer."""

    seat: int


class Desk:
    """Look at a desk."""

    def __call__(self, city: str) -> str:
        return city


def described(city: str, seats: int = 1) -> str:
    """Book seats."""
    return f"{seats} in {city}"


def _bare(city: str) -> str:
    return city


def untyped(city, seats, tool_context) -> str:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  # the point of it
    """Book seats."""
    return f"{seats} in {city}"


def _neither(*cities: Any, city=1) -> Any:  # pyright: ignore[reportMissingParameterType]  # likewise
    return city


class Wrapped(FunctionTool):
    """A tool around one of another framework, which brings its own description, as ADK's `CrewaiTool` is."""

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name="find", description="Find something.")


def notes(callback_context: Any) -> None:
    """Tell the model more."""


def messages(expression: Expr[Any]) -> list[str]:
    """The messages of the notes."""
    return [issue.message for issue in check_descriptions(expression)]


@pytest.mark.parametrize(
    "agent",
    [
        CLERK,
        Agent("a").instruct(P.role("You help.")),
        Agent("a").instruct(lambda context: "Help."),
        Agent("a").static("Help."),
        Agent("a").global_instruct("Help."),
        Agent("a").global_instruct("Help.").delegate(Agent("b")),
        Agent("a").returns(Ticket),
        Agent("a").before_model(lambda callback_context, llm_request: None),
        Agent("a").before_agent(notes),
        Agent("a").context(C.template("Help with {topic?}.")),
        RemoteAgent("far", endpoint="https://far.example"),
        S.set(x=1),
    ],
    ids=repr,
)
def test_any_instruction_avoids_the_note(agent: Expr[Any]) -> None:
    """An instruction of any kind, a type to answer with, or a callback is enough."""
    assert messages(agent) == []


def test_agents_without_instruction_share_one_note() -> None:
    """All agents without an instruction, or with an empty one, share one note, which names the first."""
    (note,) = check_descriptions(Agent("a") >> CLERK >> Agent("b").instruct("") >> Agent("c").reads("x"))
    assert (note.agent, note.message) == ("a", "a, b and c have no instruction")


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (_bare, "the tool '_bare' without a docstring"),
        (cast(Any, untyped), "the tool 'untyped' without the types of 'city' and 'seats'"),
        (_neither, "the tool '_neither' without a docstring and the type of 'city'"),
        (T.timeout(T.fn(_bare), seconds=1), "the tool '_bare' without a docstring"),
        (Wrapped(_bare), None),
        (FunctionTool(_bare), "the tool '_bare' without a docstring"),
        (described, None),
        (Desk(), None),
        (partial(_bare, "x"), None),
        (google_search, None),
        (exit_loop, None),
        (T.agent(CLERK), None),
    ],
    ids=[
        "bare",
        "untyped",
        "neither",
        "of T",
        "of another framework",
        "of ADK",
        "described",
        "object",
        "partial",
        "search",
        "exit",
        "agent",
    ],
)
def test_missing_descriptions_of_a_tool_are_noted(tool: Any, said: str | None) -> None:
    """The note names the tool, and each parameter without a type; what ADK describes is not noted."""
    assert messages(CLERK.tool(tool)) == ([] if said is None else [f"clerk has {said}"])


def test_a_tool_is_noted_once_and_without_its_resources() -> None:
    """A tool that two agents share has one note, without the parameters that `.inject` fills."""
    assert messages(CLERK.tool(_bare) >> Agent("b").instruct("Help.").tool(_bare)) == [
        "clerk has the tool '_bare' without a docstring"
    ]
    assert messages(CLERK.tool(cast(Any, untyped)).inject(city="Rome", seats=1)) == []


def _deep(callback_context: Any) -> None:
    callback_context.state["seen"] = callback_context.state["deep"]


def test_a_key_that_an_agent_in_a_tool_reads_names_that_agent() -> None:
    """The finding names the way to an agent that is in a tool of a tool, and the line of its code."""
    inner = Agent("inner").instruct("Use {missing}.").before_agent(_deep)
    middle = Agent("middle").tools(T.agent(inner))
    found = {one.key: str(one) for one in check_all(Agent("outer").tools(T.agent(middle))).issues}
    line = _deep.__code__.co_firstlineno + 1
    assert 'a tool of outer reads "missing" (middle.inner): ERROR' in found["missing"]
    assert f'reads "deep" (middle.inner, test_tools.py, line {line}): ERROR' in found["deep"]


def test_a_key_that_an_agent_in_a_native_tool_reads_names_that_agent() -> None:
    """Agents inside ADK's `AgentTool` are named in the same way."""
    inner = LlmAgent(name="inner", instruction="Use {missing}.", before_agent_callback=_deep)
    middle = LlmAgent(name="middle", instruction="Ask.", tools=[AgentTool(inner)])
    outer = adopt(LlmAgent(name="outer", instruction="Ask.", tools=[AgentTool(middle)]))
    found = {one.key: str(one) for one in check_all(outer).issues}
    line = _deep.__code__.co_firstlineno + 1
    assert 'a tool of outer reads "missing" (middle.inner): ERROR' in found["missing"]
    assert f'reads "deep" (middle.inner, test_tools.py, line {line}): WARN' in found["deep"]


class Search(GoogleSearchTool):
    """A search of a project's own."""


@pytest.mark.newest
@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"tools": [google_search]}, True),
        ({"tools": [Search()]}, True),
        ({"tools": [EnterpriseWebSearchTool()]}, True),
        ({"tools": [google_search], "model": "gemini-flash-latest"}, True),
        ({"tools": [google_search], "model": "gemini-3-pro"}, False),
        ({"tools": [url_context]}, False),
        ({"tools": [GoogleSearchTool(bypass_multi_tools_limit=True)]}, False),
        ({"tools": [google_search], "below": "single_turn"}, False),
        ({"tools": [AgentTool(LlmAgent(name="s", model="gemini-2.5-flash", tools=[google_search]))]}, False),
    ],
    ids=["search", "derived", "enterprise", "alias", "new", "pages", "bypass", "single turn", "repaired"],
)
async def test_an_error_about_search_beside_sub_agents_is_what_adk_refuses(
    given: dict[str, Any], refused: bool
) -> None:
    """ADK refuses the first call of an agent exactly where the check reports that its search is an error."""
    fields: Any = {"name": "desk", "model": "gemini-2.5-flash", **given}
    below: Any = LlmAgent(name="b", mode=fields.pop("below", None))
    expression = adopt(LlmAgent(**fields, sub_agents=[below]))
    errors = [issue.agent for issue in check_all(expression).errors if issue.code == "tool-combination"]
    assert errors == ["desk"] * refused
    if not refused:
        assert (await expression.run("Hi", backend=mock_backend({"desk": "Fine."}))).text == "Fine."
        return
    with pytest.raises(RunError, match="has sub-agent transfer targets"):
        await expression.run("Hi", backend=mock_backend({"desk": "Fine."}))
