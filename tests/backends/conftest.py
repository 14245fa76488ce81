"""What tests of several backends share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.backends.every_backend import WORKERS

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer
    from tests.backends.temporal.engine import Workers


@pytest.fixture(scope="module")
def _thread(temporal: DevServer) -> Iterator[Workers]:
    from tests.backends.temporal.engine import Workers

    workers = Workers(temporal.address)
    WORKERS.append(workers)
    try:
        yield workers
    finally:
        WORKERS.remove(workers)
        workers.close()


@pytest.fixture
def workers(_thread: Workers) -> Iterator[Workers]:
    """Where a test can start workers, which end with it."""
    yield _thread
    _thread.rest()
