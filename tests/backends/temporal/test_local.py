"""`ExecutionConfig(durable="local")`: the same guarantees on one machine, with nothing to start."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, S, gate
from adk_fluent.backends import TemporalBackend, TraceBackend
from adk_fluent.backends.temporal import local
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.sharing import leave_servers, shared
from adk_fluent.backends.temporal.worker import working
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import run_worker
from adk_fluent.errors import ArgumentError, EngineError, SessionConflictError, SessionError
from adk_fluent.testing import mock_backend
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import FOLDER, pipeline
from tests.backends.test_waiting import GIVEN, B, all_kinds, calls_at_once, every_kind
from tests.limits import LIMIT, in_thread
from tests.processes import run_file

pytestmark = pytest.mark.newest

LOCAL = ExecutionConfig(durable="local")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which a program is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    yield tmp_path
    leave_servers()


async def test_a_run_goes_on_where_its_program_was_killed(place: Path) -> None:
    """Run again with the same session and prompt, it does what was not done; another prompt is refused."""
    crew = Crew("", place, "")
    crew.hold("look")
    crew.start_alone("hi", "one")
    try:
        await crew.until("look begins")
    finally:
        crew.end()
    with pytest.raises(SessionConflictError, match="'one' has a run that has not ended"):
        await pipeline.run("another", session_id="one", config=LOCAL)
    crew.release("look")
    result = await pipeline.run("hi", session_id="one", config=LOCAL)
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun.pop("look begins") in (2, 3)  # the refused one has begun it as well
    assert set(begun.values()) == {1}


@pytest.mark.faults
async def test_a_step_that_kills_its_program_goes_on_alone(place: Path) -> None:
    """A step that killed two programs is begun by a third, on the queue that the first one left."""
    crew = Crew("", place, "")
    (place / "die-look").touch()
    try:
        for _ in range(2):
            crew.start_alone("hi", "one")
            await in_thread(crew.ended)
        assert crew.ended() == [-signal.SIGKILL] * 2
        (place / "die-look").unlink()
        result = await pipeline.run("hi", session_id="one", config=LOCAL)
    finally:
        crew.end()
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun.pop("look begins") == 3
    assert set(begun.values()) == {1}


async def test_programs_share_a_folder(place: Path) -> None:
    """Two that start at once have one server, which lasts as long as anybody uses it."""
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(state: object) -> dict[str, str]:
        begun.set()
        await goes_on.wait()
        return {"waited": "yes"}

    crew = Crew("", place, "")
    crew.hold("look")
    try:
        for name in ("one", "two"):
            crew.start_alone("hi", name)
        await crew.until("look begins", 2)
        mine = (waits >> Agent("a")).run("hi", config=LOCAL, backend=mock_backend({"a": "still here"}))
        run = asyncio.ensure_future(mine)
        await begun.wait()
        crew.release("look")
        assert await in_thread(crew.ended) == [0, 0]
        goes_on.set()
        assert (await run).text == "still here"
    finally:
        crew.end()
    ends = Counter(line for line in crew.log() if line.endswith("ends"))
    assert set(ends.values()) == {2}


async def test_a_folder_that_cannot_be_written(place: Path) -> None:
    """It is named, in one line."""
    (place / ".adk-fluent").write_text("a file")
    with pytest.raises(EngineError, match=r"keeps runs in .*\.adk-fluent, which cannot be written") as found:
        await Agent("a").run("hi", config=LOCAL, backend=mock_backend({"a": "x"}))
    assert "\n" not in str(found.value)


async def test_runs_streams_approvals_and_sessions(place: Path) -> None:
    """It is a backend like any other: turns follow one another, a gate waits, a stream streams."""
    steps = S.counter("n") >> Agent("a").writes("said") >> gate(lambda state: state["n"] == 2, message="Go?")
    script = mock_backend({"a": "one two"})
    first = await steps.run("hi", session_id="s", config=LOCAL, backend=script)
    assert (first.text, first.state) == ("one two", {"n": 1, "said": "one two"})
    second = await steps.run("hi", session_id="s", config=LOCAL, backend=script)
    assert [pending.message for pending in second.pending] == ["Go?"]
    approvals = {second.pending[0].id: True}
    done = await steps.resume(session_id="s", approvals=approvals, config=LOCAL, backend=script)
    assert done.state["n"] == 2
    stream = Agent("a").stream("hi", config=LOCAL, backend=script)
    assert [event.content async for event in stream if event.is_partial] == ["one ", "two"]


async def test_a_run_waits_on_when_its_program_has_ended(place: Path) -> None:
    """Answers are given by two programs, each with an engine of its own; none is lost."""
    expression, models = all_kinds() >> B, mock_backend({}, default=every_kind)
    options: dict[str, Any] = {"session_id": "s", "config": LOCAL, "backend": models}
    result = await expression.run("hi", **options)
    assert {pending.kind for pending in result.pending} == set(GIVEN)
    while waiting := result.pending:
        if len(waiting) == 3:  # the first is answered
            leave_servers()
            vars(local)["_backend"].cache_clear()
        with pytest.raises(SessionError, match="does not wait for 'x'; it waits for '"):
            await expression.resume(answers={"x": True}, **options)
        result = await expression.resume(answers={waiting[0].id: GIVEN[waiting[0].kind]}, **options)
        assert [pending.id for pending in result.pending] == [pending.id for pending in waiting[1:]]
    assert result.text == "ok"
    asked = {agent: len(calls) for agent, calls in models.calls.items()}
    assert asked == await calls_at_once(expression)


async def test_only_adk_is_durable(place: Path) -> None:
    """Another backend cannot be made so."""
    with pytest.raises(ArgumentError, match="TraceBackend; leave backend or durable out"):
        await Agent("a").run("hi", config=LOCAL, backend=TraceBackend(mock_backend({"a": "x"})))
    with pytest.raises(ArgumentError, match="durable='far'"):
        ExecutionConfig(durable="far")  # pyright: ignore[reportArgumentType]  # what a caller may give


PAIR = Agent("a") >> Agent("b")
SCRIPT = mock_backend({"a": "one", "b": "two"})


async def test_runs_of_one_program_share_a_worker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten runs at once, and `map`, are done by one worker per queue, and it ends with the last of them."""
    begun: list[str] = []

    @asynccontextmanager
    async def counted(*given: Any, on: str, **options: Any) -> AsyncGenerator[None]:
        begun.append(on)
        async with working(*given, on=on, **options):
            yield
        begun.append("ended")

    monkeypatch.setattr(local, "working", counted)
    runs = [PAIR.run("hi", config=LOCAL, backend=SCRIPT) for _ in range(10)]
    assert {result.text for result in await asyncio.gather(*runs)} == {"two"}
    assert (len(begun), begun[1]) == (2, "ended")
    assert await PAIR.map(["1", "2", "3"], config=LOCAL, backend=SCRIPT) == ["two"] * 3


