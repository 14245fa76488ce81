"""Calling the functions of users: the state they are given, and waiting for what they give back."""

from __future__ import annotations

import inspect
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext

from adk_fluent.backends.adk.events.branch_sessions import store
from adk_fluent.backends.adk.events.partial import PartOfSession
from adk_fluent.backends.adk.events.signals import resumed
from adk_fluent.ir.predicates import Predicate, untestable
from adk_fluent.state.delta import ReadOnlyState


def state_of(ctx: InvocationContext) -> ReadOnlyState:
    """The state as functions of the user see it."""
    service = store(ctx)
    known = service.known if isinstance(service, PartOfSession) else None
    return ReadOnlyState(
        ctx.session.state, lambda: resumed(ctx.session.events, ctx.invocation_id), known=known
    )


async def holds(predicate: Predicate, state: ReadOnlyState, step: str, /, **given: Any) -> bool:
    """Whether a user's predicate holds for `state`; `step` is the name of the step that asks.

    `given` are its resources.

    Raises:
        PredicateError: it raised; the cause is chained.
    """
    view = state.at("a predicate")
    try:
        return bool(await resolved(cast(Any, predicate)(view, **given)))
    except Exception as error:
        raise untestable(repr(step), predicate, error, view) from error


async def resolved(value: object) -> object:
    """`value`, awaited if it can be; user functions may be sync or async."""
    return await value if inspect.isawaitable(value) else value
