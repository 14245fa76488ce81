"""What is given where something else is meant, in the tools of tests, is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent.backends import TraceBackend
from adk_fluent.debug import Recording, diff_events, diff_recordings
from adk_fluent.distributed import DistributedBackend
from adk_fluent.errors import ArgumentError
from adk_fluent.testing import AgentHarness, snapshot_events, snapshot_requests

WRONG: Any = "desk"
NOTHING: Any = None
CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: AgentHarness(WRONG), r"AgentHarness\(\) takes an expression, not str 'desk'"),
    (lambda: TraceBackend(WRONG), r"TraceBackend runs on ADKBackend\(\) or mock_backend.*, not on 'desk'"),
    (lambda: DistributedBackend(WRONG), r"DistributedBackend runs on ADKBackend.*, not on 'desk'"),
    (lambda: diff_events([], WRONG), r"diff_events\(\) takes the events of a run, .* not 'desk'"),
    (lambda: diff_events(NOTHING, []), r"diff_events\(\) takes the events of a run, .* not None"),
    (lambda: diff_recordings(Recording(), WRONG), r"two recordings, not 'desk'; Recording.load\(path\)"),
    (lambda: snapshot_requests(WRONG), r"a backend with \.calls, .* not 'desk'"),
    (lambda: snapshot_events(WRONG), r"snapshot_events\(\) takes the events of a run, .* not 'desk'"),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_what_is_of_the_wrong_type_is_told(call: Callable[[], object], says: str) -> None:
    """It says what was given, and what is meant."""
    with pytest.raises(ArgumentError, match=says) as found:
        call()
    assert "\n" not in str(found.value)
