"""Values that a middleware keeps for a run, a session, or all runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from adk_fluent.middleware.hook_context import Context

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


@dataclass(eq=False)
class Simulation:
    """What middleware keeps for the simulated runs of one backend, and for as long as that lives.

    Attributes:
        values: the values, by who declared them.
        is_preview: whether nobody reads them afterwards.
    """

    values: dict[object, Any] = field(default_factory=dict[object, Any])
    is_preview: bool = False


class Shared(Generic[T]):
    """A value that all live runs share; `Middleware.shared` makes it.

    The simulated runs of a backend share one of their own, so that nothing they do reaches live runs.

    Args:
        factory: makes the value of live runs.
        simulated: makes that of simulated runs; by default the same.
    """

    def __init__(self, factory: Callable[[], T], simulated: Callable[[], T] | None = None) -> None:
        self._factory, self._simulated = factory, simulated or factory
        self._guard = Lock()
        self._live: list[T] = []
        self._last: list[T] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self._factory, self._simulated)  # what it holds stays in this process

    def __call__(self, ctx: Context) -> T:
        """The value of the run at hand; made when it is first asked for."""
        simulation: Simulation | None = getattr(ctx, "simulation", None)
        with self._guard:
            if simulation is None:
                if not self._live:
                    self._live.append(self._factory())
                return self._live[0]
            if self not in simulation.values:
                simulation.values[self] = self._simulated()
            if not simulation.is_preview:
                self._last = [simulation.values[self]]
            return simulation.values[self]

    @property
    def current(self) -> T:
        """The value of live runs; if there was none, that of the simulated runs that came last.

        Previews do not count.
        """
        with self._guard:
            known = self._live or self._last
            return known[0] if known else self._factory()
