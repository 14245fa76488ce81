"""Segments: the agents that stand for those elsewhere, and runs of one with what crossed into it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from google.adk.events.event import Event
from google.adk.sessions import Session

from adk_fluent.backends.adk.compile.boundaries import inside_limit
from adk_fluent.backends.adk.events.partial import PartOfSession
from adk_fluent.backends.adk.events.stored import from_json, message_from_json, to_json
from adk_fluent.backends.adk.running.convert import run_config
from adk_fluent.backends.adk.running.toolsets import in_use
from adk_fluent.backends.adk.steps.leaves import FluentAgent
from adk_fluent.backends.adk.steps.segment import Came, Elsewhere, Work, in_time, in_turn, segment_agent
from adk_fluent.ir.state_keys import is_temporary

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.backend import Compiled
    from adk_fluent.backends.adk.running.runner import Services


__all__ = [
    "Came",
    "Elsewhere",
    "Work",
    "continuing",
    "in_time",
    "in_turn",
    "inside_limit",
    "run_segment",
    "segment_agent",
]


def continuing(compiled: Compiled, others: Iterable[str]) -> Compiled:
    """A compiled segment that can go on where earlier segments stopped.

    Args:
        others: the agents of other segments that speak in its sessions.
    """
    root = compiled.app.root_agent
    if isinstance(root, FluentAgent):
        root.stand_for(others)
        root.go_unseen()  # the caller has told of the sequence that this is a part of
    return compiled


async def run_segment(
    compiled: Compiled, work: Work, services: Services, known: Iterable[str] | None = None
) -> AsyncGenerator[Came, None]:
    """What happens in a segment, event by event, each with what it wrote to the state.

    Args:
        compiled: the segment, as `continuing` gives it.
        work: what crossed.
        services: where artifacts and memories are; the session is one of its own, which ends with this.
        known: the keys that crossed if they were there; `None` if all do.
    """
    options: dict[str, Any] = {
        "user_id": work.user_id,
        "session_id": work.session_id,
        "run_config": run_config(compiled.config, streaming=work.streaming),
    }
    told, said = [from_json(data) for data in work.history], [from_json(data) for data in work.events]
    if work.own or work.answer is not None:  # a run that has begun goes on
        told += [*_so_far(work, said)]
        said, options["invocation_id"] = [], work.run_id
        if work.answer is not None:
            options["new_message"] = message_from_json(work.answer)
    else:
        options["new_message"] = message_from_json(work.message)
    session = Session(
        app_name=compiled.app.name,
        user_id=work.user_id,
        id=work.session_id,
        state=_state_after(work),
        events=told,
    )
    runner = compiled.runner(services).keeping(PartOfSession(session, said, known))
    async with in_use(compiled.toolsets), aclosing(runner.annotated(marks=False, **options)) as native:
        async for event in native:
            yield to_json(event), event.actions.state_delta


def _so_far(work: Work, said: Iterable[Event]) -> Iterator[Event]:
    """A paused run: what the user said, and all that happened since."""
    run = work.run_id
    yield Event(author="user", invocation_id=run, content=message_from_json(work.message))
    for event in said:
        event.invocation_id = run
        yield event
    for data, delta in work.own:
        yield from_json(data, invocation_id=run, delta=delta)


def _state_after(work: Work) -> dict[str, Any]:
    """The state that crossed, with what a paused segment has written."""
    state = dict(work.state)
    for _, delta in work.own:
        state |= {key: value for key, value in delta.items() if not is_temporary(key)}
    return state
