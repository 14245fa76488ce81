"""Workers and the server die while runs are on their way; what is done is not done again."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_fluent.backends import StepPolicy, TemporalBackend
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import RunError
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import pipeline, poisoned

pytestmark = pytest.mark.newest

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
        crew.address, queue=crew.queue, policy=StepPolicy(heartbeat=1.0, **policy), worker_timeout=60
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
