"""Reading and changing state: a read-only view, and what a transform's result means for the state."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from adk_fluent.errors import MissingKeyError, TransformError
from adk_fluent.ir.matching import StateView
from adk_fluent.ir.nodes import TransformNode

SCOPE_PREFIXES: Final = ("app:", "user:", "temp:")


LOST: Final = (
    "temp: keys do not outlive a pause, and this run has waited for a person. Write it after that, or use a "
    "key without temp:."
)
"""What there is to say of a missing `temp:` key in a run that was resumed."""


class ReadOnlyState(Mapping[str, Any]):
    """State as user functions see it.

    A key whose value is `None` is absent. Containers are handed out as copies, so nothing a function
    does to them reaches the state.

    Args:
        values: the state.
        resumed: tells whether the run has waited for a person, which `temp:` keys do not outlive.
    """

    __slots__ = ("_resumed", "_values")

    def __init__(self, values: Mapping[str, Any], resumed: Callable[[], bool] | None = None) -> None:
        self._values = values
        self._resumed = resumed

    def __getitem__(self, key: str) -> Any:
        value = self._values.get(key)
        if value is None:
            if lost := self.lost(key):
                raise MissingKeyError(f"State key {key!r} is not set.{lost}")
            raise KeyError(key)
        return detached(value)

    def __contains__(self, key: object) -> bool:  # without the copy that looking it up would make
        return self._values.get(cast(str, key)) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self._values.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ReadOnlyState({dict(self)!r})"

    def over(self, changes: Mapping[str, Any]) -> ReadOnlyState:
        """The same state with some changes."""
        return ReadOnlyState({**self._values, **changes}, self._resumed)

    def lost(self, key: str) -> str:
        """What to add to a message that says a key is missing, if a pause has taken it; else nothing."""
        taken = key.startswith("temp:") and self._resumed is not None and self._resumed()
        return f" {LOST}" if taken else ""


def detached(value: Any) -> Any:
    """A value that can be changed without its being changed elsewhere.

    Containers are copied. What is no container, or holds what cannot be copied, such as a lock, stays itself.
    """
    if not isinstance(value, dict | list | set | tuple):
        return value
    try:
        return copy.deepcopy(cast(object, value))
    except TypeError:  # raised for what cannot be pickled either
        return cast(Any, value)


def is_session_scoped(key: str) -> bool:
    """Whether a key lives with the session; only such keys are ever dropped."""
    return not key.startswith(SCOPE_PREFIXES)


def changes(node: TransformNode, result: object, state: StateView) -> dict[str, Any]:
    """What a transform's `result` changes in `state`: key → new value, `None` for a key that goes.

    Keys that keep their value are left out, so an empty dict means that nothing changed.

    Raises:
        TransformError: the function returned something that is not a dict with text keys.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TransformError(
            f"Transform {node.name or node.label!r} is async; inside S.when, S.branch and + only plain "
            "functions work. Make it a step of its own with >>."
        )
    if result is None:
        return _differing({**_removed(node, {}, state)}, state)
    if not isinstance(result, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, Any]", result)
    ):
        got = f"{type(cast(object, result)).__name__}: {result!r:.60}"
        raise TransformError(
            f"Transform {node.name or node.label!r} returned {got}. It must "
            "return a dict of state keys to values, or None to change nothing."
        )
    written = cast("Mapping[str, Any]", result)
    return _differing({**_removed(node, written, state), **written}, state)


def _differing(delta: Mapping[str, Any], state: StateView) -> dict[str, Any]:
    return {key: value for key, value in delta.items() if not _same(state.get(key), value)}


def _removed(node: TransformNode, result: Mapping[str, Any], state: StateView) -> dict[str, None]:
    if node.semantics == "replace_session":
        removable = (key for key in state if node.scope == "all" or is_session_scoped(key))
        return {key: None for key in removable if key not in result}
    if node.semantics == "delete_keys":
        return {key: None for key in node.affected_keys or () if is_session_scoped(key)}
    return {}


def _same(old: object, new: object) -> bool:
    return old is new or (type(old) is type(new) and bool(old == new))
