"""Whole recordings, made again: every run of one, on what it answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.adk.api import approvals
from adk_fluent.backends.adk.api import parts as adk_parts
from adk_fluent.debug.recorder import Recorder
from adk_fluent.debug.replaying import OnMismatch, ReplayerBackend, Tools
from adk_fluent.errors import ADKFluentError, ArgumentError, ReplayError

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording
    from adk_fluent.debug.values import RecordedRun
    from adk_fluent.expr.base import Expr


async def replayed(
    recording: Recording, expression: Expr[Any], *, on_mismatch: OnMismatch, tools: Tools
) -> Recording:
    """Run an expression on what was recorded, and record that; see `Recording.replay`."""
    if not callable(getattr(expression, "middleware", None)):
        raise ArgumentError(f"replay() takes an expression, not {expression!r:.40}.")
    tape = Recorder(redact=recording.metadata.get("redact") or ())
    backend = ReplayerBackend(recording, on_mismatch, tools=tools)
    replay = _Replay(recording, tape.install(expression), tape, backend)
    for together in _at_once(recording):
        await asyncio.gather(*map(replay.run, together))
    return tape.get_recording()


class _Replay:
    """The runs of a recording, made again."""

    def __init__(
        self, recording: Recording, expression: Expr[Any], tape: Recorder, backend: ReplayerBackend
    ) -> None:
        self._recording, self._expression, self._tape = recording, expression, tape
        self._backend = backend
        self._sessions: dict[str, str] = {}
        self._held: dict[str, Mapping[str, Any]] = {}
        self._begun: dict[str, list[int]] = {}

    async def run(self, index: int) -> None:
        """Make one run again; it may end with an error if it did so."""
        run = self._recording.runs[index]
        try:
            await self._made(index, run)
        except ReplayError:
            raise
        except ADKFluentError as error:
            if run.error is None and (unknown := self._backend.unknown_classes):
                raise ReplayError(
                    f"The replay failed, and the recorded run did not: {error} The recording has an error of "
                    f"class {unknown[-1]}, which is in no imported module, so that nothing catches it by its "
                    "class. Define it at the top level of a module, and import that before the replay."
                ) from error
            if run.error is None:
                raise
        self._held[run.session_id] = _state_after(self._recording, index)
        self._begun.setdefault(run.session_id, []).append(index)

    async def _made(self, index: int, run: RecordedRun) -> None:
        session = self._sessions.setdefault(run.session_id, str(uuid.uuid4()))
        options: dict[str, Any] = {"backend": self._backend, "user_id": run.user_id, "session_id": session}
        self._backend.expect(session, index)
        now = _pending(self._tape.get_recording(), session)
        if approvals := approvals_of(self._recording, run, now):
            made = self._expression.resume(approvals=approvals, **options)
            await (_until(made, self._backend.leaves(index)) if run.left else made)
            return
        held = self._held.get(run.session_id, run.state if run.earlier else {})
        if state := {key: value for key, value in run.state.items() if held.get(key) != value}:
            options["state"] = state
        prompt = adk_parts.content_from(run.prompt)
        if run.streaming:
            made = self._streamed(index, run, self._expression.stream(prompt, **options))
        else:
            made = self._expression.run(prompt, **options)
        await (_until(made, self._backend.leaves(index)) if run.left else made)

    async def _streamed(self, index: int, run: RecordedRun, events: Any) -> None:
        """Read a stream, as far as it was read, if it was left between two calls."""
        at_work = (*self._recording.llm_interactions, *self._recording.tool_interactions)
        in_call = any(each.run == index and each.ended is None for each in at_work)
        heard = sum(not step.lost for step in self._recording.steps if step.run == index)
        async with aclosing(events) as stream:
            async for event in stream:
                heard -= not event.is_partial
                if run.left and not in_call and heard <= 0:
                    return


async def _until(made: Coroutine[Any, Any, Any], left: asyncio.Future[None]) -> None:
    """Let a run go on to its end, or to the place at which it was left."""
    task = asyncio.ensure_future(made)
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over = task.done()
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
    if over and isinstance(ended[0], Exception):
        raise ended[0]


def approvals_of(recording: Recording, run: RecordedRun, now: Sequence[str]) -> dict[str, Any]:
    """What a run that went on answered, under the ids that the requests have now; nothing for other runs.

    Args:
        now: the ids of all that its session asked for so far.
    """
    parts = adk_parts.content_from(run.prompt).parts or ()
    given = [part.function_response for part in parts if part.function_response is not None]
    ids = dict(zip(_pending(recording, run.session_id), now, strict=False))
    return {ids.get(str(each.id), str(each.id)): approvals.answer_in(each) for each in given}


def _pending(recording: Recording, session_id: str) -> list[str]:
    """The ids of all that a session asked for."""
    return [
        asked.id
        for step in recording.steps
        if recording.runs[step.run].session_id == session_id
        for asked in step.event.pending
    ]


def _state_after(recording: Recording, index: int) -> Mapping[str, Any]:
    snapshots = zip(recording.steps, recording.state_snapshots, strict=True)
    of_run = [state for step, state in snapshots if step.run == index]
    return of_run[-1] if of_run else recording.runs[index].state


def _at_once(recording: Recording) -> list[list[int]]:
    """The runs, those together that went on at the same time."""
    groups: list[list[int]] = []
    until = -1
    for index in range(len(recording.runs)):
        places = [step.seq for step in recording.steps if step.run == index]
        places += [c.started for c in recording.llm_interactions if c.run == index]
        if groups and places and min(places) < until:
            groups[-1].append(index)
        else:
            groups.append([index])
        until = max([until, *places])
    return groups
