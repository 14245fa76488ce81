"""`temp:` state, which lives for one run and which older ADKs lose between an event and the session."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.ir.state_keys import is_temporary

_given: ContextVar[Mapping[str, Any]] = ContextVar("adk_fluent_temporary")


def with_temporary(ctx: InvocationContext, event: Event) -> Event:
    """The event, its `temp:` keys written to the session's state at once."""
    if delta := event.actions.state_delta:
        ctx.session.state.update(temporary(delta))
    return event


def temporary(state: Mapping[str, Any]) -> dict[str, Any]:
    """The `temp:` keys of some state."""
    return {key: value for key, value in state.items() if is_temporary(key)}


def give(state: Mapping[str, Any] | None) -> None:
    """Let the run that starts next in this context begin with the `temp:` keys of `state`."""
    _given.set(temporary(state or {}))


class TemporaryState(AddedPlugin):
    """Puts the `temp:` keys that a run was started with into its session, where ADK does not."""

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Write them before anything runs."""
        invocation_context.session.state.update(_given.get({}))
