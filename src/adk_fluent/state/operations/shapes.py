"""The operations that change the shape of the state.

`pick`, `drop`, `rename`, `flatten` and `unflatten` remove or rename keys. `accumulate`, `history`, `zip` and
`group_by` build lists and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from adk_fluent.errors import TransformError
from adk_fluent.ir.annotations import Semantics
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.predicates import StateView
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state.effects import Copies, Effect, Keeps, Needs, Packs, Removes, Unpacks, Writes
from adk_fluent.state.operations.base import Changes, StateOperation, key_reads, value_at


@frozen
class Pick(StateOperation):
    """Removes all session-scoped keys except these."""

    name: ClassVar[str] = "pick"
    semantics: ClassVar[Semantics] = "replace_session"
    keys: tuple[str, ...]

    def __call__(self, state: StateView) -> Changes:
        removed = {key: None for key in state if is_session_scoped(key) and key not in self.keys}
        return {**removed, **{key: state[key] for key in self.keys if key in state}}

    def _reading(self) -> KeyReads:
        return key_reads(self.keys, "lenient")

    def _doing(self) -> Iterable[Effect]:
        return (Keeps(self.keys),)


@frozen
class Drop(StateOperation):
    """Removes those of these keys that are session-scoped."""

    name: ClassVar[str] = "drop"
    semantics: ClassVar[Semantics] = "delete_keys"
    left_out: ClassVar[frozenset[str]] = frozenset({"keys"})  # the stored node has them in `affected_keys`
    keys: frozenset[str] = frozenset()

    def __call__(self, state: StateView) -> Changes:
        return {key: None for key in sorted(self.keys) if is_session_scoped(key)}

    def _reading(self) -> KeyReads:
        return (KeyRead(key, "removal", "lenient") for key in sorted(self.keys))

    def _doing(self) -> Iterable[Effect]:
        return (Removes(key) for key in sorted(self.keys))

    @property
    def affected_keys(self) -> frozenset[str] | None:
        return self.keys or None

    def completed(self, affected_keys: frozenset[str] | None) -> Self:
        return self if affected_keys is None else self.replace(keys=affected_keys)


@frozen
class Rename(StateOperation):
    """Moves values to new keys, all at the same time; an absent old key has no effect."""

    name: ClassVar[str] = "rename"
    semantics: ClassVar[Semantics] = "delete_keys"
    pairs: tuple[tuple[str, str], ...]

    def __call__(self, state: StateView) -> Changes:
        removed = {old: None for old, _ in self.pairs if is_session_scoped(old)}
        return {**removed, **{new: state[old] for old, new in self.pairs if old in state}}

    def _reading(self) -> KeyReads:
        return key_reads((old for old, _ in self.pairs), "lenient")

    def _doing(self) -> Iterable[Effect]:
        return (*(Removes(old) for old, _ in self.pairs), *(Copies(old, new) for old, new in self.pairs))

    @property
    def affected_keys(self) -> frozenset[str] | None:
        return frozenset(old for old, _ in self.pairs)


@frozen
class Flatten(StateOperation):
    """Replaces the dict at a key by one key per leaf."""

    name: ClassVar[str] = "flatten"
    key: str

    def __call__(self, state: StateView) -> Changes:
        value = state.get(self.key)
        if not isinstance(value, dict) or not value:
            return {}
        dropped = {self.key: None} if is_session_scoped(self.key) else {}
        return {**dropped, **_leaves(self.key, cast("dict[str, Any]", value))}

    def _reading(self) -> KeyReads:
        return key_reads((self.key,), "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (Unpacks(self.key),)


@frozen
class Unflatten(StateOperation):
    """Joins the keys that `flatten` made to dicts again."""

    name: ClassVar[str] = "unflatten"

    def __call__(self, state: StateView) -> Changes:
        changed: dict[str, Any] = {}
        for key in state:
            root, *path = key.split(".")
            if path and is_session_scoped(key) and all((root, *path)):
                changed[key] = None
                _put_back(changed.setdefault(root, state.get(root, {})), path, state[key], key)
        return changed

    def _doing(self) -> Iterable[Effect]:
        return (Packs(),)


def _put_back(branch: object, path: list[str], value: object, key: str) -> None:
    for part in path[:-1]:
        if isinstance(branch, dict):
            branch = cast("dict[str, object]", branch).setdefault(part, {})
    if not isinstance(branch, dict) or path[-1] in branch:
        raise TransformError(f"S.unflatten cannot put {key!r} back: another key holds a value on its way.")
    branch[path[-1]] = value


def _leaves(prefix: str, value: Mapping[str, Any]) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for part, inner in value.items():
        if not isinstance(part, str) or "." in part or not part:  # pyright: ignore[reportUnnecessaryIsInstance]  # values come from state
            raise TransformError(
                f"S.flatten cannot name the entry {part!r} of {prefix!r}: keys must be text without dots."
            )
        path = f"{prefix}.{part}"
        leaves |= (
            _leaves(path, cast("Mapping[str, Any]", inner))
            if isinstance(inner, dict) and inner
            else {path: inner}
        )
    return leaves


@frozen
class Accumulate(StateOperation):
    """Appends the value of a key, if it has one, to the list at another key."""

    name: ClassVar[str] = "accumulate"
    key: str
    into: str

    def __call__(self, state: StateView) -> Changes:
        return {self.into: [*_list_at(state, self.into), state[self.key]]} if self.key in state else {}

    def _reading(self) -> KeyReads:
        return _list_reads(self.key, self.into)

    def _doing(self) -> Iterable[Effect]:
        return (Copies(self.key, self.into, list, (self.into,)),)


@frozen
class History(StateOperation):
    """Appends the value of a key, if it has one, to the list of its last `max_size` values."""

    name: ClassVar[str] = "history"
    key: str
    max_size: int

    @property
    def into(self) -> str:
        """The key of the list."""
        return f"{self.key}_history"

    def __call__(self, state: StateView) -> Changes:
        if self.key not in state:
            return {}
        return {self.into: [*_list_at(state, self.into), state[self.key]][-self.max_size :]}

    def _reading(self) -> KeyReads:
        return _list_reads(self.key, self.into)

    def _doing(self) -> Iterable[Effect]:
        return (Copies(self.key, self.into, list, (self.into,)),)


@frozen
class Zip(StateOperation):
    """Joins several lists of the same length to one list of rows."""

    name: ClassVar[str] = "zip"
    keys: tuple[str, ...]
    into: str

    def __call__(self, state: StateView) -> Changes:
        columns = [_required_list(state, key, "zip") for key in self.keys]
        if len({len(column) for column in columns}) > 1:
            named = zip(self.keys, columns, strict=True)
            lengths = ", ".join(f"{key!r} has {len(column)}" for key, column in named)
            raise TransformError(f"S.zip needs lists of one length: {lengths}.")
        return {self.into: [list(row) for row in zip(*columns, strict=True)]}

    def _reading(self) -> KeyReads:
        return key_reads(self.keys, type=list)

    def _doing(self) -> Iterable[Effect]:
        return (*map(Needs, self.keys), Writes(self.into, list, self.keys))


@frozen
class GroupBy(StateOperation):
    """Groups the items of a list in a dict of lists; the key of an item is a function's result, as text."""

    name: ClassVar[str] = "group_by"
    key: str
    fn: Callable[[Any], Any]
    into: str

    def __call__(self, state: StateView) -> Changes:
        groups: dict[str, list[Any]] = {}
        for item in _required_list(state, self.key, "group_by"):
            groups.setdefault(str(self.fn(item)), []).append(item)
        return {self.into: groups}

    def _reading(self) -> KeyReads:
        return key_reads((self.key,), type=list)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key), Writes(self.into, dict, (self.key,)))

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.fn,)


def _list_reads(key: str, into: str) -> KeyReads:
    yield KeyRead(key, "operation", "tolerant")
    yield KeyRead(into, "own", "optional", list)


def _required_list(state: StateView, key: str, operation: str) -> list[Any]:
    value = value_at(state, key, f"S.{operation}")
    if not isinstance(value, list | tuple):
        raise TransformError(f"S.{operation} needs a list at {key!r}, which holds {value!r:.40}.")
    return list(cast("list[Any]", value))


def _list_at(state: StateView, key: str) -> list[Any]:
    value = state.get(key, [])
    if not isinstance(value, list):
        raise TransformError(f"State key {key!r} holds {value!r:.40}, not the list that is kept there.")
    return cast("list[Any]", value)
