"""What the tests of remote agents run under: as much time as they need."""

from __future__ import annotations

import pytest

from adk_fluent.a2a import proving
from adk_fluent.a2a.protocol import connections
from tests.limits import LIMIT


@pytest.fixture(autouse=True)
def busy_machines_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the same process is soon told of a call that was left, and soon asked who it is.

    On a busy machine that may take longer than users want to wait.
    """
    monkeypatch.setattr(connections, "FAREWELL", LIMIT)
    monkeypatch.setattr(proving, "SECONDS", LIMIT)
