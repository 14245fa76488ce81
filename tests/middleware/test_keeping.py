"""Values that a middleware keeps: one per run or session, gone with it, and never another's."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent, S, gate
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.errors import RunError
from adk_fluent.middleware import CallModel, Context, Middleware
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang

a, b = Agent("a"), Agent("b")


class Spends(Middleware):
    """Counts the model calls of each run and of each session."""

    def __init__(self) -> None:
        self.spent = self.per_run(Counter[str])
        self.session = self.per_session(Counter[str])
        self.totals: list[dict[str, int]] = []
        self.sessions: list[dict[str, int]] = []

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.spent(ctx)[ctx.agent_name] += 1
        self.session(ctx)[ctx.agent_name] += 1

    async def after_run(self, ctx: Context) -> None:
        self.totals.append(dict(self.spent(ctx)))
        self.sessions.append(dict(self.session(ctx)))


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No run of a test leaves a value behind, and none is counted that another test left."""
    monkeypatch.setattr(runs, "_runs", {})
    monkeypatch.setattr(runs, "_sessions", weakref.WeakKeyDictionary[Any, Any]())
    yield
    assert runs.kept()[0] == 0


async def test_objects_of_many_requests_leave_few_values() -> None:
    """Of middleware that is made for each request, a session keeps the values of the latest 64 objects."""
    service = InMemorySessionService()
    backend = mock_backend(default="x", session_service=service)
    for _ in range(runs.VALUES + 5):
        await a.middleware(Spends()).run("hi", session_id="s", backend=backend)
    assert [len(kept) for kept in runs._sessions[service].values()] == [runs.VALUES]  # pyright: ignore[reportPrivateUsage]  # how many there are


async def test_each_run_has_its_own_value() -> None:
    """A value is made when it is asked for and gone after the run; that of a session goes on."""
    spends, backend = Spends(), mock_backend(default="x")
    pipeline = (a >> b).middleware(spends)
    async with pipeline.session(backend=backend) as chat:
        await chat.send("hi")
        await chat.send("again")
        assert runs.kept()[1] > 0
    assert spends.totals == [{"a": 1, "b": 1}] * 2
    assert spends.sessions == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's, of its own AgentTool
async def test_a_tools_agent_belongs_to_the_run_of_its_caller() -> None:
    """What an agent inside a tool spends is spent by the run that called it."""
    spends = Spends()
    boss = a.tool(AgentTool(Agent("expert").build())).middleware(spends)
    backend = mock_backend({"a": [call_tool("expert", request="go"), "done"], "expert": "I know"})
    await boss.run("hi", backend=backend)
    assert spends.totals == [{"a": 2, "expert": 1}]
    assert spends.sessions == spends.totals


async def test_a_run_that_fails_leaves_nothing() -> None:
    """Neither does it when its model, or a hook, raises."""
    spends = Spends()
    with pytest.raises(RunError):
        await a.middleware(spends).run("hi", backend=mock_backend({"a": ValueError("no")}))
    assert spends.totals == []


async def test_a_run_that_is_cancelled_leaves_nothing() -> None:
    """A run that is cancelled while its model thinks ends its values."""
    hang = Hang()
    task = asyncio.create_task(a.middleware(Spends()).ask_async("hi", backend=mock_backend({"a": hang})))
    await hang.started.wait()
    assert runs.kept()[0] > 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stream_that_is_left_leaves_nothing() -> None:
    """A consumer that goes after the first event ends the run and its values."""
    pipeline = (a >> b).middleware(Spends())
    async with aclosing(pipeline.stream("hi", backend=mock_backend(default="x"))) as events:
        async for _ in events:
            assert runs.kept()[0] == 1
            break
    assert runs.kept()[0] == 0


async def test_a_run_that_pauses_has_ended() -> None:
    """The values end with the pause, and the rest of the run has new ones."""
    spends, backend = Spends(), mock_backend(default="x")
    pipeline = (a >> gate(lambda state: True, message="Go on?") >> b).middleware(spends)
    result = await pipeline.run("hi", backend=backend)
    assert spends.totals == [{"a": 1}]
    approvals = {result.pending[0].id: True}
    await pipeline.resume(session_id=result.session_id, approvals=approvals, backend=backend)
    assert spends.totals == [{"a": 1}, {"b": 1}]


@pytest.mark.parametrize("way", ["to the end", "left", "failed"])
async def test_a_native_runner_leaves_nothing(way: str) -> None:
    """On ADK's own runner, too, however the run ends."""

    class Fails(Spends):
        async def after_model(self, ctx: Context, response: LlmResponse) -> None:
            if way == "failed":
                raise ValueError("no")

    class Says(Middleware):
        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="x")]))

    one, two = Agent("a", "gemini-2.5-flash"), Agent("b", "gemini-2.5-flash")
    app = (one >> two).middleware(Says(), Fails()).to_app()
    runner = Runner(app=app, session_service=InMemorySessionService())
    await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    raised = pytest.raises(RuntimeError) if way == "failed" else nullcontext()
    with raised:
        async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
            async for _ in events:
                if way == "left":
                    break
    del raised
    gc.collect()  # of what failed, the traceback holds the run


