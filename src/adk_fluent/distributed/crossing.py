"""What crosses an execution boundary, as a value: into a segment, and back from it. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.state.delta import pack

if TYPE_CHECKING:
    from adk_fluent.distributed.segments import Segment

Json = Mapping[str, Any]

USER: Final = "user"
"""The author of what the person says, in ADK's events."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One event that crosses.

    Attributes:
        event: ADK's event as JSON-able data, without its state delta.
        delta: what it wrote to the state, packed; only on the way back.
    """

    event: Json
    delta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What crosses a boundary: into a segment what it needs and nothing else, and back what it did.

    Attributes:
        segment: the segment it goes to, or comes from.
        ir_hash: the hash of that segment's graph, as who wrote this knows it.
        run_id: the run of the whole pipeline; with `segment` it names this piece of work.
        user_id: whose session it is.
        session_id: the session.
        message: what the user said, as JSON-able data of ADK's `Content`; `None` on the way back.
        state: key → value, packed (see `pack`); on the way back what was written, `None` for what is gone.
        history: events of the session's earlier runs, oldest first.
        events: events of this run; on the way back, those of the segment.
        own: where a paused segment goes on, the events of it until then, with what they wrote.
        answer: where a paused segment goes on, what the person answered, as JSON-able data of `Content`.
        streaming: whether pieces of answers are wanted.
        error: on the way back, why the segment failed, as JSON-able data: the error's class (`type`, as
            `module:name`), `message`, `attributes` and `cause`, without secrets.
    """

    segment: str
    ir_hash: str = ""
    run_id: str = ""
    user_id: str = USER
    session_id: str = ""
    message: Json | None = None
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    history: tuple[Happened, ...] = ()
    events: tuple[Happened, ...] = ()
    own: tuple[Happened, ...] = ()
    answer: Json | None = None
    streaming: bool = False
    error: Json | None = None

    @property
    def key(self) -> str:
        """What names this piece of work, however often it is delivered: run, segment, progress, answers."""
        done = [self.run_id, self.segment, str(len(self.own)), *_answered(self.answer)]
        return hashlib.sha256("\0".join(done).encode()).hexdigest()[:32]


def _answered(answer: Json | None) -> list[str]:
    """The ids of what a message answers."""
    given = [part.get("functionResponse") for part in (answer or {}).get("parts") or ()]
    return sorted(str(each.get("id")) for each in given if each)


def place_of(segment: Segment) -> str:
    """How a message calls the boundary at a segment's start, or its end where it has none."""
    if segment.is_cut_off:
        return f"the execution boundary of {segment.name!r}"
    return f"the execution boundary after {segment.name!r}"


def inward(
    segment: Segment,
    *,
    state: Mapping[str, Any],
    history: Sequence[Json] = (),
    events: Sequence[Json] = (),
    message: Json | None = None,
    run_id: str = "",
    user_id: str = USER,
    session_id: str = "",
    own: Sequence[tuple[Json, Mapping[str, Any]]] = (),
    answer: Json | None = None,
    streaming: bool = False,
) -> Crossing:
    """What goes into a segment: of a session's state and conversation what its steps may be shown.

    Args:
        state: the state of the session.
        history: the events of earlier runs of the session, as JSON-able data of ADK's `Event`.
        events: those of this run so far; the user's message is not among them.
        message: what the user said, as JSON-able data of ADK's `Content`.
        run_id: the run of the whole pipeline.
        user_id: whose session it is.
        session_id: the session.
        own: where a paused segment goes on, its events until then, each with what it wrote.
        answer: where a paused segment goes on, what the person answered.
        streaming: whether pieces of answers are wanted.

    Raises:
        SerializationError: a value that it reads is no plain data.
    """
    keys = state.keys() if segment.reads is None else [key for key in segment.reads if key in state]
    needed = {key: state[key] for key in keys if state[key] is not None}
    hears = segment.hears
    earlier = hears.earlier | {USER} if hears.user else hears.earlier
    return Crossing(
        segment=segment.name,
        ir_hash=segment.ir_hash,
        run_id=run_id,
        user_id=user_id,
        session_id=session_id,
        message=message,
        state=pack(needed, segment.fields, place_of(segment)),
        history=_heard(history, earlier),
        events=_heard(events, hears.authors),
        own=tuple(
            Happened(without_delta(e), pack(delta, segment.fields, place_of(segment))) for e, delta in own
        ),
        answer=answer,
        streaming=streaming,
    )


def _heard(events: Iterable[Json], authors: frozenset[str]) -> tuple[Happened, ...]:
    """The events that say something and are of these authors, without what they did to the state."""
    return tuple(
        Happened(without_delta(event))
        for event in events
        if event.get("author") in authors and event.get("content") and not event.get("partial")
    )


def outward(
    segment: Segment, crossing: Crossing, events: Iterable[tuple[Json, Mapping[str, Any]]]
) -> Crossing:
    """What comes back from a segment.

    Args:
        crossing: what went in.
        events: what happened, each with what it wrote to the state, as live values.

    Raises:
        SerializationError: it wrote a value that is no plain data.
    """
    where = f"the execution boundary after {segment.name!r}"
    back = [Happened(without_delta(event), pack(delta, segment.fields, where)) for event, delta in events]
    state = {key: value for happened in back for key, value in happened.delta.items()}
    return Crossing(
        segment=segment.name,
        ir_hash=segment.ir_hash,
        run_id=crossing.run_id,
        user_id=crossing.user_id,
        session_id=crossing.session_id,
        state=state,
        events=tuple(back),
    )


def failed(crossing: Crossing, error: BaseException) -> Crossing:
    """What comes back from a segment that failed."""
    from adk_fluent.backends.adk.durable.failures import told_of

    return Crossing(
        segment=crossing.segment,
        ir_hash=crossing.ir_hash,
        run_id=crossing.run_id,
        user_id=crossing.user_id,
        session_id=crossing.session_id,
        error=told_of(error),
    )


def without_delta(event: Json) -> Json:
    """An event without what it wrote to the state, which crosses by itself."""
    actions: Any = event.get("actions")
    if not actions or not (actions.get("stateDelta") or actions.get("state_delta")):
        return event
    kept = {name: value for name, value in actions.items() if name not in ("stateDelta", "state_delta")}
    return {**event, "actions": kept}
