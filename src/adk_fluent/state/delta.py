"""Reading and changing state: a read-only view, and what a transform's result means for the state."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, cast

from adk_fluent.errors import ReadOnlyStateError, TransformError
from adk_fluent.ir.matching import AbsentKey, StateView
from adk_fluent.ir.nodes import TransformNode

SCOPE_PREFIXES: Final = ("app:", "user:", "temp:")


def _refusing(wanted: Callable[..., Mapping[str, object]]) -> Callable[..., Never]:
    """A method that refuses to write what `wanted` makes of its arguments."""

    def refuse(self: ReadOnlyState, *args: Any, **kwargs: Any) -> Never:
        raise self.refusal(wanted(*args, **kwargs))

    return refuse


class ReadOnlyState(Mapping[str, Any]):
    """State as user functions see it.

    A key whose value is `None` is absent. Containers are handed out as copies, so nothing a function
    does to them reaches the state.

    Args:
        values: what the state holds.
        place: where the function stands, for messages: `step 'f'`.
        returns: whether what the function returns is written.
    """

    __slots__ = ("_place", "_returns", "_values")

    def __init__(self, values: Mapping[str, Any], place: str = "", *, returns: bool = False) -> None:
        self._values = values
        self._place = place
        self._returns = returns

    def __getitem__(self, key: str) -> Any:
        value = self._values.get(key)
        if value is None:
            raise AbsentKey(key)
        return copy.deepcopy(cast(object, value)) if isinstance(value, dict | list | set | tuple) else value

    def get(self, key: str, default: Any = None) -> Any:  # without the error that looking it up would make
        """The value at `key`, or `default`."""
        return default if self._values.get(key) is None else self[key]

    def __contains__(self, key: object) -> bool:  # without the copy that looking it up would make
        return self._values.get(cast(str, key)) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self._values.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ReadOnlyState({dict(self)!r})"

    def within(self, values: Mapping[str, Any]) -> ReadOnlyState:
        """Other values, for a function that stands in the same place."""
        return ReadOnlyState(values, self._place, returns=self._returns)

    if not TYPE_CHECKING:  # what a dict could and this refuses; to a type checker there is no such method
        __setitem__ = setdefault = _refusing(lambda key, value=None: {key: value})
        __delitem__ = pop = _refusing(lambda key, *default: {key: None})
        update = __ior__ = _refusing(lambda other=(), /, **values: {**dict(other), **values})
        popitem = clear = _refusing(lambda: {})

    def refusal(self, wanted: Mapping[str, object]) -> ReadOnlyStateError:
        """The error for a function that wants to write this, `None` standing for a key that goes."""
        start = f"State is read-only in {self._place}" if self._place else "State is read-only here"
        if not wanted:
            return ReadOnlyStateError(f"{start}; put S.drop(...) into the pipeline to remove keys.")
        items = ", ".join(f"{json.dumps(str(key))}: {value!r:.40}" for key, value in wanted.items())
        if self._returns:
            return ReadOnlyStateError(f"{start}; return {{{items}}}.")
        return ReadOnlyStateError(f"{start}; a step that returns {{{items}}} can write it.")


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
