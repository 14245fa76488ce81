"""State outside its session: views for functions, their changes, and plain data for other processes.

A user function receives a `ReadOnlyState` and returns new values; `changes` turns them into a delta.
`pack` converts a state to plain data, which another process receives equal in every format of serialization,
and `unpack` restores it there.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Never, cast

from adk_fluent.errors import ReadOnlyStateError, SerializationError, TransformError
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.predicates import AbsentKey, StateView
from adk_fluent.ir.state_keys import StateFieldRef, is_session_scoped, is_temporary
from adk_fluent.state.field_types import field_type

LOST: Final = (
    "temp: keys do not outlive a pause, and this run has waited for a person. Write it after that, or use a "
    "key without temp:."
)
"""The hint for a missing `temp:` key in a resumed run."""


def _refusing_method(changes_of_call: Callable[..., Mapping[str, object]]) -> Callable[..., Never]:
    """Make a method that raises an error instead of writing.

    Args:
        changes_of_call: the changes that the arguments of the method ask for, for the message.
    """

    def refuse(self: ReadOnlyState, /, *args: Any, **kwargs: Any) -> Never:
        raise self.refusal(changes_of_call(*args, **kwargs))

    return refuse


def _key_of(key: object) -> str:
    return key.key if isinstance(key, StateFieldRef) else cast(str, key)


class _PresentItems(ItemsView[str, Any]):
    """Pairs of key and value; a key that holds `None` has no pair."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        pair = cast("tuple[object, object]", item)
        return pair[0] in self._mapping and super().__contains__(pair)


class ReadOnlyState(Mapping[str, Any]):
    """The state that user functions receive: a mapping of the keys that have a value.

    A key is text or a field of a schema. A key that holds `None` counts as absent in `in`, iteration, `len`,
    `get`, `items` and `==`. Only `state[key]` distinguishes the two: it returns the `None`, and raises for an
    absent key. Lists, dicts and sets are returned as copies, so a function cannot change the state.

    Args:
        values: the values of the state.
        resumed: returns True if the run has waited for a person. A pause removes `temp:` keys.
        place: the place of the function, for messages: `step 'f'`.
        returns: True if the returned value of the function is written to state.
        known: if `values` is a part of a session's state, the keys that were looked up. Any other key may be
            in the session although it is absent here.
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
        name = _key_of(key)
        try:
            return detached(self._values[name])
        except KeyError:
            raise AbsentKey(name) from None

    def get(self, key: str, default: Any = None) -> Any:  # faster than a look-up, which makes an error
        """The value at `key`, or `default`."""
        name = _key_of(key)
        return default if self._values.get(name) is None else self[name]

    def __contains__(self, key: object) -> bool:  # faster than a look-up, which makes a copy
        return self._values.get(_key_of(key)) is not None

    def items(self) -> ItemsView[str, Any]:
        """The pairs of key and value; keys that hold `None` are left out."""
        return _PresentItems(self)

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self._values.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ReadOnlyState({dict(self)!r})"

    def over(self, changes: Mapping[str, Any]) -> ReadOnlyState:
        """The state with some changes, for another function in the same place."""
        return self._like({**self._values, **changes}, self.place, self._returns)

    def holds(self, key: str) -> bool:
        """True if a key has a value, which may be `None`."""
        return key in self._values

    def at(self, place: str, *, returns: bool = False) -> ReadOnlyState:
        """The state for a function in `place`."""
        return self._like(self._values, place, returns)

    def _like(self, values: Mapping[str, Any], place: str, returns: bool) -> ReadOnlyState:
        return ReadOnlyState(values, self._resumed, place=place, returns=returns, known=self._known)

    def knows(self, key: str) -> bool:
        """True if a key that is absent here is certainly absent in the session, too."""
        return self._known is None or key in self._known or is_temporary(key)

    def lost(self, key: str) -> str:
        """The hint for a message about a missing key if a pause removed the key; else empty."""
        is_lost = is_temporary(key) and self._resumed is not None and self._resumed()
        return f" {LOST}" if is_lost else ""

    if not TYPE_CHECKING:  # methods of a dict that raise here; a type checker sees no such method
        __setitem__ = setdefault = _refusing_method(lambda key, value=None: {key: value})
        __delitem__ = pop = _refusing_method(lambda key, *default: {key: None})
        update = __ior__ = _refusing_method(lambda other=(), /, **values: {**dict(other), **values})
        popitem = clear = _refusing_method(lambda: {})

    def refusal(self, unwritten: Mapping[str, object]) -> ReadOnlyStateError:
        """The error for a function that tries to write these changes; `None` means that a key is removed."""
        start = f"State is read-only in {self.place}" if self.place else "State is read-only here"
        if not unwritten:
            return ReadOnlyStateError(f"{start}; put S.drop(...) into the pipeline to remove keys.")
        items = ", ".join(f"{json.dumps(str(key))}: {value!r:.40}" for key, value in unwritten.items())
        if self._returns:
            return ReadOnlyStateError(f"{start}; return {{{items}}}.")
        return ReadOnlyStateError(f"{start}; a step that returns {{{items}}} can write it.")


def detached(value: Any) -> Any:
    """Copy a value, so that a change of the copy does not reach the original.

    A value that is not a container, or that holds something that cannot be copied, such as a lock, is
    returned itself.
    """
    if not isinstance(value, dict | list | set | tuple):
        return value
    try:
        return copy.deepcopy(cast(object, value))
    except TypeError:  # a part cannot be copied
        return cast(Any, value)


def changes(node: TransformNode, result: object, state: StateView) -> dict[str, Any]:
    """The changes of `state` by a transform's `result`: key → new value, `None` for a removed key.

    The values are copies, because a function may return an object that it changes later. Keys that keep their
    value are left out, so an empty dict means that nothing changed.

    Raises:
        TransformError: the function did not return a dict with text keys.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TransformError(
            f"Transform {node.name or node.label!r} is async; inside S.when, S.branch and + only plain "
            "functions work. Make it a separate step with >>."
        )
    if result is None:
        return without_unchanged({**_removals(node, {}, state)}, state)
    if not isinstance(result, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, Any]", result)
    ):
        returned = f"{type(cast(object, result)).__name__}: {result!r:.60}"
        raise TransformError(
            f"Transform {node.name or node.label!r} returned {returned}. It must "
            "return a dict of state keys to values, or None to change nothing."
        )
    written = cast("Mapping[str, Any]", result)
    return without_unchanged({**_removals(node, written, state), **written}, state)


