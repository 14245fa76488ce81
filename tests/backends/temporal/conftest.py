"""These tests are for the newest ADK alone; elsewhere the engine is not installed, and not even imported."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.services import quick_folder

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer
    from tests.backends.temporal.processes import Crew

collect_ignore_glob: list[str] = [] if find_spec("temporalio") else ["test_*.py"]


@pytest.fixture(scope="module")
def mortal() -> Iterator[DevServer]:
    """A server that the tests of a file may kill."""
    from adk_fluent.backends.temporal.server import DevServer

    with quick_folder() as folder:
        server = DevServer(folder / "runs.db")
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def _pair(mortal: DevServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    from tests.backends.temporal.processes import Crew

    crew = Crew(mortal.address, tmp_path_factory.mktemp("crew"), str(uuid.uuid4()))
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
