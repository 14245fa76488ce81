"""What is stored in a run beside the events of its agents: never at once with another event of the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, FanOut, Route, map_over, race
from adk_fluent.adopt import adopt
from adk_fluent.backends.adk.running.convert import knowingly
from adk_fluent.config import CompactionConfig, ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang, PlainLlm, play, replies, reply, script
from tests.clock import advance, with_clock

Step: TypeAlias = Expr[Any]


async def all_that_can() -> None:
    """Let everything go on that waits for nothing but its turn."""
    for _ in range(200):
        await asyncio.sleep(0)


class Slow(SqliteSessionService):
    """SQLite, which has what one agent says long before the session knows of it.

    That is until all else that may has gone on, and has stored what it stores.

    Attributes:
        holding: set when the database has what the agent says.
        most: how many events were being stored at once.
        told: who told what is stored.
    """

    def __init__(self, path: Path, author: str) -> None:
        super().__init__(str(path / "sessions.db"))
        self.holding = asyncio.Event()
        self.most = 0
        self.told: list[str] = []
        self._author = author
        self._open = 0

    async def append_event(self, session: Session, event: Event) -> Event:
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            before = session.last_update_time
            stored = await super().append_event(session, event)
            if event.author == self._author and not self.holding.is_set():
                after, session.last_update_time = session.last_update_time, before
                self.holding.set()
                await self.others()
                session.last_update_time = after
        finally:
            self._open -= 1
        self.told.append(event.author)
        return stored

    async def others(self) -> None:
        """Wait for all else that may go on."""
        await all_that_can()
        while self._open > 1:
            await asyncio.sleep(0)


class Notes(BaseAgent):
    """Stores something itself, as ADK does with a summary, once what it waits for has happened."""

    _ready: asyncio.Event = PrivateAttr()

    @classmethod
    def when(cls, ready: asyncio.Event) -> Step:
        made = cls(name="notes")
        made._ready = ready
        return adopt(made)

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await self._ready.wait()
        note = Event(invocation_id=ctx.invocation_id, author="note", actions=EventActions())
        await ctx.session_service.append_event(session=ctx.session, event=note)
        return
        yield


HOUR = 3600.0
SHAPES: dict[str, Callable[[Step, Step], Step]] = {
    "fan-out": lambda notes, side: FanOut(notes, side),
    "map": lambda notes, side: map_over("items", Route("_item").eq("x", notes).otherwise(side)),
    "first to complete": lambda notes, side: FanOut(
        notes >> Agent("more"), side >> Agent("never"), merge="first_complete"
    ),
    "in a race": lambda notes, side: FanOut(race(notes >> Agent("more"), Agent("never")), side),
    "in a fan-out": lambda notes, side: FanOut(FanOut("inner", notes, Agent("other")), side),
    "in a map": lambda notes, side: FanOut(map_over("items", notes, concurrency=1), side),
    "a map in a map": lambda notes, side: map_over(
        "items",
        Route("_item").eq("x", map_over("items", notes, item_key="_in", concurrency=1)).otherwise(side),
    ),
    "a fan-out in the first to complete": lambda notes, side: FanOut(
        FanOut("inner", notes, side), Agent("never"), merge="first_complete"
    ),
}


@pytest.fixture
def items() -> dict[str, Any]:
    """The state for the maps."""
    return {"items": ["x", "y"]}


async def on_adk(expression: Step, backend: Any, service: Slow, state: dict[str, Any]) -> None:
    """Run on ADK's own runner, as `adk web` does."""
    app: App = backend.compile(expression.node).published()
    runner = Runner(app=app, session_service=service)
    await service.create_session(app_name=app.name, user_id="u", session_id="s", state=state)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("by_adk", [False, True], ids=["run", "adk"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_branch_stores_itself(
    shape: str, by_adk: bool, tmp_path: Path, items: dict[str, Any]
) -> None:
    """While the runner stores what one branch said, no other branch stores anything, and all is stored."""
    service = Slow(tmp_path, "side")
    expression = SHAPES[shape](Notes.when(service.holding), Agent("side")) >> Agent("end")
    responses: dict[str, Any] = {"never": Hang(), "end": "the end"}
    if by_adk:
        await on_adk(expression, script(responses), service, items)
    else:
        result = await play(expression, responses, state=items, session_id="s", session_service=service)
        assert result.text == "the end"
    assert service.most == 1
    assert service.told[-1] == "end"
    assert ("note" in service.told) is (shape != "in a race")


class Interrupted(Slow):
    """SQLite that has a note long before the session knows of it: until the run around it is cancelled."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "note")
        self._run = asyncio.current_task()
        assert self._run is not None

    async def others(self) -> None:
        advance(2 * HOUR)
        assert self._run is not None
        while not self._run.cancelling():
            await asyncio.sleep(0)


@with_clock
async def test_a_step_that_is_out_of_time_while_it_stores(tmp_path: Path) -> None:
    """What it stores is stored to the end, so that the store takes what is done instead."""
    service, begun = Interrupted(tmp_path), asyncio.Event()
    begun.set()
    expression = Notes.when(begun).timeout(HOUR) // Agent("instead")
    result = await play(expression, {"instead": "done"}, session_id="s", session_service=service)
    assert result.text == "done"
    assert service.told == ["user", "note", "fallback", "instead"]


CANCELLED: dict[str, Callable[[Step, Step], Step]] = {
    "fan-out": lambda notes, fails: FanOut(notes, fails),
    "map": lambda notes, fails: map_over("items", Route("_item").eq("x", notes).otherwise(fails)),
    "nested": lambda notes, fails: FanOut(FanOut("inner", notes, Agent("hangs")), fails),
}


@pytest.mark.parametrize("shape", CANCELLED)
async def test_a_branch_that_is_cancelled_while_it_stores(
    shape: str, tmp_path: Path, items: dict[str, Any]
) -> None:
    """What it stores is stored to the end, so that the store takes what is done instead."""
    service, begun = Slow(tmp_path, "note"), asyncio.Event()
    begun.set()

    async def fail(request: LlmRequest) -> AsyncIterator[str]:
        await service.holding.wait()
        raise OSError("no model")
        yield ""

    fails, hang = Agent("fails"), Hang()
    expression = CANCELLED[shape](Notes.when(begun), fails) // Agent("instead")
    result = await play(
        expression,
        {"fails": fail, "instead": "done", "hangs": hang},
        state=items,
        session_id="s",
        session_service=service,
    )
    assert result.text == "done"
    assert service.told[-1] == "instead"
    assert service.most == 1
    assert "note" in service.told


async def test_below_an_agent_that_hands_over(tmp_path: Path) -> None:
    """So it is where the root is an agent, whose events ADK 2.x gives to its runner in a queue."""
    service = Slow(tmp_path, "side")
    desk = FanOut("desk", Notes.when(service.holding), Agent("side"))
    expression = Agent("root").delegate(desk)
    responses = {"root": call_tool("transfer_to_agent", agent_name="desk")}
    await on_adk(expression, script(responses), service, {})
    assert service.most == 1
    assert {"side", "note"} <= set(service.told)


@pytest.mark.newest
@pytest.mark.parametrize("shape", ["fan-out", "map", "first to complete", "in a fan-out"])
async def test_a_summary_that_adk_writes_meanwhile(shape: str, tmp_path: Path, items: dict[str, Any]) -> None:
    """So it is with a summary that ADK writes before it asks a model of a branch."""
    service, summarising = Slow(tmp_path, "side"), asyncio.Event()

    async def summary() -> AsyncIterator[str]:
        summarising.set()
        await service.holding.wait()
        yield "a summary"

    async def beside(request: LlmRequest) -> AsyncIterator[str]:
        await summarising.wait()
        yield "beside"

    long = Agent("long") >> Agent("next")
    responses = {
        "long": "word " * 1200,
        "side": beside,
        "never": Hang(),
        "end": replies(lambda request: "the end" if summarising.is_set() else summary()),
    }
    compaction = CompactionConfig(interval=1000, overlap=1, token_threshold=1000, event_retention_size=0)
    expression = SHAPES[shape](long, Agent("side")) >> Agent("end")
    result = await play(
        expression,
        responses,
        state=items,
        session_id="s",
        session_service=service,
        config=ExecutionConfig(compaction=compaction),
    )
    assert result.text == "the end"
    assert service.most == 1
    assert service.told.count("user") > 1


@pytest.mark.newest
async def test_a_summary_on_the_workflow_target(tmp_path: Path) -> None:
    """So it is in a graph, where the runner stores what all nodes give, and a summary with it."""
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.apps.llm_event_summarizer import LlmEventSummarizer

    service, summarising = Slow(tmp_path, "side"), asyncio.Event()
    requests: list[LlmRequest] = []

    async def says(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=5000)
        yield reply("word " * 3000, usage_metadata=used)

    async def goes_on(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        requests.append(request)
        yield reply("next")

    async def beside(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        await summarising.wait()
        yield reply("beside")

    async def sums_up(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        summarising.set()
        await service.holding.wait()
        yield reply("what was said")

    long, following = (Agent(name).model(PlainLlm.of(by)) for name, by in (("a", says), ("b", goes_on)))
    graph = FanOut(long >> following, Agent("side").model(PlainLlm.of(beside))).build(target="workflow")
    with knowingly():
        compaction = EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=PlainLlm.of(sums_up)),
            compaction_interval=1000,
            overlap_size=1,
            token_threshold=1000,
            event_retention_size=0,
        )
    app = App(name="app", root_agent=graph, events_compaction_config=compaction)
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        stored = [event async for event in events]
    assert service.most == 1
    assert any(event.actions.compaction for event in stored)
    assert requests


async def test_a_message_while_an_answer_is_stored(tmp_path: Path) -> None:
    """In a live conversation a message is stored and answered that is sent while an answer is stored."""
    service = Slow(tmp_path, "a")
    backend = mock_backend({"a": ["one", "two"]}, session_service=service)

    async with Agent("a").live(backend=backend, modality="text", session_id="s") as live:

        async def another() -> None:
            await service.holding.wait()
            await live.send("second")

        sending = asyncio.ensure_future(another())
        await live.send("first")
        answers: list[str] = []
        async for event in live:
            if event.content and not event.is_partial:
                answers.append(event.content)
            if event.turn_complete and len(answers) == 2:
                break
        await sending
    assert answers == ["one", "two"]
    assert service.most == 1
