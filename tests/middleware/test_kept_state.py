"""State that a hook writes around a call that fails: it is stored, though ADK has no event to carry it."""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent
from adk_fluent.errors import RunError
from adk_fluent.middleware import Middleware, cache, pii_filter
from adk_fluent.testing import call_tool, mock_backend


def look(word: str) -> str:
    """Look a word up."""
    raise OSError("no dictionary")


class Before(Middleware):
    async def before_model(self, ctx: Any, request: Any) -> None:
        ctx.state["spent"] = 5


class Around(Middleware):
    async def around_model(self, ctx: Any, request: Any, call: Any) -> AsyncGenerator[Any, None]:
        ctx.state["spent"] = 5
        async for response in call(request):
            yield response


class After(Middleware):
    async def on_model_error(self, ctx: Any, request: Any, error: Exception) -> None:
        ctx.state["spent"] = 5


class Refuses(Middleware):
    async def before_model(self, ctx: Any, request: Any) -> None:
        ctx.state["spent"] = 5
        raise ValueError("too expensive")


class Answered(Middleware):
    async def after_model(self, ctx: Any, response: Any) -> None:
        ctx.state["spent"] = 5
        raise ValueError("not that")


class BeforeTool(Middleware):
    async def before_tool(self, ctx: Any, tool_name: str, args: Any) -> None:
        ctx.state["spent"] = 5


class AroundTool(Middleware):
    async def around_tool(self, ctx: Any, tool_name: str, args: Any, call: Any) -> Any:
        ctx.state["spent"] = 5
        return await call(args)


class AfterTool(Middleware):
    async def on_tool_error(self, ctx: Any, tool_name: str, args: Any, error: Exception) -> None:
        ctx.state["spent"] = 5


class RefusesTool(Middleware):
    async def before_tool(self, ctx: Any, tool_name: str, args: Any) -> None:
        ctx.state["spent"] = 5
        raise ValueError("not that")


DOWN, CALL = OSError("down"), [call_tool("look", word="tea"), "Done."]
CASES: dict[str, tuple[Middleware, Any]] = {
    "before a model": (Before(), DOWN),
    "around a model": (Around(), DOWN),
    "after a model": (After(), DOWN),
    "refusing a model": (Refuses(), "said"),
    "refusing an answer": (Answered(), "said"),
    "before a tool": (BeforeTool(), CALL),
    "around a tool": (AroundTool(), CALL),
    "after a tool": (AfterTool(), CALL),
    "refusing a tool": (RefusesTool(), CALL),
}
every_case = pytest.mark.parametrize("case", CASES)


@every_case
async def test_state_written_around_a_failing_call_is_kept(case: str) -> None:
    """What a hook wrote is in the session, and in the result of the error, though the call failed."""
    middleware, response = CASES[case]
    agent = Agent("a").tool(look).middleware(middleware)
    service = InMemorySessionService()
    where: dict[str, Any] = {"session_service": service, "session_id": "s", "app_name": "app"}
    with pytest.raises(RunError) as caught:
        await agent.run("hi", backend=mock_backend({"a": response}), state={"x": 1}, **where)
    assert caught.value.result is not None
    assert caught.value.result.state == {"x": 1, "spent": 5}
    stored = await service.get_session(app_name="app", user_id="user", session_id="s")
    assert stored is not None
    assert stored.state == {"x": 1, "spent": 5}


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("refusing")])
async def test_the_next_step_sees_what_was_written(case: str) -> None:
    """A fallback goes on with the state that the failed agent's hooks wrote."""
    middleware, response = CASES[case]
    agent = Agent("a").tool(look).middleware(middleware) // Agent("b").instruct("Spent: {spent}")
    backend = mock_backend({"a": response, "b": "ok"})
    result = await agent.run("hi", backend=backend)
    assert (result.text, result.state["spent"]) == ("ok", 5)


@pytest.mark.parametrize("name", ["cache", "cache on disk", "pii filter"])
async def test_an_expression_with_kept_values_can_be_pickled(name: str, tmp_path: Path) -> None:
    """What a middleware keeps stays in its process; its copy works and keeps values of its own."""
    made = {"cache": cache(), "cache on disk": cache(tmp_path), "pii filter": pii_filter()}[name]
    agent = Agent("a").middleware(made)
    backend = mock_backend(default="ok")
    assert (await agent.run("I am ann@example.com", backend=backend)).text == "ok"
    copied = pickle.loads(pickle.dumps(agent))
    assert (await copied.run("I am bob@example.com", backend=backend)).text == "ok"
