"""Dicts in state, which older ADKs' SQLite service merges with what was there before, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.branch_sessions import store


def stores_faithfully(ctx: InvocationContext) -> bool:
    """Whether ADK and the store make of each event's state what it says, without any help."""
    return private.keeps_temporary() and not private.merges_dicts(type(store(ctx)))


def removal(ctx: InvocationContext, event: Event) -> Event | None:
    """What must be stored before an event: it removes the dicts that the event makes smaller.

    `None` where nothing becomes smaller, or the store does not merge. One that does leaves out a key that is
    `None` inside a dict; so that the run itself sees no other state, the event leaves it out, too.
    """
    return None if event.partial else removed_before(event, ctx.session.state, type(store(ctx)))


def removed_before(event: Event, state: Mapping[str, Any], service: type[BaseSessionService]) -> Event | None:
    """What `removal` gives, for a session with this state in a store of this kind."""
    if not private.merges_dicts(service):
        return None
    written = event.actions.state_delta
    written.update({key: _present(value) for key, value in written.items()})
    smaller = [k for k, value in written.items() if _loses(state.get(k), value)]
    if not smaller:
        return None
    removed = EventActions(state_delta=dict.fromkeys(smaller))
    return Event(invocation_id=event.invocation_id, author=event.author, branch=event.branch, actions=removed)


def _present(value: Any) -> Any:
    """A value without the keys of its dicts that are `None`; lists are stored as they are."""
    if not isinstance(value, dict):
        return value
    return {k: _present(v) for k, v in cast("dict[Any, Any]", value).items() if v is not None}


def _loses(old: object, new: object) -> bool:
    """Whether a key of `old`, however deep, is missing in `new`."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    before, after = cast("Mapping[Any, Any]", old), cast("Mapping[Any, Any]", new)
    return any(key not in after or _loses(value, after[key]) for key, value in before.items())
