"""The operations that write values: `set`, `default`, `merge`, `transform`, `compute`, `fn`, `counter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, cast

from adk_fluent.errors import TransformError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import NO_ACCESS, UNKNOWN_ACCESS, Access, access, step_access
from adk_fluent.ir.keys import KeyReads, declared
from adk_fluent.ir.nodes import TransformFn
from adk_fluent.ir.predicates import StateView
from adk_fluent.ir.resources import UserCall
from adk_fluent.state.effects import Defaults, Effect, Needs, Sets, Writes, WritesAnything, effects_of_returns
from adk_fluent.state.operations.base import Changes, StateOperation, key_reads, value_at


@frozen
class Set(StateOperation):
    """Writes these values."""

    name: ClassVar[str] = "set"
    values: tuple[tuple[str, Any], ...]

    def __call__(self, state: StateView) -> Changes:
        return dict(self.values)

    def _doing(self) -> Iterable[Effect]:
        return (Sets(key, value) for key, value in self.values)


@frozen
class Default(StateOperation):
    """Writes each of these values if its key is absent."""

    name: ClassVar[str] = "default"
    values: tuple[tuple[str, Any], ...]

    def __call__(self, state: StateView) -> Changes:
        return {key: value for key, value in self.values if key not in state}

    def _doing(self) -> Iterable[Effect]:
        return (Defaults(key, value) for key, value in self.values)


@frozen
class Merge(StateOperation):
    """Combines several values in one: by a function, or as text, one line for each value that is set."""

    name: ClassVar[str] = "merge"
    keys: tuple[str, ...]
    into: str
    fn: Callable[..., Any] | None

    @property
    def says(self) -> str | None:
        return self.into

    def __call__(self, state: StateView) -> Changes:
        if self.fn is not None:
            return {self.into: self.fn(*(state.get(key) for key in self.keys))}
        return {self.into: "\n".join(str(state[key]) for key in self.keys if key in state)}

    def _reading(self) -> KeyReads:
        return key_reads(self.keys, "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.into, str if self.fn is None else None, self.keys),)

    @property
    def functions(self) -> tuple[object, ...]:
        return () if self.fn is None else (self.fn,)

    def calls(self) -> Iterator[UserCall]:
        yield UserCall(self.fn, "its function", len(self.keys), injected=False)


@frozen
class TransformValue(StateOperation):
    """Replaces a value by the result of a function of it."""

    name: ClassVar[str] = "transform"
    key: str
    fn: Callable[[Any], Any]

    def __call__(self, state: StateView) -> Changes:
        return {self.key: self.fn(value_at(state, self.key, "S.transform"))}

    def _reading(self) -> KeyReads:
        return key_reads((self.key,))

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key), Writes(self.key, None, (self.key,)))

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.fn,)


@frozen
class Compute(StateOperation):
    """Writes each key with the result of its function of the state."""

    name: ClassVar[str] = "compute"
    values: tuple[tuple[str, Callable[[StateView], Any]], ...]

    def __call__(self, state: StateView) -> Changes:
        return {key: fn(state) for key, fn in self.values}

    def _reading(self) -> KeyReads:
        return declared(self.functions, "operation")

    def _doing(self) -> Iterable[Effect]:
        for key, fn in self.values:
            keys = access(fn)
            yield Writes(key, None, tuple(sorted(keys.reads)) if keys.reads_known else None)

    @property
    def functions(self) -> tuple[object, ...]:
        return tuple(fn for _, fn in self.values)


@frozen
class Fn(StateOperation):
    """Runs a function of the state.

    Attributes:
        fn: returns the changes, or an awaitable of them, which the backend awaits.
        declared: the state keys that the user declared for it.
    """

    name: ClassVar[str] = "fn"
    left_out: ClassVar[frozenset[str]] = frozenset({"declared"})
    fn: TransformFn
    declared: Access = NO_ACCESS

    def __call__(self, state: StateView, /, **resources: Any) -> Changes:
        return cast(Changes, self.fn(state, **resources))

    def calls(self) -> Iterator[UserCall]:
        yield UserCall(self.fn, "its function")

    def _reading(self) -> KeyReads:
        return declared([self.fn], "operation") if self._is_read else key_reads(self.declared.reads)

    def _doing(self) -> Iterable[Effect]:
        touched = self._touched()
        if not touched.writes_known:
            yield WritesAnything()
        sources = tuple(sorted(touched.reads)) if touched.reads_known else None
        if self._is_read:
            yield from effects_of_returns(self.fn, touched.writes, sources)
        else:
            yield from (Writes(key, None, sources) for key in sorted(touched.writes))

    @property
    def _is_read(self) -> bool:
        """True if the user declared nothing, so that the keys come from its source."""
        return self.declared == UNKNOWN_ACCESS

    def _touched(self) -> Access:
        return step_access(self.fn) if self._is_read else self.declared

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.fn,)

    @classmethod
    def restored(cls, params: Mapping[str, Any], access: Access) -> Self:
        return cls(**params, declared=access)


@frozen
class Counter(StateOperation):
    """Adds `step` to the number at a key; an absent key counts as 0."""

    name: ClassVar[str] = "counter"
    key: str
    step: int | float

    def __call__(self, state: StateView) -> Changes:
        count = state.get(self.key, 0)
        if not isinstance(count, int | float) or isinstance(count, bool):
            raise TransformError(f"S.counter({self.key!r}) found {count!r:.40}, which is not a number.")
        return {self.key: count + self.step}

    def _reading(self) -> KeyReads:
        return key_reads((self.key,), "optional", int | float)

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, int | float),)
