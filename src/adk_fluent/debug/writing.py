"""From what happened to what is tested: an eval case, and a test."""

from __future__ import annotations

import importlib
import json
import keyword
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.backends.events import AgentEvent, final_text, standing
from adk_fluent.debug.errors import raised
from adk_fluent.debug.playing import redo, restore
from adk_fluent.debug.requests import plain
from adk_fluent.errors import RecordingError

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording
    from adk_fluent.debug.values import RecordedRun, ToolInteraction
    from adk_fluent.eval import FluentCase

_ASKS_A_PERSON = "adk_request_confirmation"


def to_case(recording: Recording) -> FluentCase:
    """A case of an evaluation suite; see `Recording.to_case`."""
    from adk_fluent.debug.layout import check_readable

    runs = [run for run in recording.runs if run.session_id == recording.runs[0].session_id]
    for number, run in enumerate(recording.runs, 1):
        if run in runs:
            _check(recording, run, number)
    _check_answers(recording, runs)
    check_readable(recording)
    cases: Any = importlib.import_module("adk_fluent.eval")
    turns = [_events(recording, run) for run in runs]
    calls = [[_call(cases, call) for event in turn for call in event.tool_calls] for turn in turns]
    answers = [_answer(turn) for turn in turns]
    return cases.FluentCase(
        input=[_said(run) for run in runs],
        expected_trajectory=[each or None for each in calls] if any(calls) else None,
        reference_response=answers if any(answers) else None,
        mock_tool_outputs=_mocks(recording) or None,
        initial_state=dict(runs[0].state) or None,
        tags=["recorded"],
        metadata={"id": f"{recording.pipeline}-{recording.ir_hash[:8]}"},
    )


def _answer(turn: list[AgentEvent]) -> Any:
    """What was answered last: its text, or all of it where there is more, such as a picture."""
    shown = [e for e in standing(turn) if e.is_final and e.visibility == "user" and not e.is_partial]
    said = [e for e in shown if e.content or e.parts]
    if not said or not said[-1].parts:
        return final_text(turn) or None
    from adk_fluent.backends.adk.api import parts as adk_parts

    text = [{"text": said[-1].content}] if said[-1].content else []
    made = adk_parts.content_from({"role": "model", "parts": text})
    return made.model_copy(update={"parts": [*(made.parts or ()), *said[-1].parts]})


def _said(run: RecordedRun) -> Any:
    """What the user said: its text, or all of it where there is more, such as an image."""
    from adk_fluent.backends.adk.api import parts as adk_parts

    parts: list[Any] = run.prompt.get("parts") or []
    return run.text if [part.keys() for part in parts] == [{"text"}] else adk_parts.content_from(run.prompt)


def _check(recording: Recording, run: RecordedRun, number: int) -> None:
    """Refuse a run that an eval case cannot say."""
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
    if run.left:
        raise RecordingError(
            f"Run {number} of this recording was left by its caller before its end, and an eval case needs "
            "whole runs. Use to_test(), whose replay leaves it, too."
        )
    if run.earlier:
        raise RecordingError(
            f"Run {number} of this recording goes on in a session that had {len(run.earlier)} events before, "
            "and an eval case starts a new one. Use to_test(), whose replay has them."
        )
    if run.artifacts:
        raise RecordingError(
            f"Run {number} of this recording uses artifact {run.artifacts[0].filename!r}, which was there "
            "before, and an eval case starts without artifacts. Use to_test(), whose replay has them."
        )
    if not any(parts):
        raise RecordingError(
            f"Run {number} of this recording has no words of the user, which an eval case needs."
        )
    if run.error is not None:
        raise RecordingError(
            f"Run {number} of this recording failed ({run.error.type}: {run.error.message:.80}), and a case "
            "that fails does not pass. Use to_test(), which expects the same failure."
        )


def _check_answers(recording: Recording, runs: list[RecordedRun]) -> None:
    """Refuse a question to a person, which no case answers."""
    for step in recording.steps:
        if step.event.pending and recording.runs[step.run] in runs:
            raise RecordingError(
                "This recording waits for a person's answer to a question of "
                f"{step.event.pending[0].agent!r}, which an eval case cannot give. Use to_test(), whose "
                "replay stops at the question as well."
            )


def _events(recording: Recording, run: RecordedRun) -> list[AgentEvent]:
    return [step.event for step in recording.steps if recording.runs[step.run] is run and not step.lost]


def _call(cases: Any, call: Any) -> Any:
    return {call.tool_name: dict(call.args)}


