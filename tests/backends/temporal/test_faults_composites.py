"""Workers die in every composite; the run is that of plain ADK, and what is done is not done again."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from pathlib import Path

import pytest

from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.temporal.server import DevServer
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import (
    FOLDER,
    everything,
)

pytestmark = pytest.mark.newest


@pytest.mark.faults
async def test_a_worker_is_killed_in_every_composite(
    temporal: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is that of plain ADK; what had not ended is done again, and only that."""
    (tmp_path / "here").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "here"))
    here = await everything.run("hi")
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    deaths = [["left", "right"], ["again"], ["routed"], ["each"], ["quick"], ["spare"], ["timed"], ["inner"]]
    held = [phase for phases in deaths for phase in phases]
    for phase in (*held, "late"):
        crew.hold(phase)
    try:
        crew.start("everything")
        run = asyncio.ensure_future(everything.run("hi", backend=backend_of(crew)))
        for phases in deaths:
            for phase in phases:
                await crew.until(f"{phase} begins")
            if phases == ["quick"]:  # what begins again runs alone on its worker, and `late` never ends
                crew.start("everything")
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
