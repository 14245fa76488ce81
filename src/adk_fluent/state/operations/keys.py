"""The operations that remove or rename keys: `pick`, `drop`, `rename`, `flatten`, `unflatten`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from adk_fluent.errors import TransformError
from adk_fluent.ir.annotations import Semantics
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.matching import StateView
from adk_fluent.ir.scopes import is_session_scoped
from adk_fluent.state.effects import Copies, Effect, Keeps, Packs, Removes, Unpacks
from adk_fluent.state.operations.base import Changes, Key, Keys, KeySet, Pairs, StateOperation, each


@frozen
class Pick(StateOperation):
    """Removes all session-scoped keys except these."""

    name: ClassVar[str] = "pick"
    semantics: ClassVar[Semantics] = "replace_session"
    keys: Keys

    def __call__(self, state: StateView) -> Changes:
        removed = {key: None for key in state if is_session_scoped(key) and key not in self.keys}
        return {**removed, **{key: state[key] for key in self.keys if key in state}}

    def _reading(self) -> KeyReads:
        return each(self.keys, "lenient")

    def _doing(self) -> Iterable[Effect]:
        return (Keeps(self.keys),)


@frozen
class Drop(StateOperation):
    """Removes those of these keys that are session-scoped."""

    name: ClassVar[str] = "drop"
    semantics: ClassVar[Semantics] = "delete_keys"
    elsewhere: ClassVar[frozenset[str]] = frozenset({"keys"})  # the stored node has them in `affected_keys`
    keys: KeySet = frozenset()

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
    pairs: Pairs

    def __call__(self, state: StateView) -> Changes:
        removed = {old: None for old, _ in self.pairs if is_session_scoped(old)}
        return {**removed, **{new: state[old] for old, new in self.pairs if old in state}}

    def _reading(self) -> KeyReads:
        return each((old for old, _ in self.pairs), "lenient")

    def _doing(self) -> Iterable[Effect]:
        return (*(Removes(old) for old, _ in self.pairs), *(Copies(old, new) for old, new in self.pairs))

    @property
    def affected_keys(self) -> frozenset[str] | None:
        return frozenset(old for old, _ in self.pairs)


@frozen
class Flatten(StateOperation):
    """Replaces the dict at a key by one key per leaf."""

    name: ClassVar[str] = "flatten"
    key: Key

    def __call__(self, state: StateView) -> Changes:
        value = state.get(self.key)
        if not isinstance(value, dict) or not value:
            return {}
        dropped = {self.key: None} if is_session_scoped(self.key) else {}
        return {**dropped, **_leaves(self.key, cast("dict[str, Any]", value))}

    def _reading(self) -> KeyReads:
        return each((self.key,), "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (Unpacks(self.key),)


@frozen
class Unflatten(StateOperation):
    """Joins the keys that `flatten` made to dicts again."""

    name: ClassVar[str] = "unflatten"

    def __call__(self, state: StateView) -> Changes:
        out: dict[str, Any] = {}
        for key in state:
            root, *path = key.split(".")
            if path and is_session_scoped(key) and all((root, *path)):
                out[key] = None
                _graft(out.setdefault(root, state.get(root, {})), path, state[key], key)
        return out

    def _doing(self) -> Iterable[Effect]:
        return (Packs(),)


def _graft(branch: object, path: list[str], value: object, key: str) -> None:
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
