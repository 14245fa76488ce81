"""Workers die in calls of other models, keep answers for others, or die in one step each time."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from pathlib import Path

import pytest

from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import RunError
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import (
    FOLDER,
    helped,
    poisoned,
    sharing,
)

pytestmark = pytest.mark.newest


_BOTH = ("begins", "ends")


async def test_a_killed_worker_leaves_what_it_kept_to_others(
    temporal: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies in a model call; no answer that it kept is asked for again, in this run or another."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    expression, backend = sharing(), backend_of(crew)
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


async def test_killed_workers_asked_other_models(temporal: DevServer, tmp_path: Path) -> None:
    """A worker dies in a call of a context's model, the next in one of a fallback's; both are asked again."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    try:
        crew.start("helped")
        crew.hold("helper")
        crew.hold("other")
        run = asyncio.ensure_future(helped.run("hi", backend=backend_of(crew)))
        for phase in ("helper", "other"):
            await crew.until(f"{phase} begins")
            crew.kill(f"{phase} begins", "helped")
            crew.release(phase)
        assert (await run).text == "I am other."
    finally:
        crew.end()
    ends = [line for line in crew.log() if line.endswith("ends")]
    assert ends == ["first ends", "helper ends", "last ends", "other ends"]


async def test_a_poisoned_step_fails_clearly(temporal: DevServer, tmp_path: Path) -> None:
    """A step that kills its worker each time is given up after so many attempts, and named."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    (tmp_path / "die-poison").touch()
    try:
        for _ in range(3):
            crew.start("poisoned")
        with pytest.raises(RunError, match="'poison': its model 'poison@poison' was begun 2 times and never"):
            await poisoned.run("hi", backend=backend_of(crew, attempts=2))
    finally:
        crew.end()
    assert Counter(crew.log()) == {"first begins": 1, "first ends": 1, "poison begins": 2}
