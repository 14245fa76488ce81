"""Workers and the server die while runs are on their way; what is done is not done again."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from adk_fluent import Agent
from adk_fluent.backends import StepPolicy, TemporalBackend
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import (
    FOLDER,
    everything,
    gated,
    helped,
    pipeline,
    poisoned,
    remote,
    remote_tool,
    sharing,
    shouting,
)

pytestmark = pytest.mark.newest

_BOTH = ("begins", "ends")
STEPS = ("first", "compute", "look", "caller", "last")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A server that these tests may kill."""
    server = DevServer(tmp_path_factory.mktemp("server") / "runs.db")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def pair(server: DevServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Two workers."""
    crew = Crew(server.address, tmp_path_factory.mktemp("crew"), str(uuid.uuid4()))
    try:
        crew.start()
        crew.start()
        yield crew
    finally:
        crew.end()


@pytest.fixture
def crew(pair: Crew) -> Crew:
    """The two workers, which have not done anything yet."""
    pair.clear()
    return pair


def _backend(crew: Crew, **policy: int) -> TemporalBackend:
    return TemporalBackend(
        crew.address, queue=crew.queue, policy=StepPolicy(heartbeat=2.0, **policy), worker_timeout=60
    )


def _once(crew: Crew, *, twice: str = "") -> bool:
    """Whether every step began and ended once, but for one that began twice."""
    begun = {f"{name} begins": 1 + (name == twice) for name in STEPS}
    return Counter(crew.log()) == {**begun, **{f"{name} ends": 1 for name in STEPS}}


@pytest.mark.parametrize("phase", ["first", "compute", "look", "last"])
async def test_a_killed_worker_repeats_nothing_that_is_done(crew: Crew, phase: str) -> None:
    """A worker dies in a step; another one does that step again, and only that, within ten seconds."""
    crew.hold(phase)
    run = asyncio.ensure_future(pipeline.run("hi", backend=_backend(crew)))
    await crew.until(f"{phase} begins")
    killed = time.monotonic()
    crew.kill(f"{phase} begins")
    crew.release(phase)
    await crew.until(f"{phase} begins", 2)
    assert time.monotonic() - killed < 10  # what is promised
    result = await run
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    assert _once(crew, twice=phase)


async def test_a_worker_is_killed_in_every_composite(
    server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is that of plain ADK; what had not ended is done again, and only that."""
    (tmp_path / "here").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "here"))
    here = await everything.run("hi")
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    deaths = [["left", "right"], ["again"], ["routed"], ["each"], ["quick"], ["spare"], ["timed"], ["inner"]]
    held = [phase for phases in deaths for phase in phases]
    for phase in (*held, "late"):
        crew.hold(phase)
    try:
        crew.start("everything")
        run = asyncio.ensure_future(everything.run("hi", backend=_backend(crew)))
        for phases in deaths:
            for phase in phases:
                await crew.until(f"{phase} begins")
            crew.kill(f"{phases[0]} begins", "everything")
            for phase in phases:
                crew.release(phase)
        there = await run
    finally:
        crew.end()
    assert sorted(map(_shown, there)) == sorted(map(_shown, here))  # branches end in any order
    assert there.state == here.state
    begun = Counter(line.partition(" ")[0] for line in crew.log() if line.endswith("begins"))
    ended = Counter(line.partition(" ")[0] for line in crew.log() if line.endswith("ends"))
    del begun["late"]  # which loses, and may not begin again
    assert begun - ended == Counter(held)
    assert ended == {**dict.fromkeys(NAMES, 1), "again": 2, "each": 2}


NAMES = ("left", "right", "routed", "quick", "spare", "timed", "inner", "caller", "last")


def _shown(event: AgentEvent) -> tuple[str, str, str]:
    return event.author, event.content or "", str(event.state_delta)


async def test_a_stream_goes_on_where_it_was(crew: Crew) -> None:
    """A worker dies in the middle of an answer; the reader gets the rest, and no piece twice."""
    crew.hold("last")
    pieces: list[str] = []
    async for event in pipeline.stream("hi", backend=_backend(crew)):
        if event.author == "last" and event.is_partial:
            pieces.append(event.content or "")
            if len(pieces) == 1:
                crew.kill("last begins")
                crew.release("last")
    assert pieces == ["I am ", "last."]
    assert _once(crew, twice="last")


async def test_a_server_that_dies_goes_on_where_it_was(crew: Crew, server: DevServer) -> None:
    """The server is killed and started again on its file; workers and caller find it, and nothing is lost."""
    crew.hold("look")
    run = asyncio.ensure_future(pipeline.run("hi", backend=_backend(crew)))
    await crew.until("look begins")
    server.stop()
    server.start()
    crew.release("look")
    assert (await run).text == "I am last."
    ends = Counter(line for line in crew.log() if line.endswith("ends") and not line.startswith("look"))
    assert set(ends.values()) == {1}