async def test_runs_with_other_models_do_not_mix(place: Path) -> None:
    """At the same time, in one program, each run is answered by the models that it was given."""
    others = mock_backend({"a": "x", "b": "y"})
    runs = [PAIR.run("hi", config=LOCAL, backend=[SCRIPT, others][n % 2]) for n in range(4)]
    assert [result.text for result in await asyncio.gather(*runs)] == ["two", "y", "two", "y"]


async def test_runs_within_runs(place: Path) -> None:
    """A step of a durable run may wait for durable runs, of its own expression and in a conversation."""

    async def inner(state: Mapping[str, Any]) -> dict[str, str]:
        return {"inner": await PAIR.ask_async("in", config=LOCAL, backend=SCRIPT)}

    async with (inner >> PAIR).session(config=LOCAL, backend=SCRIPT) as chat:
        turns = [await chat.send("hi") for _ in range(2)]
    assert [(turn.text, turn.state["inner"]) for turn in turns] == [("two", "two")] * 2


async def test_one_of_many_runs_is_cancelled(place: Path) -> None:
    """The run that started the worker is cancelled; the others go on with it."""
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(state: object) -> dict[str, str]:
        begun.set()
        await goes_on.wait()
        return {"waited": "yes"}

    expression = waits >> Agent("a")
    first = asyncio.ensure_future(expression.run("hi", config=LOCAL, backend=SCRIPT))
    await begun.wait()
    others = [asyncio.ensure_future(expression.run("hi", config=LOCAL, backend=SCRIPT)) for _ in range(2)]
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    goes_on.set()
    assert [result.text for result in await asyncio.gather(*others)] == ["one", "one"]


async def test_ask_from_threads(place: Path) -> None:
    """Threads, each with an event loop of its own, ask at the same time."""
    ask = partial(PAIR.ask, "hi", config=LOCAL, backend=SCRIPT)
    assert await asyncio.gather(*(in_thread(ask) for _ in range(8))) == ["two"] * 8


