"""What runs on a durable engine is what runs on ADK: the same events and state, whatever has an effect."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from google.genai.errors import ServerError
from pydantic import BaseModel

from adk_fluent import A, Agent, C, FanOut, Loop, Route, S, T, map_over, tap
from adk_fluent.backends import RunResult
from adk_fluent.cost import ModelCandidate
from adk_fluent.errors import AskAgain
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import Context, Middleware, retry
from adk_fluent.middleware.protocol import CallTool
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.limits import LIMIT

pytestmark = pytest.mark.newest


class Bill(BaseModel):
    number: int


def note(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Note a text."""
    tool_context.state["noted"] = text
    tool_context.state["user:heard"] = len(tool_context.session.events) > 0
    return {
        "said": str(tool_context.user_content and tool_context.user_content.parts)[:0],
        "by": tool_context.agent_name,
    }


def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def ask(word: str) -> str:
    """Want another word."""
    if word != "tea":
        raise AskAgain(f"There is no {word}.")
    return "tea"


def add(letter: str, tool_context: ToolContext) -> str:
    """Add a letter."""
    tool_context.state["letters"] = tool_context.state.get("letters", "") + letter
    return letter


async def keep(file: str, tool_context: ToolContext) -> str:
    """Keep a file."""
    version = await tool_context.save_artifact(file, types.Part(text="kept"))
    return f"{file} {version}"


def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Changes the request in place."""
    callback_context.state["asked"] = len(llm_request.contents)
    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="Be short.")]))


def after_model(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse | None:
    """Answers something else."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Short.")]))


def before_agent(callback_context: CallbackContext) -> types.Content | None:
    """Answers for the agent."""
    callback_context.state["skipped"] = True
    return types.Content(role="model", parts=[types.Part(text="Not asked.")])


def after_tool(
    tool: Any, args: dict[str, Any], tool_context: ToolContext, tool_response: Any
) -> dict[str, Any]:
    """Changes a result."""
    return {"tool": tool.name, "was": tool_response, "args": args}


def instruction(context: ReadonlyContext) -> str:
    """Says what to do."""
    return f"Work on {context.state.get('topic')} for {context.user_id}."


async def grow(state: Any) -> dict[str, Any]:
    """An effect."""
    return {"topic": f"{state.get('topic', '')}x"}


class Wrapping(Middleware):
    """Puts what a tool gives into something else."""

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """Call it."""
        return {"wrapped": await call(args)}


class Adders(BaseToolset):
    """A toolset with a tool that is not async."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return [FunctionTool(add)]


SEEN: list[str] = []
a, b = Agent("a"), Agent("b")
ADDING = [
    types.Part(function_call=types.FunctionCall(name="add", args={"letter": letter})) for letter in "abc"
]
CASES: dict[str, tuple[Expr[Any], dict[str, Any]]] = {
    "tool": (a.tool(note), {"a": [call_tool("note", text="tea"), "done"]}),
    "artifact": (
        a.tool(keep) >> A.save("x.txt", "y") >> A.load("x.txt"),
        {"a": [call_tool("keep", file="f"), "done"]},
    ),
    "wrapped": (a.tools(T.timeout(T.retry(note), LIMIT)), {"a": [call_tool("note", text="tea"), "done"]}),
    "middleware around a tool": (
        a.tools(note, T.timeout(pay, LIMIT)).middleware(Wrapping()),
        {"a": [call_tool("note", text="tea"), call_tool("pay", amount=3), "done"]},
    ),
    "agent tool": (
        a.tools(T.agent(b.tool(note))),
        {"a": [call_tool("b", request="go"), "done"], "b": [call_tool("note", text="inner"), "said"]},
    ),
    "callbacks": (a.before_model(before_model).after_model(after_model) >> b.before_agent(before_agent), {}),
    "tool callback": (a.tool(note).after_tool(after_tool), {"a": [call_tool("note", text="tea"), "done"]}),
    "instruction": (grow >> a.instruct(instruction), {}),
    "helper model": (a >> b.context(C.summarize()), {"b:summarize": "summed up"}),
    "parallel": (FanOut(a.writes("x"), b.writes("y")) >> grow, {}),
    "loop": (Loop(grow >> a, max_iterations=4).until(lambda state: len(state.get("topic", "")) >= 2), {}),
    "fallback": (a // b, {"a": ConnectionError("cut off")}),
    "retry": (
        a.middleware(retry(max_attempts=2, backoff_base=0.01, on=(ConnectionError,))),
        {"a": [ConnectionError("cut"), "ok"]},
    ),
    "retry of a provider": (
        a.middleware(retry(max_attempts=2, backoff_base=0.01)),
        {"a": [ServerError(503, {"error": {"status": "UNAVAILABLE"}}), "ok"]},
    ),
    "typed": (a @ Bill >> b, {"a": '{"number": 3}'}),
    "asked again": (a.returns(Bill, retries=1) >> b, {"a": ["no json", '{"number": 3}']}),
    "a tool that asks": (
        a.tool(ask),
        {"a": [call_tool("ask", word="x"), call_tool("ask", word="tea"), "ok"]},
    ),
    "calls of one turn": (a.tools(add), {"a": [types.Content(role="model", parts=ADDING), "ok"]}),
    "calls of one turn to a toolset": (
        a.tools(Adders()),
        {"a": [types.Content(role="model", parts=ADDING), "ok"]},
    ),
    "map": (S.set(items=[1, 2, 3]) >> map_over("items", a), {}),
    "route": (a.writes("kind") >> Route("kind").eq("x", b).otherwise(Agent("c")), {"a": "x"}),
    "tap": (a >> tap(lambda state: SEEN.append("seen")) >> b, {}),
    "selected": (
        a.model_select(
            strategy="cost_optimized",
            candidates=[ModelCandidate("gemini-2.5-flash"), ModelCandidate("gemini-2.5-pro")],
        ),
        {},
    ),
    "time limit": (a.timeout(LIMIT), {}),
}


def told(result: RunResult[Any]) -> list[Any]:
    """What happened on each branch in turn, without what is new in every run: branches have no order."""
    fields = ("author", "content", "state_delta", "artifact_delta", "visibility", "model", "error")
    return [
        (
            *(getattr(event, field) for field in fields),
            (event.branch or "").partition("@")[0],
            [(call.tool_name, call.args) for call in event.tool_calls],
            [(response.tool_name, response.result) for response in event.tool_responses],
        )
        for event in sorted(result, key=lambda event: event.branch or "")
        if not event.is_partial
    ]


@pytest.mark.parametrize("case", CASES)
async def test_the_same_as_on_adk(workers: Workers, case: str) -> None:
    """The same events and state, though every task of the workflow runs the tree again from its history."""
    expression, script = CASES[case]
    here = await expression.run("go", backend=mock_backend(script, default="ok"))
    models = mock_backend(script, default="ok")
    there = await expression.run("go", backend=Served(workers, {"models": models, "cached": 0}))
    assert told(there) == told(here)
    assert (there.state, there.text) == (here.state, here.text)
