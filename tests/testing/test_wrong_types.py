"""What is given where something else is meant, in the tools of tests, is one line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.backends import DryRunBackend, TraceBackend
from adk_fluent.debug import Recorder, Recording, diff_events, diff_recordings
from adk_fluent.distributed import DistributedBackend
from adk_fluent.errors import ADKFluentError
from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite
from adk_fluent.testing import AgentHarness, call_tool, mock_backend, snapshot_events, snapshot_requests

WRONG: Any = "desk"
NOTHING: Any = None
NUMBER: Any = 3
SUITE = FluentEvalSuite(Agent("a"), [FluentCase("hi")], metrics=[])


def report_of(suite: FluentEvalSuite, **options: Any) -> FluentEvalReport:
    """What comes of a suite."""
    return asyncio.run(suite.run(backend=mock_backend({"a": "ok"}), engine="light", **options))


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: AgentHarness(WRONG), r"AgentHarness\(\) takes an expression, not str 'desk'"),
    (lambda: TraceBackend(WRONG), r"TraceBackend runs on ADKBackend\(\) or mock_backend.*, not on 'desk'"),
    (lambda: DistributedBackend(WRONG), r"DistributedBackend runs on ADKBackend.*, not on 'desk'"),
    (lambda: DryRunBackend(WRONG), r"DryRunBackend\(\) takes a mapping of agent names .*, not 'desk'"),
    (lambda: mock_backend(WRONG), r"mock_backend\(\) takes a mapping of agent names .*, not 'desk'"),
    (lambda: call_tool(NUMBER), r"call_tool\(\) takes the name of a tool, not 3"),
    (lambda: Recorder().install(WRONG), r"Recorder.install\(\) takes an expression, not 'desk'"),
    (lambda: Recorder(redact=WRONG), r"Recorder\(redact=\) takes keys, as redact=\['ssn'\], not 'desk'"),
    (lambda: Recorder(redact=NUMBER), r"Recorder\(redact=\) takes keys, .* not 3"),
    (lambda: asyncio.run(Recording().replay(WRONG)), r"replay\(\) takes an expression, not 'desk'"),
    (lambda: Recording().at(NOTHING), r"A step is a number or the name of an agent, not None"),
    (lambda: Recording().to_test(NUMBER), r"to_test\(\) takes 'module:attr' or .*, not 3"),
    (lambda: Recording.load(NUMBER), r"A recording is read from the path of a file, not 3"),
    (lambda: Recording.from_json(NUMBER), r"A recording is made of text, not 3; Recording.load"),
    (lambda: FluentEvalReport.load(NUMBER), r"read from the path of a file, not 3"),
    (lambda: FluentEvalSuite.from_yaml(NUMBER), r"read from the path of a file, not 3"),
    (lambda: report_of(SUITE).compare(WRONG), r"compare\(\) takes a report, not 'desk'; FluentEvalReport"),
    (lambda: report_of(SUITE, tags=WRONG), r"run\(tags=\) takes tags, as tags=\['billing'\], not 'desk'"),
    (lambda: FluentCase("hi", expected_trajectory=NUMBER), r"expected_trajectory is a list .*, not 3"),
    (lambda: diff_events([], WRONG), r"diff_events\(\) takes the events of a run, .* not 'desk'"),
    (lambda: diff_events(NOTHING, []), r"diff_events\(\) takes the events of a run, .* not None"),
    (lambda: diff_recordings(Recording(), WRONG), r"two recordings, not 'desk'; Recording.load\(path\)"),
    (lambda: snapshot_requests(WRONG), r"a backend with \.calls, .* not 'desk'"),
    (lambda: snapshot_events(WRONG), r"snapshot_events\(\) takes the events of a run, .* not 'desk'"),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_what_is_of_the_wrong_type_is_told(call: Callable[[], object], says: str) -> None:
    """It says what was given, and what is meant."""
    with pytest.raises(ADKFluentError, match=says) as found:
        call()
    assert "\n" not in str(found.value)
