"""Whatever leaves a run is a `RunError` that names the agent, also inside an agent that is a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, ValidationError

from adk_fluent import Agent, T
from adk_fluent.adopt import adopt
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import CallbackError, RunError, StepError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend

MODEL = "gemini-2.5-flash"


def wrong(*values: Any, **more: Any) -> Any:
    """Return what nothing can use."""
    return 5


def false(*values: Any, **more: Any) -> bool:
    """Return what is ignored."""
    return False


def table() -> dict[Any, str]:
    """Look up."""
    return {1: "one"}


def again() -> str:
    """Look again."""
    return "again"


class Failing(BaseTool):
    """A tool whose part of a request cannot be made, as where a store of artifacts is down."""

    def __init__(self) -> None:
        super().__init__(name="files", description="Files.")

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Fail as a store does."""
        raise ConnectionError("down")


def alone(expression: Expr[Any]) -> Expr[Any]:
    """The expression itself."""
    return expression


def reading(agent: Agent[Any]) -> Agent[Any]:
    """The agent with a context."""
    return agent.reads("k")


def inside(expression: Expr[Any]) -> Expr[Any]:
    """The expression as the tool of another agent."""
    return Agent("outer", MODEL).tool(T.agent(expression))


places = pytest.mark.parametrize("place", [alone, inside])
OUTER = {"outer": [call_tool("a", request="go"), "Done."]}


async def _fails(expression: Expr[Any], script: Any, calls: int = 9) -> RunError:
    with pytest.raises(RunError) as caught:
        await expression.run(
            "hi",
            backend=mock_backend({"a": script, **OUTER}),
            config=ExecutionConfig(max_llm_calls=calls),
        )
    assert caught.value.result is not None
    return caught.value


@places
@pytest.mark.parametrize("hook", ["before_agent", "after_agent", "before_model", "after_model"])
async def test_a_callback_that_returns_the_wrong_type(hook: str, place: Callable[..., Expr[Any]]) -> None:
    """Its error names the agent, the callback, its function, and what it may return."""
    error = await _fails(place(getattr(Agent("a", MODEL), hook)(wrong)), "Hello.")
    assert type(error) is CallbackError
    kind = "Content" if hook.endswith("agent") else "LlmResponse"
    assert str(error) == (
        f"Agent 'a': its {hook} callback 'wrong' returned 5 (int), which is no {kind}. Return one, or None."
    )


@pytest.mark.parametrize("hook", ["before_agent", "after_agent", "before_model", "after_model"])
async def test_a_callback_may_return_nothing_or_false(hook: str) -> None:
    """What ADK ignores is no error."""
    expression = getattr(Agent("a", MODEL), hook)(false)
    assert (await expression.run("hi", backend=mock_backend({"a": "Hello."}))).text == "Hello."


@places
@pytest.mark.parametrize("more", [alone, reading], ids=["plain", "context"])
async def test_an_instruction_that_is_no_text(more: Callable[..., Any], place: Callable[..., Any]) -> None:
    """An instruction's function must return text, also where a context follows it."""
    expression = more(Agent("a", MODEL).instruct(wrong))
    with pytest.raises(
        StepError, match=r"^Agent 'a': the function 'wrong' of its instruction returned 5 \(int"
    ):
        await place(expression).run("hi", backend=mock_backend({"a": "x", **OUTER}), state={"k": "v"})


async def test_a_global_instruction_that_is_no_text() -> None:
    """`None` does not become the word."""
    expression = Agent("a", MODEL).global_instruct(lambda ctx: None)  # pyright: ignore[reportArgumentType]  # the fault
    assert "of its global instruction returned None" in str(await _fails(expression, "x"))


@places
async def test_a_result_with_keys_that_are_no_text(place: Callable[..., Expr[Any]]) -> None:
    """ADK cannot make an event of it; the error names the tool and its agent."""
    error = await _fails(place(Agent("a", MODEL).tool(table)), [call_tool("table"), "One."])
    assert type(error) is ToolError
    assert str(error).startswith("Agent 'a': the result of its tool 'table' cannot be stored")
    assert isinstance(error.__cause__, ValidationError)


@places
async def test_a_tool_that_cannot_prepare_a_request(place: Callable[..., Expr[Any]]) -> None:
    """Its error names the tool and its agent, as where the tool is called."""
    error = await _fails(place(Agent("a", MODEL).tool(Failing())), "Hello.")
    assert type(error) is ToolError
    assert str(error) == "Agent 'a': its tool 'files' raised ConnectionError: down."


@places
async def test_too_many_calls_of_models(place: Callable[..., Expr[Any]]) -> None:
    """The limit names the agent that met it, and the setting."""
    error = await _fails(place(Agent("a", MODEL).tool(again)), call_tool("again"), calls=3)
    assert type(error) is RunError
    assert str(error).startswith("Agent 'a' may not ask its model again: ")
    assert "max_llm_calls" in str(error)
    assert isinstance(error.__cause__, LlmCallsLimitExceededError)


def _adopted(expression: Any) -> Any:
    return adopt(LlmAgent(name="a", model=MODEL, sub_agents=[LlmAgent(name="b", model=MODEL)]))


@pytest.mark.parametrize("made", [alone, _adopted], ids=["ours", "adopted"])
async def test_a_hand_over_to_nobody(made: Callable[..., Any]) -> None:
    """The model gets the names that it may use, and calls again."""
    expression = made(Agent("a", MODEL).delegate(Agent("b", MODEL)))
    calls = [call_tool("transfer_to_agent", agent_name=name) for name in ("nobody", "b")]
    result = await expression.run("hi", backend=mock_backend({"a": calls, "b": "Here."}))
    told = next(event.tool_responses[0].result for event in result if event.tool_responses)
    assert told == {"error": "There is no agent 'nobody' to hand over to. There are: 'b'."}
    assert result.text == "Here."


async def test_a_hand_over_to_nobody_inside_a_tool() -> None:
    """The same where the agent that hands over is a tool."""
    expression = inside(Agent("a", MODEL).delegate(Agent("b", MODEL)))
    calls = [call_tool("transfer_to_agent", agent_name=name) for name in ("nobody", "b")]
    assert (
        await expression.run("hi", backend=mock_backend({"a": calls, "b": "Here.", **OUTER}))
    ).text == "Done."


class Amount(BaseModel):
    """What is asked for."""

    euros: int


async def test_bad_arguments_of_an_agent_that_is_a_tool() -> None:
    """The model gets what is wrong, and calls again."""
    expression = inside(Agent("a", MODEL).accepts(Amount))
    calls = [call_tool("a", euros="many"), call_tool("a", euros=3), "Done."]
    result = await expression.run("hi", backend=mock_backend({"a": "Three.", "outer": calls}))
    first, second = (one.result for event in result for one in event.tool_responses)
    assert first["error"].startswith("'a' was not called: euros is 'many'")
    assert second == {"result": "Three."}
    assert result.text == "Done."
