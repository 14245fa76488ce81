"""These tests are for the newest ADK alone; elsewhere the engine is not installed, and not even imported."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.clock import Clock

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer
    from tests.backends.temporal.processes import Crew

collect_ignore_glob: list[str] = [] if find_spec("temporalio") else ["test_*.py"]


@pytest.fixture(scope="module")
def _pair(temporal: DevServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    from tests.backends.temporal.processes import Crew

    crew = Crew(temporal.address, tmp_path_factory.mktemp("crew"), str(uuid.uuid4()))
    try:
        crew.start()
        crew.start()
        yield crew
    finally:
        crew.end()


@pytest.fixture
def crew(_pair: Crew) -> Crew:
    """Two workers of a file, which have not done anything yet."""
    _pair.clear()
    return _pair


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which callers that start a run wait for a worker: it moves when the test says so."""
    from adk_fluent.backends.temporal import starting

    clock = Clock()
    monkeypatch.setattr(starting, "time", clock)
    return clock
