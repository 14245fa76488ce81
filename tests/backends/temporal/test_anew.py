"""A run that is longer than what one history holds goes on in a new one, and nobody notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService
from temporalio.client import WorkflowFailureError

from adk_fluent import Agent, Loop, Route, S, gate
from adk_fluent.backends import MockBackend, TemporalBackend
from adk_fluent.backends.adk.running.sqlite import sqlite_sessions
from adk_fluent.backends.temporal import sizes
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed.durable import hosting
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import token_budget
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import rounds
from tests.backends.temporal.test_steps import told
from tests.limits import LIMIT

pytestmark = pytest.mark.newest


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories of some four steps."""
    monkeypatch.setattr(sizes, "LONG_EVENTS", 30)


@pytest.fixture
def sessions(tmp_path: Path) -> BaseSessionService:
    """Sessions in a file."""
    return sqlite_sessions(tmp_path / "sessions.db")


async def histories(backend: TemporalBackend, session_id: str) -> tuple[int, str]:
    """How many histories the run of a session had, and how it ended."""
    client = await backend.address.client()
    name = f"adk_fluent_app/user/{session_id}"
    with suppress(WorkflowFailureError):
        await client.get_workflow_handle(name).result()
    described = await client.get_workflow_handle(name).describe()
    assert described.status is not None
    count, run_id = 0, described.run_id
    while run_id:
        count += 1
        events = client.get_workflow_handle(name, run_id=run_id).fetch_history_events()
        began = (await anext(events)).workflow_execution_started_event_attributes
        run_id = began.continued_execution_run_id
    return count, described.status.name


class Counted:
    """A model that says how often it was asked, and waits the last time until the test goes on."""

    def __init__(self, last: int) -> None:
        self._loop, self._asked, self._last = asyncio.get_running_loop(), 0, last
        self.at_last, self.go_on = asyncio.Event(), asyncio.Event()

    async def say(self, request: Any) -> AsyncGenerator[str]:
        """The number, and a word."""
        self._asked += 1
        yield f"{self._asked} "
        if self._asked == self._last:
            self._loop.call_soon_threadsafe(self.at_last.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.go_on.wait(), self._loop))
        yield "said"


def asked(models: MockBackend) -> dict[str, list[list[Any]]]:
    """What each model was asked."""
    return {
        name: [[content.model_dump(exclude_none=True) for content in call.contents] for call in calls]
        for name, calls in models.calls.items()
    }


async def approved(expression: Expr[Any], backend: Any, session_id: str) -> tuple[int, list[Any], Any]:
    """How often a run waited for approval, which it got, then what happened in all, and its state."""
    times, result = 0, await expression.run("go", session_id=session_id, backend=backend)
    events = list(result)
    while result.pending:
        times += 1
        approvals = {one.id: True for one in result.pending}
        result = await expression.resume(session_id=session_id, approvals=approvals, backend=backend)
        events += result
    return times, [(event.author, event.content) for event in events if event.content], result.state


def look() -> str:
    """Look."""
    return "seen"