def without_unchanged(delta: Mapping[str, Any], state: StateView) -> dict[str, Any]:
    """The changes without those whose key has the value already."""
    return {key: detached(value) for key, value in delta.items() if not _has_value(state, key, value)}


def _has_value(state: StateView, key: str, value: Any) -> bool:
    if value is None and isinstance(state, ReadOnlyState) and not state.knows(key):
        return False
    return _are_equal(state.get(key), value)


def _removals(node: TransformNode, result: Mapping[str, Any], state: StateView) -> dict[str, None]:
    if node.semantics == "replace_session":
        removable = (key for key in state if node.scope == "all" or is_session_scoped(key))
        return {key: None for key in removable if key not in result}
    if node.semantics == "delete_keys":
        return {key: None for key in sorted(node.affected_keys or ()) if is_session_scoped(key)}
    return {}


def _are_equal(old: object, new: object) -> bool:
    return old is new or (type(old) is type(new) and bool(old == new))


# --- plain data -----------------------------------------------------------------------------------


Fields = Mapping[str, StateFieldRef]
"""State key → its field of a `StateSchema`."""

MAX_NESTING: Final = 200
"""The deepest nesting of lists and dicts; a deeper value counts as one that contains itself."""

SCALARS: Final = (str, bytes, bool, int, float, type(None))
"""The types of single values. A value of a subclass, such as a `StrEnum`, arrives as its plain value."""

KEYS: Final = (str, bool, int, float, type(None))
"""The types that the keys of a dict may have."""


def is_plain(value: object) -> bool:
    """True if a value consists of text, bytes, numbers, booleans, `None`, lists, tuples and dicts alone.

    >>> is_plain({"a": [1, (2.5, b"x")]}), is_plain({"a": {1, 2}})
    (True, False)
    """
    return fault_in(value) is None


def fault_in(value: object) -> str | None:
    """The first part of a value that is not plain data, with its path; `None` if all of it is plain.

    >>> fault_in({"rooms": [1, {2}]})
    "a set at ['rooms'][1]"
    >>> fault_in(object())
    'an object'
    """
    stack: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while stack:
        part, path = stack.pop()
        if isinstance(part, SCALARS):
            continue
        if len(path) > MAX_NESTING:
            return f"more than {MAX_NESTING} lists and dicts inside one another"
        if isinstance(part, list | tuple):
            stack += ((inner, (*path, index)) for index, inner in enumerate(cast("list[Any]", part)))
        elif isinstance(part, dict):
            entries = cast("dict[Any, Any]", part)
            bad_key = next((key for key in entries if not isinstance(key, KEYS)), None)
            if bad_key is not None:
                return f"{_with_article(bad_key)} as a key of a dict{_at_path(path)}"
            stack += ((inner, (*path, key)) for key, inner in entries.items())
        else:
            return f"{_with_article(part)}{_at_path(path)}"
    return None


def _with_article(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _at_path(path: tuple[Any, ...]) -> str:
    return f" at {''.join(_path_steps(path))}" if path else ""


def _path_steps(path: tuple[Any, ...]) -> Iterator[str]:
    return (f"[{step!r:.40}]" for step in path)


# --- a state for another process ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Typed:
    """The JSON form of a schema field's value that is not plain data; the field restores its type."""

    value: Any


def pack(state: Mapping[str, Any], fields: Fields, where: str) -> dict[str, Any]:
    """Convert state to plain data: values of schema fields that are not plain become `Typed` JSON.

    `temp:` keys are left out.

    Args:
        fields: key → the schema field.
        where: the boundary that the state crosses, for messages.

    Raises:
        SerializationError: a value is not plain data and no schema field has its key.
        StateTypeError: the value does not match its field.
    """
    return {
        key: _packed_value(key, value, fields, where) for key, value in state.items() if not is_temporary(key)
    }


def _packed_value(key: str, value: Any, fields: Fields, where: str) -> Any:
    fault = fault_in(value)
    if fault is None:
        return value
    if key in fields:
        return Typed(field_type(fields[key]).dump(value, f"At {where}, "))
    raise SerializationError(
        f"State key {key!r} cannot cross {where}: it holds {fault}. Write text, numbers, bytes, lists and "
        f"dicts (a model with .model_dump()), name a StateSchema that has {key!r}, or keep it under "
        f"'temp:{key}'."
    )


def unpack(state: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Restore the state that `pack` converted.

    Raises:
        SerializationError: a value belongs to a schema field that `fields` does not have.
    """
    return {key: _unpacked_value(key, value, fields) for key, value in state.items()}


def _unpacked_value(key: str, value: Any, fields: Fields) -> Any:
    if not isinstance(value, Typed):
        return value
    if key not in fields:
        raise SerializationError(
            f"State key {key!r} came as a value of a StateSchema that this side does not have. "
            "Deploy the same pipeline on both sides."
        )
    return field_type(fields[key]).load(value.value)