async def test_runs_at_the_same_time_do_not_mix() -> None:
    """Two hundred runs through several middleware at once each count their own calls alone."""

    class Mine(Middleware):
        def __init__(self) -> None:
            self.seen = self.per_run(list[str])
            self.wrong: list[tuple[str, list[str]]] = []
            self.right = 0

        async def on_user_message(self, ctx: Context, message: types.Content) -> None:
            self.seen(ctx).append((message.parts or [])[0].text or "")

        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            await asyncio.sleep(0)
            self.seen(ctx).append((request.contents[0].parts or [])[0].text or "")
            async for response in call(request):
                await asyncio.sleep(0)
                yield response

        async def after_model(self, ctx: Context, response: LlmResponse) -> None:
            await asyncio.sleep(0)
            self.seen(ctx).append(((response.content and response.content.parts) or [])[0].text or "")
            ctx.state["mine"] = self.seen(ctx)[0]

        async def after_run(self, ctx: Context) -> None:
            seen = self.seen(ctx)
            self.right += len(seen) == 5 and len(set(seen)) == 1
            if len(set(seen)) != 1:
                self.wrong.append((ctx.invocation_id, seen))

    def echo(request: LlmRequest) -> str:
        return (request.contents[0].parts or [])[0].text or ""

    stack = [Mine(), Mine(), Mine()]
    pipeline = (a | b).middleware(stack[0]).middleware(stack[1], stack[2])
    backend = mock_backend({"a": echo, "b": echo})
    results = await asyncio.gather(*(pipeline.run(str(n), backend=backend) for n in range(200)))
    assert [result.state["mine"] for result in results] == [str(n) for n in range(200)]
    assert [(each.wrong, each.right) for each in stack] == [([], 200)] * 3


async def test_nothing_grows_over_hundreds_of_runs() -> None:
    """After five hundred runs not one value of a run is kept, nor one of a session that was forgotten."""

    class Steps(Middleware):
        def __init__(self) -> None:
            self.run = self.per_run(list[int])
            self.session = self.per_session(list[int])
            self.most = 0

        async def before_agent(self, ctx: Context, agent_name: str) -> None:
            self.run(ctx).append(1)
            self.session(ctx).append(1)
            self.most = max(self.most, len(self.run(ctx)), len(self.session(ctx)), *runs.kept())

    steps, backend = Steps(), mock_backend()
    step = S.set(k=1).middleware(steps)
    await step.map(["hi"] * 500, backend=backend, concurrency=5)
    assert runs.kept() == (0, 0)
    assert 1 <= steps.most <= 5


async def test_sessions_that_nobody_ends_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a service's sessions those used last are kept, up to the bound."""
    monkeypatch.setattr(runs, "SESSIONS", 3)
    spends, backend = Spends(), mock_backend(default="x")
    agent = a.middleware(spends)
    for session in ("1", "2", "1", "3", "4", "1", "2"):
        await agent.run("hi", backend=backend, session_id=session)
    assert runs.kept()[1] == 3
    assert spends.sessions == [{"a": n} for n in (1, 1, 2, 1, 1, 3, 1)]


async def test_a_rewind_takes_back_what_is_kept_for_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of a session are what they were before the run; of too many runs ago, they start anew."""
    monkeypatch.setattr(runs, "COPIES", 3)
    spends = Spends()
    on: dict[str, Any] = {"session_id": "s", "backend": mock_backend(default="x")}
    agent = a.middleware(spends)
    made = [await agent.run("hi", **on) for _ in range(5)]
    for index, count in ((4, 5), (3, 4), (2, 3), (1, 1)):
        await agent.rewind(before_invocation_id=made[index].invocation_id, **on)
        await agent.run("hi", **on)
        assert spends.sessions[-1] == {"a": count}


async def test_a_value_that_cannot_be_copied_starts_anew() -> None:
    """A rewind drops a value of the session that Python cannot copy."""

    class Locks(Middleware):
        def __init__(self) -> None:
            self.held = self.per_session(list[Any])
            self.seen: list[int] = []

        async def before_run(self, ctx: Context) -> None:
            self.held(ctx).append(threading.Lock())
            self.seen.append(len(self.held(ctx)))

    locks = Locks()
    on: dict[str, Any] = {"session_id": "s", "backend": mock_backend(default="x")}
    agent = a.middleware(locks)
    await agent.run("hi", **on)
    run = await agent.run("hi", **on)
    await agent.rewind(before_invocation_id=run.invocation_id, **on)
    await agent.run("hi", **on)
    assert locks.seen == [1, 2, 1]


async def test_a_live_conversation_and_a_run_share_what_is_kept_for_their_session() -> None:
    """What is kept for a session is the same in a live conversation as in the turns after it."""

    class Hears(Middleware):
        def __init__(self) -> None:
            self.heard = self.per_session(list[str])

        async def on_event(self, ctx: Context, event: Any) -> None:
            if event.content and not event.is_partial:
                self.heard(ctx).append(event.content)
                ctx.state["heard"] = list(self.heard(ctx))

    agent, backend = a.middleware(Hears()), mock_backend({"a": ["spoken", "written"]})
    async with agent.live(backend=backend, modality="text", session_id="s") as live:
        await live.send("hi")
        async for event in live:
            if event.turn_complete:
                break
    result = await agent.run("again", backend=backend, session_id="s")
    assert result.state["heard"] == ["spoken", "written"]
