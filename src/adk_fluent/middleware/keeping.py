"""Values that a middleware keeps for a run or a session."""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from adk_fluent.middleware.protocol import Context

T = TypeVar("T")

Scope = Literal["run", "session", "user", "app"]
"""What a value belongs to: a run, a session, all sessions of a user, or those of all users of an app."""


class Keeping(Protocol):
    """A context that knows where the values of its run and its session are."""

    def values(self, scope: Scope) -> MutableMapping[object, Any]:
        """The values kept for the run, the session, the user or the app of this context."""
        ...


class Kept(Generic[T]):
    """A value for each run, session, user or app; `Middleware.per_run` and `per_session` make the first two.

    It holds no value itself: those are with the runs, and go with them.

    Args:
        name: what the value is kept under, so that equal middleware of other requests finds the same value;
            by default every object has a value of its own.
    """

    def __init__(self, factory: Callable[[], T], scope: Scope, name: Hashable = None) -> None:
        self._factory = factory
        self._scope: Scope = scope
        self._name: Hashable = self if name is None else name

    def __call__(self, ctx: Context) -> T:
        """The value of the run, or session, at hand; made when it is first asked for."""
        values = cast(Keeping, ctx).values(self._scope)
        try:
            return values[self._name]
        except KeyError:
            made = values[self._name] = self._factory()
            return made
