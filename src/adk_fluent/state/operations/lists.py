"""The operations on lists: `accumulate`, `history`, `zip`, `group_by`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from adk_fluent.errors import TransformError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.matching import StateView
from adk_fluent.state.effects import Copies, Effect, Needs, Writes
from adk_fluent.state.operations.base import Changes, Key, Keys, StateOperation, ValueFn, each, value_at


@frozen
class Accumulate(StateOperation):
    """Appends the value of a key, if it has one, to the list at another key."""

    name: ClassVar[str] = "accumulate"
    key: Key
    into: Key

    def __call__(self, state: StateView) -> Changes:
        return {self.into: [*_kept(state, self.into), state[self.key]]} if self.key in state else {}

    def _reading(self) -> KeyReads:
        return _growing(self.key, self.into)

    def _doing(self) -> Iterable[Effect]:
        return (Copies(self.key, self.into, list, (self.into,)),)


@frozen
class History(StateOperation):
    """Appends the value of a key, if it has one, to the list of its last `max_size` values."""

    name: ClassVar[str] = "history"
    key: Key
    max_size: int

    @property
    def into(self) -> str:
        """The key of the list."""
        return f"{self.key}_history"

    def __call__(self, state: StateView) -> Changes:
        if self.key not in state:
            return {}
        return {self.into: [*_kept(state, self.into), state[self.key]][-self.max_size :]}

    def _reading(self) -> KeyReads:
        return _growing(self.key, self.into)

    def _doing(self) -> Iterable[Effect]:
        return (Copies(self.key, self.into, list, (self.into,)),)


@frozen
class Zip(StateOperation):
    """Joins several lists of the same length to one list of rows."""

    name: ClassVar[str] = "zip"
    keys: Keys
    into: Key

    def __call__(self, state: StateView) -> Changes:
        columns = [_items(state, key, "zip") for key in self.keys]
        if len({len(column) for column in columns}) > 1:
            named = zip(self.keys, columns, strict=True)
            lengths = ", ".join(f"{key!r} has {len(column)}" for key, column in named)
            raise TransformError(f"S.zip needs lists of one length: {lengths}.")
        return {self.into: [list(row) for row in zip(*columns, strict=True)]}

    def _reading(self) -> KeyReads:
        return each(self.keys, type=list)

    def _doing(self) -> Iterable[Effect]:
        return (*map(Needs, self.keys), Writes(self.into, list, self.keys))


@frozen
class GroupBy(StateOperation):
    """Groups the items of a list in a dict of lists; the key of an item is a function's result, as text."""

    name: ClassVar[str] = "group_by"
    key: Key
    fn: ValueFn
    into: Key

    def __call__(self, state: StateView) -> Changes:
        groups: dict[str, list[Any]] = {}
        for item in _items(state, self.key, "group_by"):
            groups.setdefault(str(self.fn(item)), []).append(item)
        return {self.into: groups}

    def _reading(self) -> KeyReads:
        return each((self.key,), type=list)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key), Writes(self.into, dict, (self.key,)))

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.fn,)


def _growing(key: str, into: str) -> KeyReads:
    yield KeyRead(key, "operation", "tolerant")
    yield KeyRead(into, "own", "optional", list)


def _items(state: StateView, key: str, operation: str) -> list[Any]:
    value = value_at(state, key, f"S.{operation}")
    if not isinstance(value, list | tuple):
        raise TransformError(f"S.{operation} needs a list at {key!r}, which holds {value!r:.40}.")
    return list(cast("list[Any]", value))


def _kept(state: StateView, key: str) -> list[Any]:
    value = state.get(key, [])
    if not isinstance(value, list):
        raise TransformError(f"State key {key!r} holds {value!r:.40}, not the list that is kept there.")
    return cast("list[Any]", value)
