"""From what happened to what is tested: an eval case, and a test."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.events import AgentEvent, final_text
from adk_fluent.errors import RecordingError

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording
    from adk_fluent.debug.values import RecordedRun, ToolInteraction
    from adk_fluent.eval import FluentCase

_ASKS_A_PERSON = "adk_request_confirmation"


def to_case(recording: Recording) -> FluentCase:
    """A case of an evaluation suite; see `Recording.to_case`."""
    runs = [run for run in recording.runs if run.session_id == recording.runs[0].session_id]
    for number, run in enumerate(recording.runs, 1):
        if run in runs:
            _check(recording, run, number)
    cases: Any = importlib.import_module("adk_fluent.eval")
    turns = [_events(recording, run) for run in runs]
    calls = [[_call(cases, call) for event in turn for call in event.tool_calls] for turn in turns]
    answers = [final_text(turn) or None for turn in turns]
    return cases.FluentCase(
        input=[run.text for run in runs],
        expected_trajectory=[each or None for each in calls] if any(calls) else None,
        reference_response=answers if any(answers) else None,
        mock_tool_outputs=_mocks(recording) or None,
        initial_state=dict(runs[0].state) or None,
        tags=["recorded"],
        metadata={"id": f"{recording.pipeline}-{recording.ir_hash[:8]}"},
    )


def _check(recording: Recording, run: RecordedRun, number: int) -> None:
    parts: list[Any] = run.prompt.get("parts") or []
    answered = [part["function_response"].get("id") for part in parts if part.get("function_response")]
    if answered:
        asked = [each for step in recording.steps for each in step.event.pending]
        whose = next((f" of {each.agent!r}" for each in asked if each.id in answered), "")
        raise RecordingError(
            f"Run {number} of this recording is a person's answer to a question{whose}, and an eval case "
            "cannot say that: it holds what a user says, while an answer names the question by an id that is "
            "another in each run. Use to_test(), which gives the answers of the recording again."
        )
    if run.live:
        raise RecordingError(
            f"Run {number} of this recording is a live conversation, and an eval case holds turns of text."
        )
    if not run.text:
        raise RecordingError(
            f"Run {number} of this recording has no words of the user, which an eval case needs."
        )


def _events(recording: Recording, run: RecordedRun) -> list[AgentEvent]:
    return [step.event for step in recording.steps if recording.runs[step.run] is run and not step.lost]


def _call(cases: Any, call: Any) -> Any:
    return {call.tool_name: dict(call.args)}


def _mocks(recording: Recording) -> dict[str, Any]:
    """Tool → what its calls give; agents that are tools still run."""
    agents = {call.agent_name for call in recording.llm_interactions}
    found: dict[str, list[ToolInteraction]] = {}
    for call in recording.tool_interactions:
        if call.tool_name not in agents:
            found.setdefault(call.tool_name, []).append(call)
    return {name: _given(calls) for name, calls in found.items()}


def _given(calls: list[ToolInteraction]) -> Any:
    """What the calls of a tool gave: one value, or a function of the arguments where they differ."""
    if all(call.result == calls[0].result for call in calls):
        return calls[0].result
    known = {json.dumps(dict(call.args), sort_keys=True): call.result for call in calls}

    def give(**args: Any) -> Any:
        return known[json.dumps(args, sort_keys=True)]

    made: Callable[..., Any] = give
    return made


_TEST = '''\
"""What was recorded happens again: no model is asked, and no tool of the outside runs."""

import asyncio

from adk_fluent.debug import Recording, diff_recordings
{imports}
RECORDING = r"""
{recording}
"""


def test_{name}_does_what_was_recorded() -> None:
    """The events, the requests and the tool calls of the recording, from the pipeline as it is now."""
    recorded = Recording.from_json(RECORDING)
    difference = diff_recordings(recorded, asyncio.run(recorded.replay({pipeline})))
    assert not difference, str(difference)
'''


def to_test(recording: Recording, target: str) -> str:
    """The source of a test; see `Recording.to_test`."""
    place, colon, attribute = str(target).rpartition(":")
    names = attribute.split(".")
    if not colon or not all(name.isidentifier() for name in names):
        raise RecordingError(f"to_test() takes 'module:attr' or 'path/file.py:attr', not {target!r}.")
    if place.endswith(".py"):
        imports = f"\nimport runpy\n\npipeline = runpy.run_path({Path(place).as_posix()!r})[{names[0]!r}]\n"
        pipeline = ".".join(["pipeline", *names[1:]])
    elif all(part.isidentifier() for part in place.split(".")):
        imports = f"from {place} import {names[0]}\n"
        pipeline = attribute
    else:
        raise RecordingError(f"to_test() takes 'module:attr' or 'path/file.py:attr', not {target!r}.")
    text = recording.to_json().replace('"""', r'"\u0022\u0022')
    name = recording.pipeline if recording.pipeline.isidentifier() else "pipeline"
    return _TEST.format(imports=imports, recording=text, name=name, pipeline=pipeline)
