"""Going back to a moment of a recorded run, and on from there."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.debug.values import Moment
from adk_fluent.errors import RecordingError
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult
    from adk_fluent.debug.recording import Recording
    from adk_fluent.expr.base import Expr


def moment_at(recording: Recording, step: int | str) -> Moment:
    """What was right after an event; see `Recording.at`."""
    number = _number(recording, step)
    if number == 0:
        state = dict(recording.runs[0].state) if recording.runs else None
        return Moment(0, state=state or {}, views=_views(recording, 0))
    found = recording.steps[number - 1]
    author = found.event.author
    return Moment(
        number,
        found.seq,
        found.event,
        author,
        recording.places.get(author, author),
        recording.state_snapshots[number - 1],
        _views(recording, found.seq),
    )


def _number(recording: Recording, step: int | str) -> int:
    if isinstance(step, str) and not step.isdecimal():
        authors = [each.event.author for each in recording.steps]
        if step not in authors:
            hint = did_you_mean(step, authors) or f" There is {', '.join(dict.fromkeys(authors)) or 'none'}."
            raise RecordingError(f"No step of this recording is from {step!r}.{hint}")
        return len(authors) - authors[::-1].index(step)
    given = cast(object, step)
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise RecordingError(f"A step is a number or the name of an agent, not {given!r:.40}.")
    number = int(given)
    if not 0 <= number <= len(recording.steps):
        raise RecordingError(
            f"There is no step {number}: this recording has {len(recording.steps)}, from 1; 0 is the start."
        )
    return number


def _views(recording: Recording, seq: int) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for call in recording.llm_interactions:
        if call.started > seq and call.operation is None:
            found.setdefault(call.agent_name, call.request)
    return found


async def resumed(
    recording: Recording, expression: Expr[Any], at: int | str, options: Mapping[str, Any]
) -> RunResult[Any]:
    """Run an expression from a step on; see `Recording.resume`."""
    from adk_fluent.backends.adk.api import parts
    from adk_fluent.debug.repeating import approvals_of
    from adk_fluent.debug.replaying import ReplayerBackend

    moment = moment_at(recording, at)
    if not recording.runs:
        raise RecordingError("There is no run in this recording to go on in.")
    index = recording.steps[moment.step - 1].run if moment.step else 0
    session = recording.runs[index].session_id
    numbers = [at for at, run in enumerate(recording.runs[: index + 1]) if run.session_id == session]
    given = dict(options)
    backend = ReplayerBackend(recording, until=moment.seq + 1, live=given.pop("backend", None))
    given["session_id"] = str(uuid.uuid4())
    state: Mapping[str, Any] | None = recording.runs[numbers[0]].state
    result: RunResult[Any] | None = None
    asked: list[str] = []
    for number in numbers:
        run = recording.runs[number]
        backend.expect(given["session_id"], number)
        told: dict[str, Any] = {**given, "backend": backend, "user_id": run.user_id}
        if approvals := approvals_of(recording, run, asked):
            result = await expression.resume(approvals=approvals, **told)
        else:
            if state:
                told["state"] = dict(state)
            result = await expression.run(parts.content_from(run.prompt), **told)
        state = None
        asked += [each.id for event in result for each in event.pending]
    return cast("RunResult[Any]", result)