_STEERING: Final = frozenset({"transfer_to_agent", "set_model_response", "exit_loop", "finish_task"})
"""Tools of ADK that work inside the run; recordings of older formats do not say so."""


def _mocks(recording: Recording) -> dict[str, Any]:
    """Tool → what its calls give; those that work inside the run, such as agents, still run."""
    running = {call.agent_name for call in recording.llm_interactions} | _STEERING
    running |= {call.tool_name for call in recording.tool_interactions if call.inside}
    found: dict[str, list[ToolInteraction]] = {}
    for call in recording.tool_interactions:
        if call.tool_name not in running:
            found.setdefault(call.tool_name, []).append(call)
    return {name: _given(calls) for name, calls in found.items()}


def _given(calls: list[ToolInteraction]) -> Any:
    """What the calls of a tool gave: one outcome, or what gives them again where they differ or did more."""
    first = calls[0]
    if all(
        (call.result, call.error, call.actions, call.artifacts) == (first.result, first.error, {}, ())
        for call in calls
    ):
        return first.result if first.error is None else raised(first.error)
    return Given(calls)


class Given:
    """What a tool gave and did, by its arguments; asked again with the same, what it gave then.

    Its runs know nothing of each other: each takes a `per_run`.
    """

    def __init__(self, calls: Iterable[ToolInteraction]) -> None:
        self._calls = tuple(calls)
        self._left: dict[str, list[ToolInteraction]] = {}
        for call in self._calls:
            for agent in ("", call.agent_name):
                self._left.setdefault(_key(agent, call.args), []).append(call)

    def per_run(self) -> Given:
        """The same, from its beginning."""
        return Given(self._calls)

    def __call__(self, /, **args: Any) -> Any:
        """The next outcome for these arguments; the last repeats.

        Raises:
            RecordingError: it was never called so.
        """
        return self._outcome(self._next("", args))

    async def again(self, context: Any, args: Mapping[str, Any]) -> Any:
        """The next outcome for these arguments of this agent, with what the tool did beside.

        Args:
            context: ADK's context of the call.

        Raises:
            RecordingError: it was never called so.
        """
        call = self._next(context.agent_name, args)
        if call.error is None:
            redo(call, context, context.state)
        saved = {(each.filename, each.version): each for one in self._calls for each in one.artifacts}
        await restore(call.artifacts, context, saved)
        return self._outcome(call)

    def _next(self, agent: str, args: Mapping[str, Any]) -> ToolInteraction:
        left = self._left.get(_key(agent, args)) or self._left.get(_key("", args))
        if left is None:
            known = ", ".join(str(dict(call.args)) for call in self._calls)
            name = self._calls[0].tool_name
            raise RecordingError(f"{name!r} was not called with {args} in the recording, but with {known}.")
        return left.pop(0) if len(left) > 1 else left[0]

    def _outcome(self, call: ToolInteraction) -> Any:
        if call.error is not None:
            raise raised(call.error)
        return call.result


def _key(agent: str, args: Mapping[str, Any]) -> str:
    return json.dumps([agent, plain(args)], sort_keys=True)


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


_OURS: Final = frozenset(
    {"asyncio", "runpy", "Recording", "RECORDING", "diff_recordings", "recorded", "difference"}
)
"""Names that mean something else in the test."""


def to_test(recording: Recording, target: str) -> str:
    """The source of a test; see `Recording.to_test`."""
    place, _, attribute = str(target).rpartition(":")
    names = attribute.split(".")
    if place.endswith(".py"):
        path = Path(place).as_posix()
        imports = f"\nimport runpy\n\npipeline = runpy.run_path({path!r})[{names[0]!r}]\n"
        names[0] = "pipeline"
    elif names[0] in _OURS or names[0].startswith("test"):  # pytest calls what is named so
        imports, names[0] = f"from {place} import {names[0]} as pipeline\n", "pipeline"
    else:
        imports = f"from {place} import {names[0]}\n"
    pipeline = ".".join(names)
    modules = [] if place.endswith(".py") else place.split(".")
    if not all(map(_is_name, [*modules, *attribute.split(".")])) or "\0" in place:
        raise RecordingError(
            f"to_test() takes 'module:attr' or 'path/file.py:attr', whose names Python can import, "
            f"not {target!r:.60}."
        )
    name = recording.pipeline if recording.pipeline.isidentifier() else "pipeline"
    return _TEST.format(imports=imports, recording=recording.to_json(), name=name, pipeline=pipeline)


def _is_name(text: str) -> bool:
    """Whether code can import something of this name."""
    return text.isidentifier() and not keyword.iskeyword(text) and text not in ("__debug__", "__future__")
