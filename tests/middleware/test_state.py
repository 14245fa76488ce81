"""What hooks write to state is stored, whatever the hook and the version of ADK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from adk_fluent import Agent
from adk_fluent.middleware import CallModel, CallTool, Context, Middleware
from adk_fluent.middleware.checking import HOOKS
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import SERVICES, close, session_service

WRITING = [name for name in HOOKS if name not in ("on_run_error", "on_agent_error")]


class Writes(Middleware):
    """Writes in every hook, under the hook's name, and notes what each context says."""

    def __init__(self) -> None:
        self.who: set[tuple[str, str, str]] = set()

    def write(self, ctx: Context, hook: str) -> None:
        self.who.add((hook, ctx.user_id, ctx.session_id))
        assert ctx.invocation_id
        ctx.state[hook] = ctx.state.get(hook, 0) + 1
        ctx.state["user:seen"] = True
        assert hook in ctx.state
        assert ctx.state[hook] == ctx.state.to_dict()[hook]

    async def on_user_message(self, ctx: Context, message: types.Content) -> None:
        self.write(ctx, "on_user_message")

    async def before_run(self, ctx: Context) -> None:
        self.write(ctx, "before_run")

    async def after_run(self, ctx: Context) -> None:
        self.write(ctx, "after_run")

    async def on_event(self, ctx: Context, event: Any) -> None:
        self.write(ctx, "on_event")

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        self.write(ctx, "before_agent")

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        self.write(ctx, "after_agent")

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.write(ctx, "before_model")

    async def after_model(self, ctx: Context, response: LlmResponse) -> None:
        self.write(ctx, "after_model")

    async def on_model_error(self, ctx: Context, request: LlmRequest, error: Exception) -> str:
        self.write(ctx, "on_model_error")
        return "never mind"

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        self.write(ctx, "around_model")
        async for response in call(request):
            yield response

    async def before_tool(self, ctx: Context, tool_name: str, args: dict[str, Any]) -> None:
        self.write(ctx, "before_tool")

    async def after_tool(
        self, ctx: Context, tool_name: str, args: dict[str, Any], result: dict[str, Any]
    ) -> None:
        self.write(ctx, "after_tool")

    async def on_tool_error(
        self, ctx: Context, tool_name: str, args: dict[str, Any], error: Exception
    ) -> dict[str, Any]:
        self.write(ctx, "on_tool_error")
        return {"result": "never mind"}

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        self.write(ctx, "around_tool")
        return await call(args)


def fail() -> str:
    """Always fails."""
    raise ValueError("no")


@pytest.mark.parametrize("kind", SERVICES)
async def test_what_every_hook_writes_is_stored(kind: str, tmp_path: Path) -> None:
    """In memory and on disk: what each hook wrote is in the session when it is read anew."""
    service = session_service(kind, tmp_path)
    answers: list[Any] = [call_tool("fail"), "done"]
    backend = mock_backend({"a": answers, "b": ValueError("no")}, session_service=service)
    writes = Writes()
    pipeline = (Agent("a").tool(fail) >> Agent("b")).middleware(writes)
    result = await pipeline.run("hi", backend=backend, user_id="u", session_id="s")
    assert result.text == "never mind"
    if kind != "memory":
        await close(service)
        service = session_service(kind, tmp_path)
    session = await service.get_session(app_name="adk_fluent_app", user_id="u", session_id="s")
    assert session is not None
    stored = {key: value for key, value in session.state.items() if key in HOOKS}
    once = {"on_user_message": 1, "before_run": 1, "after_run": 1, "on_model_error": 1, "on_tool_error": 1}
    assert sorted(stored) == sorted(WRITING)
    assert stored.items() >= once.items()
    assert stored["before_model"] == stored["around_model"] == 3
    assert stored["after_model"] == 3 if "after_model" in stored else True
    assert session.state["user:seen"] is True
    assert {(user, id) for _, user, id in writes.who} == {("u", "s")}
    await close(service)


async def test_what_it_writes_makes_no_turn_of_a_conversation() -> None:
    """The events that carry it have no words, and the agents see what they saw without."""
    plain = mock_backend(default="x")
    with_it = mock_backend(default="x")
    pipeline = Agent("a") >> Agent("b")
    for backend, middleware in ((plain, []), (with_it, [Writes()])):
        async with pipeline.session(backend=backend, middleware=middleware) as chat:
            await chat.send("hi")
            await chat.send("again")
    sent = [[request.contents for request in backend.calls["b"]] for backend in (plain, with_it)]
    assert sent[0] == sent[1]


async def test_it_is_stored_by_native_runners(tmp_path: Path) -> None:
    """On ADK's own runner, too."""

    class Says(Middleware):
        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="x")]))

    service = session_service("sqlite", tmp_path)
    app = Agent("a", "gemini-2.5-flash").middleware(Writes(), Says()).to_app()
    runner = Runner(app=app, session_service=service)
    await service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
        pass
    session = await service.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session is not None
    written = {key for key in session.state if key in HOOKS}
    assert written == {name for name in WRITING if "tool" not in name and "error" not in name}
