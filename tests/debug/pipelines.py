"""Pipelines of every kind, with scripts that answer at different speeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, C, FanOut, Route, S, T, gate, map_over, race, until
from adk_fluent.errors import ADKFluentError
from adk_fluent.middleware import retry
from adk_fluent.testing import call_tool, mock_backend

Script = Mapping[str, Any]


def slowly(rounds: int, text: str) -> Callable[[LlmRequest], AsyncIterator[str]]:
    """A model that answers after some rounds of the event loop."""

    async def answer() -> AsyncIterator[str]:
        for _ in range(rounds):
            await asyncio.sleep(0)
        yield text

    return lambda request: answer()


def look_up(order: str) -> dict[str, Any]:
    """Look an order up."""
    CALLED.append(order)
    return {"order": order, "paid": True}


def remember(order: str, tool_context: Any) -> str:
    """Remember an order."""
    CALLED.append(order)
    tool_context.state["seen"] = order
    return f"{order} is noted"


def lose(order: str) -> str:
    """Lose an order."""
    CALLED.append(order)
    raise ValueError(f"{order} is lost")


CALLED: list[str] = []
"""The orders that tools were really called with."""

A, B, D = Agent("a"), Agent("b"), Agent("d")
READER = Agent("reader").instruct("Read {said?} and {seen?}.")


def recovering(request: LlmRequest) -> Any:
    """Calls a tool, and then answers."""
    return "sorry" if len(request.contents) > 1 else call_tool("look_up", order="7")


def paced(request: LlmRequest) -> Any:
    """Answers about an item at the pace of that item."""
    config: Any = request.config
    item = next(item for item in "xyz" if f"Do {item}." in str(config.system_instruction))
    return slowly({"x": 30, "y": 2, "z": 11}[item], f"did {item}")(request)


PIPELINES: Mapping[str, tuple[Any, Script]] = {
    "sequence": (A.writes("said") >> S.set(n=1) >> READER, {"a": "one", "reader": "two"}),
    "loop": (
        (A.writes("said") >> S.counter("n")) * until(lambda s: s.get("n", 0) > 2),
        {"a": ["x", "y", "z"]},
    ),
    "route": (
        A.writes("kind") >> Route("kind").eq("x", B).otherwise(D),
        {"a": "x", "b": "it is x", "d": "it is not"},
    ),
    "parallel": (
        (A.writes("said") | B.writes("seen") | D) >> READER,
        {"a": slowly(30, "one"), "b": slowly(3, "two"), "d": "three", "reader": "all"},
    ),
    "same agent twice": ((A | A) >> A, {"a": [slowly(9, "one"), "two", "three"]}),
    "race": (
        race(A >> D, B) >> READER,
        {"a": "one", "d": slowly(90, "late"), "b": slowly(40, "won"), "reader": "read"},
    ),
    "first": (
        FanOut(A, B, merge="first_complete") >> READER,
        {"a": slowly(60, "slow"), "b": slowly(5, "fast"), "reader": "read"},
    ),
    "fallback": (A // B, {"a": ConnectionError("lost"), "b": "two"}),
    "retries": (
        A.middleware(retry(backoff_base=0)) | B,
        {"a": [ConnectionError("lost"), TimeoutError("slow"), "three"], "b": slowly(4, "b")},
    ),
    "tools": (
        A.tools(look_up, remember) >> READER,
        {
            "a": [call_tool("look_up", order="7"), call_tool("remember", order="7"), "done"],
            "reader": "read",
        },
    ),
    "a tool that fails": (A.tool(lose) // B, {"a": call_tool("lose", order="7"), "b": "instead"}),
    "an agent as tool": (
        A.tools(T.agent(B.tool(look_up))),
        {"a": [call_tool("b", request="why?"), "so"], "b": recovering},
    ),
    "helpers": (
        A >> READER.context(C.summarize()),
        {"a": "a long text", "reader:summarize": "short", "reader": "read"},
    ),
    "map": (
        S.set(items=["x", "y", "z"]) >> map_over("items", A.instruct("Do {_item}."), concurrency=3),
        {"a": paced},
    ),
    "structured": (A.writes("said"), {"a": {"said": "one", "more": [1, {"deep": True}]}}),
    "gated": (A >> gate(lambda s: True, message="Go on?", into="ok") >> B, {"a": "one", "b": "two"}),
    "failing": (A >> B, {"a": "one", "b": ValueError("no")}),
}
"""Name → an expression, and what its models answer."""


async def run_all(expression: Any, script: Script, tape: Any, turns: int = 2) -> None:
    """Some turns in one session, with every approval given, recorded on `tape`."""
    watched, backend = tape.install(expression), mock_backend(script)
    session = "s"
    for turn in range(turns):
        try:
            result = await watched.run(f"turn {turn}", backend=backend, session_id=session)
            if result.pending:
                approvals = {pending.id: {"by": turn} for pending in result.pending}
                await watched.resume(session_id=session, approvals=approvals, backend=backend)
        except ADKFluentError:
            if "b" in script and isinstance(script["b"], ValueError):
                continue
            raise