a, b, c = Agent("a").writes("said"), Agent("b"), Agent("c")
CASES: dict[str, tuple[Expr[Any], dict[str, Any]]] = {
    "loop": (Loop(a >> b.instruct("After {said}.") >> S.counter("n"), max_iterations=9), {}),
    "until": (Loop(S.counter("temp:n") >> a, max_iterations=50).until(lambda s: s["temp:n"] == 17), {}),
    "inside": (c >> Loop(Loop(a, max_iterations=3) >> b, max_iterations=5) >> Agent("d"), {}),
    "route": (
        Loop(a >> Route("said").eq("x", Loop(b, max_iterations=2)).otherwise(c), max_iterations=6),
        {"a": ["x", "y", "x", "x", "y", "x"]},
    ),
    "tool": (Loop(Agent("t").tool(look), max_iterations=6), {"t": [call_tool("look"), "done"] * 6}),
    "segments": (Loop(a, max_iterations=9) >> b.instruct("After {said}.").execution_boundary(), {}),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_same_as_on_adk(workers: Workers, sessions: BaseSessionService, case: str) -> None:
    """The same events, state and requests, though it took several histories."""
    expression, script = CASES[case]
    near = mock_backend(script, default="ok")
    here = await expression.run("go", backend=near)
    models, session_id = mock_backend(script, default="ok"), f"anew-{case}"
    backend = Served(workers, {"models": models, "cached": 0, "host": hosting()}, sessions)
    there = await expression.run("go", session_id=session_id, backend=backend)
    assert told(there) == told(here)
    assert (there.state, there.text) == (here.state, here.text)
    assert asked(models) == asked(near)
    count, ended = await histories(backend, session_id)
    assert (count > 1, ended) == (True, "COMPLETED")


async def test_a_stream_is_read_through_all_of_them(workers: Workers, sessions: BaseSessionService) -> None:
    """Each piece once and in order; who comes later reads the same from the start."""
    counted = Counted(8)
    loop = Loop(S.counter("n") >> Agent("a"), max_iterations=8)
    backend = Served(workers, {"models": mock_backend({"a": counted.say})}, sessions)

    reads = asyncio.Event()

    async def read() -> list[tuple[str, str | None]]:
        pieces: list[tuple[str, str | None]] = []
        async for event in loop.stream("go", session_id="read", backend=backend):
            reads.set()
            if event.is_partial:
                pieces.append((event.author, event.content))
        return pieces

    first = asyncio.ensure_future(read())
    await counted.at_last.wait()
    await reads.wait()
    reads.clear()
    late = asyncio.ensure_future(read())
    await reads.wait()  # it has joined the run, which ends only now
    counted.go_on.set()
    wanted = [("a", piece) for n in range(1, 9) for piece in (f"{n} ", "said")]
    assert await first == await late == wanted
    assert (await histories(backend, "read"))[0] > 2


async def test_a_run_tells_how_far_it_is(workers: Workers, sessions: BaseSessionService) -> None:
    """Progress counts what all histories gave."""
    backend = Served(workers, {"models": mock_backend({}, default="ok")}, sessions)
    result = await Loop(Agent("a"), max_iterations=12).run("go", session_id="far-anew", backend=backend)
    client = await backend.address.client()
    told_of = await client.get_workflow_handle("adk_fluent_app/user/far-anew").query("progress")
    assert told_of == {"status": "done", "events": len(result)}


async def test_model_calls_are_counted_through_all_of_them(
    workers: Workers, sessions: BaseSessionService
) -> None:
    """The limit of a run is that of the run, not of a history."""
    models = mock_backend({}, default="ok")
    backend = Served(workers, {"models": models}, sessions)
    config = ExecutionConfig(max_llm_calls=20)
    with pytest.raises(RunError, match="limit of `20`"):
        await Loop(Agent("a"), max_iterations=50).run("go", session_id="many", config=config, backend=backend)
    assert len(models.calls["a"]) == 20
    assert (await histories(backend, "many"))[0] > 2


async def test_approvals_in_a_later_history(workers: Workers, sessions: BaseSessionService) -> None:
    """A gate waits in whatever history the run has come to, and its answer finds it."""
    ask = gate(lambda state: state["n"] in (7, 14), message="Go on?")
    loop = Loop(S.counter("n") >> Agent("a") >> ask, max_iterations=16)
    here = await approved(loop, mock_backend({}, default="ok"), "near")
    backend = Served(workers, {"models": mock_backend({}, default="ok")}, sessions)
    assert await approved(loop, backend, "gates") == here
    assert here[0] == 2
    assert (await histories(backend, "gates"))[0] > 3


async def test_who_cancels_it_cancels_the_history_it_is_in(
    workers: Workers, sessions: BaseSessionService
) -> None:
    """The run ends, wherever it is."""
    counted = Counted(9)
    loop = Loop(Agent("a"), max_iterations=20)
    backend = Served(workers, {"models": mock_backend({"a": counted.say})}, sessions)
    run = asyncio.ensure_future(loop.run("go", session_id="cancelled-anew", backend=backend))
    await counted.at_last.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    count, ended = await histories(backend, "cancelled-anew")
    assert count > 1
    assert ended in ("CANCELED", "TERMINATED")


KEEPING = Agent("a").middleware(token_budget(100_000))


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        (Loop(KEEPING, max_iterations=9), True),
        (Loop(Agent("a"), max_iterations=9), False),
        (Loop(Agent("a"), max_iterations=9).timeout(LIMIT), True),
    ],
    ids=["middleware that keeps something", "sessions in memory", "a time limit around it"],
)
async def test_what_would_be_lost_stays_in_one_history(
    workers: Workers, sessions: BaseSessionService, expression: Expr[Any], kept: bool
) -> None:
    """What a new history could not know keeps the run in the one that it has."""
    models = mock_backend({}, default="ok")
    backend = Served(workers, {"models": models}, sessions if kept else None)
    session_id = f"one-{id(expression)}"
    await expression.run("go", session_id=session_id, backend=backend)
    assert await histories(backend, session_id) == (1, "COMPLETED")


async def test_its_session_is_deleted_meanwhile(workers: Workers, sessions: BaseSessionService) -> None:
    """The run cannot go on, and says why."""

    async def say(request: Any) -> AsyncGenerator[str]:
        whose = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "lost"}
        await sessions.delete_session(**whose)
        yield "ok"

    backend = Served(workers, {"models": mock_backend({"a": say})}, sessions)
    with pytest.raises(RunError, match=r"'lost' is not there any more.*session_service"):
        await Loop(Agent("a"), max_iterations=30).run("go", session_id="lost", backend=backend)


async def test_a_killed_worker_repeats_nothing_that_earlier_histories_did(
    temporal: DevServer, tmp_path: Path
) -> None:
    """A worker dies in a later history; another one does that step again, and only that."""
    crew = Crew(temporal.address, tmp_path, "rounds")
    (tmp_path / "long-events").write_text("30")
    backend = backend_of(crew)
    try:
        crew.hold("last")
        crew.start("rounds")
        run = asyncio.ensure_future(rounds.run("hi", session_id="rounds", backend=backend))
        await crew.until("last begins")
        crew.kill("last begins", "rounds")
        crew.release("last")
        assert (await run).text == "I am last."
        begun = Counter(line for line in crew.log() if line.endswith("begins"))
        assert begun == {"first begins": 10, "last begins": 2}
        assert (await histories(backend, "rounds"))[0] > 1
    finally:
        crew.end()
