"""Reading and changing state: a read-only view, and what a transform's result means for the state."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, cast

from adk_fluent.errors import ReadOnlyStateError, TransformError
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.ir.matching import AbsentKey, StateView
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.scopes import is_session_scoped, is_temporary

LOST: Final = (
    "temp: keys do not outlive a pause, and this run has waited for a person. Write it after that, or use a "
    "key without temp:."
)
"""What there is to say of a missing `temp:` key in a run that was resumed."""


def _refusing(wanted: Callable[..., Mapping[str, object]]) -> Callable[..., Never]:
    """A method that refuses to write what `wanted` makes of its arguments."""

    def refuse(self: ReadOnlyState, /, *args: Any, **kwargs: Any) -> Never:
        raise self.refusal(wanted(*args, **kwargs))

    return refuse


def _name(key: object) -> str:
    return key.key if isinstance(key, StateFieldRef) else cast(str, key)


class _Items(ItemsView[str, Any]):
    """Keys that have a value, with it; a key that holds `None` is in no pair, not even with `None`."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        pair = cast("tuple[object, object]", item)
        return pair[0] in self._mapping and super().__contains__(pair)


class ReadOnlyState(Mapping[str, Any]):
    """State as user functions see it: a mapping of the keys that have a value.

    A key is text or a field of a schema. One that holds `None` is not in it: `in`, iteration, `len`, `get`,
    `items` and `==` agree on that. Only `state[key]` tells it from an absent key: it gives the `None`, as a
    `Counter` gives 0 for what is not in it. Containers are handed out as copies, so nothing a function does
    to them reaches the state.

    Args:
        values: what the state holds.
        resumed: tells whether the run has waited for a person, which `temp:` keys do not outlive.
        place: where the function stands, for messages: `step 'f'`.
        returns: whether what the function returns is written.
        known: where these values are a part of a session's state, the keys that were looked for; of any other
            that is absent here, nobody knows whether the session has it.
    """

    __slots__ = ("_known", "_resumed", "_returns", "_values", "place")

    def __init__(
        self,
        values: Mapping[str, Any],
        resumed: Callable[[], bool] | None = None,
        *,
        place: str = "",
        returns: bool = False,
        known: frozenset[str] | None = None,
    ) -> None:
        self._values = values
        self._known = known
        self._resumed = resumed
        self.place: str = place
        self._returns = returns

    def __getitem__(self, key: str) -> Any:
        name = _name(key)
        try:
            return detached(self._values[name])
        except KeyError:
            raise AbsentKey(name) from None

    def get(self, key: str, default: Any = None) -> Any:  # without the error that looking it up would make
        """The value at `key`, or `default`."""
        name = _name(key)
        return default if self._values.get(name) is None else self[name]

    def __contains__(self, key: object) -> bool:  # without the copy that looking it up would make
        return self._values.get(_name(key)) is not None

    def items(self) -> ItemsView[str, Any]:
        """The keys that have a value, with it."""
        return _Items(self)

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self._values.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ReadOnlyState({dict(self)!r})"

    def over(self, changes: Mapping[str, Any]) -> ReadOnlyState:
        """The same state with some changes, for a function that stands in the same place."""
        return self._like({**self._values, **changes}, self.place, self._returns)

    def holds(self, key: str) -> bool:
        """Whether a key has a value, which may be `None`."""
        return key in self._values

    def at(self, place: str, *, returns: bool = False) -> ReadOnlyState:
        """The same state for a function that stands in `place`."""
        return self._like(self._values, place, returns)

    def _like(self, values: Mapping[str, Any], place: str, returns: bool) -> ReadOnlyState:
        return ReadOnlyState(values, self._resumed, place=place, returns=returns, known=self._known)

    def knows(self, key: str) -> bool:
        """Whether a key that is absent here is absent in the session too."""
        return self._known is None or key in self._known or is_temporary(key)

    def lost(self, key: str) -> str:
        """What to add to a message that says a key is missing, if a pause has taken it; else nothing."""
        taken = is_temporary(key) and self._resumed is not None and self._resumed()
        return f" {LOST}" if taken else ""

    if not TYPE_CHECKING:  # what a dict could and this refuses; to a type checker there is no such method
        __setitem__ = setdefault = _refusing(lambda key, value=None: {key: value})
        __delitem__ = pop = _refusing(lambda key, *default: {key: None})
        update = __ior__ = _refusing(lambda other=(), /, **values: {**dict(other), **values})
        popitem = clear = _refusing(lambda: {})

    def refusal(self, wanted: Mapping[str, object]) -> ReadOnlyStateError:
        """The error for a function that wants to write this, `None` standing for a key that goes."""
        start = f"State is read-only in {self.place}" if self.place else "State is read-only here"
        if not wanted:
            return ReadOnlyStateError(f"{start}; put S.drop(...) into the pipeline to remove keys.")
        items = ", ".join(f"{json.dumps(str(key))}: {value!r:.40}" for key, value in wanted.items())
        if self._returns:
            return ReadOnlyStateError(f"{start}; return {{{items}}}.")
        return ReadOnlyStateError(f"{start}; a step that returns {{{items}}} can write it.")


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


def changes(node: TransformNode, result: object, state: StateView) -> dict[str, Any]:
    """What a transform's `result` changes in `state`: key → new value, `None` for a key that goes.

    The values are detached: a function may return what it keeps, and a tool may change what is in state.
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
        return differing({**_removed(node, {}, state)}, state)
    if not isinstance(result, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, Any]", result)
    ):
        got = f"{type(cast(object, result)).__name__}: {result!r:.60}"
        raise TransformError(
            f"Transform {node.name or node.label!r} returned {got}. It must "
            "return a dict of state keys to values, or None to change nothing."
        )
    written = cast("Mapping[str, Any]", result)
    return differing({**_removed(node, written, state), **written}, state)


def differing(delta: Mapping[str, Any], state: StateView) -> dict[str, Any]:
    """The changes that change something."""
    return {key: detached(value) for key, value in delta.items() if not _holds(state, key, value)}


def _holds(state: StateView, key: str, value: Any) -> bool:
    if value is None and isinstance(state, ReadOnlyState) and not state.knows(key):
        return False
    return _same(state.get(key), value)


def _removed(node: TransformNode, result: Mapping[str, Any], state: StateView) -> dict[str, None]:
    if node.semantics == "replace_session":
        removable = (key for key in state if node.scope == "all" or is_session_scoped(key))
        return {key: None for key in removable if key not in result}
    if node.semantics == "delete_keys":
        return {key: None for key in sorted(node.affected_keys or ()) if is_session_scoped(key)}
    return {}


def _same(old: object, new: object) -> bool:
    return old is new or (type(old) is type(new) and bool(old == new))
