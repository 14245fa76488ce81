"""The server dies while runs are on their way, or wait; nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_fluent.backends.temporal.server import DevServer
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import (
    gated,
    pipeline,
)
from tests.services import quick_folder

pytestmark = pytest.mark.newest


_BOTH = ("begins", "ends")


@pytest.fixture(scope="module")
def mortal() -> Iterator[DevServer]:
    """A server that the tests may kill."""
    with quick_folder() as folder, DevServer(folder / "runs.db") as server:
        yield server


@pytest.fixture
def crew(mortal: DevServer, tmp_path: Path) -> Iterator[Crew]:
    """Two workers."""
    crew = Crew(mortal.address, tmp_path, str(uuid.uuid4()))
    try:
        crew.start()
        crew.start()
        yield crew
    finally:
        crew.end()


async def test_a_server_that_dies_goes_on_where_it_was(crew: Crew, mortal: DevServer) -> None:
    """The server is killed and started again on its file; workers and caller find it, and nothing is lost."""
    crew.hold("look")
    run = asyncio.ensure_future(pipeline.run("hi", backend=backend_of(crew)))
    await crew.until("look begins")
    mortal.stop()
    mortal.start()
    crew.release("look")
    assert (await run).text == "I am last."
    ends = Counter(line for line in crew.log() if line.endswith("ends") and not line.startswith("look"))
    assert set(ends.values()) == {1}


async def test_a_gate_waits_while_the_server_is_away(mortal: DevServer, tmp_path: Path) -> None:
    """The run waits for a person, the server dies and comes back on its file; the answer finds the run."""
    crew = Crew(mortal.address, tmp_path, str(uuid.uuid4()))
    try:
        crew.start("gated")
        asked = await gated.run("hi", session_id=crew.queue, backend=backend_of(crew))
        assert [pending.message for pending in asked.pending] == ["Go on?"]
        mortal.stop()
        mortal.start()
        approvals = {asked.pending[0].id: True}
        done = await gated.resume(session_id=crew.queue, approvals=approvals, backend=backend_of(crew))
    finally:
        crew.end()
    assert done.text == "I am last."
    assert Counter(crew.log()) == {f"{name} {what}": 1 for name in ("first", "last") for what in _BOTH}
