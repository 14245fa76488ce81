"""Dicts in state that become smaller, which older ADKs' SQLite service merges with what was there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions

from adk_fluent.backends.adk import private


def replacing(ctx: InvocationContext, event: Event) -> Iterator[Event]:
    """The event; before it one that removes the dicts it makes smaller, where the store would merge them."""
    if not event.partial and private.merges_dicts(type(ctx.session_service)):
        state = ctx.session.state
        smaller = [k for k, value in event.actions.state_delta.items() if _loses(state.get(k), value)]
        if smaller:
            removed = EventActions(state_delta=dict.fromkeys(smaller))
            yield Event(
                invocation_id=event.invocation_id, author=event.author, branch=event.branch, actions=removed
            )
    yield event


def _loses(old: object, new: object) -> bool:
    """Whether a key of `old`, however deep, is missing in `new`."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    before, after = cast("Mapping[Any, Any]", old), cast("Mapping[Any, Any]", new)
    return any(key not in after or _loses(value, after[key]) for key, value in before.items())