async def test_a_gate_waits_while_the_server_is_away(server: DevServer, tmp_path: Path) -> None:
    """The run waits for a person, the server dies and comes back on its file; the answer finds the run."""
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    try:
        crew.start("gated")
        asked = await gated.run("hi", session_id=crew.queue, backend=_backend(crew))
        assert [pending.message for pending in asked.pending] == ["Go on?"]
        server.stop()
        server.start()
        approvals = {asked.pending[0].id: True}
        done = await gated.resume(session_id=crew.queue, approvals=approvals, backend=_backend(crew))
    finally:
        crew.end()
    assert done.text == "I am last."
    assert Counter(crew.log()) == {f"{name} {what}": 1 for name in ("first", "last") for what in _BOTH}


@pytest.mark.parametrize("calling", [remote, remote_tool])
async def test_a_worker_is_killed_in_a_remote_call(
    calling: Callable[[], Expr[str]], server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that was on its way is made again; once it is answered, no death repeats it."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    called, let = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    async def answer(request: object) -> AsyncIterator[str]:
        calls.append("called")
        called.set()
        await let.wait()
        yield "From afar."

    try:
        async with A2AServer(Agent("clerk"), backend=mock_backend({"clerk": answer})) as far:
            (tmp_path / "endpoint").write_text(far.url)
            expression = remote()
            crew.hold("last")
            crew.start("remote")
            run = asyncio.ensure_future(expression.run("hi", backend=_backend(crew)))
            await called.wait()
            called.clear()
            crew.kill("first begins", "remote")
            await called.wait()
            let.set()
            await crew.until("last begins")
            crew.kill("last begins", "remote")
            crew.release("last")
            result = await run
    finally:
        crew.end()
    assert [event.content for event in result if event.content] == ["I am first.", "From afar.", "I am last."]
    assert len(calls) == 2
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun == {"first begins": 1, "last begins": 2}


async def test_a_worker_is_killed_in_a_call_of_an_mcp_tool(
    server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next worker starts a server of its own and calls the tool again; no model is asked again."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    crew.hold("shout")
    try:
        crew.start("shouting")
        run = asyncio.ensure_future(shouting().run("hi", backend=_backend(crew)))
        while not (tmp_path / "called").exists():
            await asyncio.sleep(0.02)
        crew.kill("first begins", "shouting")
        crew.release("shout")
        result = await run
    finally:
        crew.end()
    (answer,) = [answer for event in result for answer in event.tool_responses]
    assert "HI" in str(answer.result)
    assert result.text == "I am last."
    assert (tmp_path / "mcp").read_text().split()[::2] == ["start", "start"]
    assert (tmp_path / "called").read_text().split()[::2] == ["call", "call"]
    assert Counter(crew.log()) == {
        f"{name} {what}": 1 for name in ("first", "shouter", "last") for what in _BOTH
    }


async def test_killed_workers_asked_other_models(server: DevServer, tmp_path: Path) -> None:
    """A worker dies in a call of a context's model, the next in one of a fallback's; both are asked again."""
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    try:
        crew.start("helped")
        crew.hold("helper")
        crew.hold("other")
        run = asyncio.ensure_future(helped.run("hi", backend=_backend(crew)))
        for phase in ("helper", "other"):
            await crew.until(f"{phase} begins")
            crew.kill(f"{phase} begins", "helped")
            crew.release(phase)
        assert (await run).text == "I am other."
    finally:
        crew.end()
    ends = [line for line in crew.log() if line.endswith("ends")]
    assert ends == ["first ends", "helper ends", "last ends", "other ends"]


async def test_a_killed_worker_leaves_what_it_kept_to_others(
    server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies in a model call; no answer that it kept is asked for again, in this run or another."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    expression, backend = sharing(), _backend(crew)
    try:
        crew.start("sharing")
        crew.hold("last")
        run = asyncio.ensure_future(expression.run("hi", backend=backend))
        await crew.until("last begins")
        crew.kill("last begins", "sharing")
        crew.release("last")
        first = await run
        again = await expression.run("hi", backend=backend)
    finally:
        crew.end()
    assert crew.log() == ["first begins", "first ends", "last begins", "last begins", "last ends"]
    assert (first.text, again.text) == ("I am last.", "I am last.")
    assert [event.metadata.get("adk_fluent.cached") for event in again] == [True, True]


async def test_a_poisoned_step_fails_clearly(server: DevServer, tmp_path: Path) -> None:
    """A step that kills its worker each time is given up after so many attempts, and named."""
    crew = Crew(server.address, tmp_path, str(uuid.uuid4()))
    (tmp_path / "die-poison").touch()
    try:
        for _ in range(3):
            crew.start("poisoned")
        with pytest.raises(RunError, match="'poison': its model 'poison@poison' was begun 2 times and never"):
            await poisoned.run("hi", backend=_backend(crew, attempts=2))
    finally:
        crew.end()
    assert Counter(crew.log()) == {"first begins": 1, "first ends": 1, "poison begins": 2}