def test_a_loop_is_closed_while_a_run_is_going(place: Path) -> None:
    """A later run in another loop is done as if nothing had happened."""
    closing = """
loop = asyncio.new_event_loop()
loop.run_until_complete(anext(pair.stream("hi", **given)))
loop.close()
print(pair.ask("hi", **given))
"""
    assert _printed(place, closing) == ["two"]


def test_a_fork_of_a_process_with_durable_runs(place: Path) -> None:
    """A run in it is refused: Temporal's client does not survive a fork. The parent goes on with its runs."""
    forking = """
print(pair.ask("hi", **given), flush=True)
if (child := os.fork()) == 0:
    try:
        pair.ask("hi", **given)
    except EngineError as error:
        print(error, flush=True)
    sys.exit()
print(os.waitpid(child, 0)[1], pair.ask("hi", **given))
"""
    first, refused, last = _printed(place, forking)
    assert (first, last) == ("two", "0 two")
    assert refused.startswith("This process was forked from one that had used a Temporal server")


def test_a_fork_before_the_first_durable_run(place: Path) -> None:
    """What was only imported before works in the child and in the parent."""
    forking = """
if (child := os.fork()) == 0:
    print(pair.ask("hi", **given), flush=True)
    sys.exit()
print(os.waitpid(child, 0)[1], pair.ask("hi", **given))
"""
    assert _printed(place, forking) == ["two", "0 two"]


_BEGINNING = """
import asyncio, os, sys
from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import EngineError
from adk_fluent.testing import mock_backend

pair = Agent("a") >> Agent("b")
given = {"config": ExecutionConfig(durable="local"), "backend": mock_backend({"a": "one", "b": "two"})}
"""


def _printed(place: Path, program: str) -> list[str]:
    """The lines that a program prints."""
    (file := place / "program.py").write_text(_BEGINNING + program)
    done = run_file(file)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


async def test_two_workers_of_one_program_on_one_queue(temporal: DevServer) -> None:
    """`run_worker` may be called twice for one expression, beside runs that are durable here."""
    workers = [
        asyncio.ensure_future(run_worker(PAIR, address=temporal.address, models=SCRIPT)) for _ in range(2)
    ]
    backend = TemporalBackend(temporal.address, worker_timeout=LIMIT)
    runs = [PAIR.run("hi", backend=backend) for _ in range(4)]
    try:
        assert {result.text for result in await asyncio.gather(*runs)} == {"two"}
        assert not any(worker.done() for worker in workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def test_a_worker_beside_local_runs(temporal: DevServer, place: Path) -> None:
    """`run_worker` and runs that are durable here work in one program at once, each with its own models."""
    others = mock_backend({"a": "x", "b": "y"})
    worker = asyncio.ensure_future(run_worker(PAIR, address=temporal.address, models=SCRIPT))
    far = TemporalBackend(temporal.address, worker_timeout=LIMIT)
    try:
        here = [PAIR.run("hi", config=LOCAL, backend=others) for _ in range(2)]
        runs = [PAIR.run("hi", backend=far), *here, PAIR.run("hi", backend=far)]
        assert [result.text for result in await asyncio.gather(*runs)] == ["two", "y", "y", "two"]
        assert (await PAIR.run("hi", backend=far)).text == "two"  # the worker outlasts what is shared
        assert not worker.done()
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_a_shared_worker_that_fails_is_started_again() -> None:
    """A failure after the start is logged and mended; one at the start reaches every run that waits."""
    opened: list[str] = []
    fails, works = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def opens() -> AsyncGenerator[None]:
        opened.append("opened")
        if len(opened) == 2:
            works.set()
        task = asyncio.current_task()
        assert task is not None
        watching = asyncio.ensure_future(fails.wait())
        watching.add_done_callback(lambda _: task.cancel() if len(opened) == 1 else None)
        try:
            yield
        except asyncio.CancelledError:
            task.uncancel()
            raise ConnectionError("refused") from None
        finally:
            watching.cancel()

    @asynccontextmanager
    async def never() -> AsyncGenerator[None]:
        raise EngineError("no server")
        yield

    async def use() -> None:
        async with shared("never", never):
            raise AssertionError

    async with shared("worker", opens), shared("worker", opens):
        fails.set()
        await works.wait()
    assert opened == ["opened", "opened"]
    failed = await asyncio.gather(use(), use(), return_exceptions=True)
    assert [str(error) for error in failed] == ["no server", "no server"]
