"""Values and types that a session store does not give back as they were.

JSON has no number for NaN and infinity. SQLite ends a text at U+0000, PostgreSQL refuses it, and UTF-8 has no
form for half a character. A type may lose something when it is written: a secret becomes asterisks, and an
excluded field is left out. This module refuses all of them, with every store alike, when they are declared or
written.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from json import JSONEncoder
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin, get_type_hints

from adk_fluent.errors import ArgumentError, StateTypeError
from adk_fluent.ir.state_keys import is_temporary

# --- values ---------------------------------------------------------------------------------------

_ALWAYS: Final = frozenset({int, bool, type(None)})
_encode: Final = JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def check_storable(delta: Mapping[str, Any], who: str) -> None:
    """Check that every session store can hold these values; `temp:` keys are not stored.

    Args:
        who: the start of the message: `Agent 'a' wrote`.

    Raises:
        StateTypeError: a value has NaN, infinity, U+0000 or half a character, or nests too deep.
    """
    for key, value in delta.items():
        if type(value) in _ALWAYS and key.isascii() and "\0" not in key:
            continue
        if not is_temporary(key) and (wrong := unstorable(value, key) or _refused(key)):
            raise StateTypeError(
                f"{who} state key {key!r:.60}, which no session store can hold as it is: {wrong}. "
                "Write another value, or keep it under a temp: key."
            )


def unstorable(value: object, name: str = "") -> str | None:
    """The first part of a value that some session store refuses or changes, with its path; `None` if none.

    >>> unstorable({"rows": [{"total": float("nan")}]})
    'rows[0].total is nan, and JSON has finite numbers only'
    >>> unstorable([1.5, "text"])
    """
    kind = type(value)
    if kind in _ALWAYS:
        return None
    if kind is str or kind is float:
        wrong = _refused(cast("str | float", value))
        return f"{name or 'it'} {wrong}" if wrong else None
    try:
        text = _encode(value)
    except RecursionError:
        return f"{name or 'it'} {_DEEP}"
    except (ValueError, TypeError):  # not finite, or not JSON: a model, a date, a value that contains itself
        return _search(value, name)
    if r"\u0000" in text or _is_halved(text):
        return _search(value, name)
    return f"{name or 'it'} {_DEEP}" if _is_deep(text) else None


_LEVELS: Final = 200
"""The levels of nesting that pydantic's JSON parser reads; ADK's stores read events with it."""
_AROUND: Final = 8
"""At most so many levels of an event are around a value."""
_DEEP: Final = f"nests more than {_LEVELS - _AROUND} levels, which a session store does not read back"


def _is_deep(text: str) -> bool:
    """True if a stored event with this JSON value could not be read."""
    if text.count("[") + text.count("{") <= _LEVELS - _AROUND:  # most values, at the speed of a search
        return False
    from pydantic_core import from_json

    try:
        from_json("[" * _AROUND + text + "]" * _AROUND)
    except ValueError:
        return True
    return False


def as_json(stored: object) -> bytes | None:
    """Write a value of JSON types as JSON; `None` if `unstorable` refuses a part of it."""
    from pydantic_core import to_json

    try:
        text = to_json(stored, inf_nan_mode="constants")
    except ValueError:  # half a character
        return None
    is_suspect = b"NaN" in text or b"Infinity" in text or rb"\u0000" in text
    is_suspect = is_suspect or (len(text) > 2 * _LEVELS and _is_deep(text.decode()))
    return None if is_suspect and unstorable(stored) else text


def _search(value: object, name: str) -> str | None:
    """The first part of a value that a store refuses, also inside models and dataclasses."""
    stack: list[tuple[object, str]] = [(value, name)]
    seen: set[int] = set()
    while stack:
        part, path = stack.pop()
        if isinstance(part, str | float):
            if wrong := _refused(part):
                return f"{path or 'it'} {wrong}"
            continue
        items = _parts(part)
        if items is None or id(part) in seen:
            continue
        seen.add(id(part))  # a value may contain itself
        for key, item in items:
            if isinstance(key, str | float) and (wrong := _refused(key)):
                return f"a key of {path or 'it'} {wrong}"
            stack.append((item, path + _step(key, first=not path)))
    return None


def _refused(part: str | float) -> str | None:
    if not isinstance(part, str):
        return None if math.isfinite(part) else f"is {float(part)!r}, and JSON has finite numbers only"
    if "\0" in part:
        return "has the character U+0000, which SQLite and PostgreSQL do not store"
    if _is_halved(part):
        return "has half a character (an unpaired surrogate), which UTF-8 cannot write"
    return None


def _is_halved(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _step(key: object, *, first: bool) -> str:
    if isinstance(key, str) and key.isidentifier():
        return key if first else f".{key}"
    return f"[{key!r:.40}]"


def _parts(value: object) -> Iterator[tuple[object, object]] | None:
    """The parts of a container, a model or a dataclass, each with its key; `None` for another value."""
    if isinstance(value, Mapping):
        return iter(cast("Mapping[object, object]", value).items())
    if isinstance(value, list | tuple | Set):
        return enumerate(cast("Sequence[object]", value))
    kind = type(value)
    fields: Any = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", None)
    if not isinstance(fields, Mapping):
        return None
    extra = cast("Mapping[str, object]", getattr(value, "__pydantic_extra__", None) or {})
    own = {name: getattr(value, name, None) for name in cast("Mapping[str, object]", fields)}
    return iter({**own, **extra}.items())


def differing(value: object, back: object, path: str = "") -> str | None:
    """A message about the first part of a value that differs from `back`; `None` if they are equal."""
    if type(value) is type(back) and value == back:
        return None
    parts, others = _parts(value), _parts(back)
    one, other = (None if each is None else dict(each) for each in (parts, others))
    named_alike = one is not None and other is not None and one.keys() == other.keys()
    if not named_alike or isinstance(value, Set) or type(value) is not type(back):
        same = _alike(cast("object", value), back)
        return None if same else f"{path or 'it'} would be read back as {back!r:.40}"
    assert one is not None
    assert other is not None
    found = (differing(part, other[key], path + _step(key, first=not path)) for key, part in one.items())
    return next((each for each in found if each), None)


def _alike(value: object, back: object) -> bool:
    """True if two values without parts count as equal; without `__eq__`, objects of the same type do."""
    if type(value) is type(back):
        return type(value).__eq__ is object.__eq__ or repr(value) == repr(back)  # such as Decimal("NaN")
    plain = (str, int, float, bool, bytes, list, tuple, dict, set, frozenset)
    return isinstance(value, plain) and value == back  # a subclass of a plain type, such as a `StrEnum`


# --- types ----------------------------------------------------------------------------------------


KEPT: Final = "Declare a type that JSON holds as it is, such as str, or leave the field out."
"""The remedy for a type that would lose something."""


def loss(kind: Any) -> str | None:
    """A message about the part of a type's values that JSON would lose; `None` if no loss is known.

    A secret is written as asterisks, an excluded field is left out, and a serializer may write another type
    than it reads. If a serializer does not declare the type that it writes, each value is checked when it is
    written.

    >>> loss(dict[str, list[int]])
    """
    try:
        return _known_loss(kind)
    except TypeError:  # the type has no hash
        return _loss(kind, "", set())


@lru_cache(maxsize=1024)
def _known_loss(kind: Any) -> str | None:
    return _loss(kind, "", set())


def _loss(kind: Any, path: str, seen: set[int]) -> str | None:
    args = get_args(kind)
    if get_origin(kind) is Annotated:
        kinds = [_written(extra.func, extra.return_type) for extra in args[1:] if hasattr(extra, "when_used")]
        found = next((said for each in kinds if (said := _rewritten(args[0], each, path))), None)
        return found or _loss(args[0], path, seen)
    if hasattr(kind, "get_secret_value") or hasattr(get_origin(kind), "get_secret_value"):
        return f"{path or 'it'} is a {shown(kind)}, which is stored as asterisks"
    for part in args:
        if found := _loss(part, path, seen):
            return found
    if not isinstance(kind, type) or id(kind) in seen:
        return None
    seen.add(id(kind))
    return _loss_of_fields(kind, seen)


def _loss_of_fields(kind: Any, seen: set[int]) -> str | None:
    """A message about a field that a model, a dataclass or a `TypedDict` would lose."""
    hints = _hints(kind)
    fields = _fields(kind)
    for name, hint in hints.items():
        path = f"{kind.__name__}.{name}"
        if name in fields and fields[name].exclude:
            return f"{path} has exclude=True and is not stored"
        if found := _loss(hint, path, seen):
            return found
    decorators = getattr(kind, "__pydantic_decorators__", None)
    for each in getattr(decorators, "field_serializers", {}).values():
        for name in each.info.fields:
            known = hints.get(name)
            if known is not None and (found := _rewritten(known, _result(each), f"{kind.__name__}.{name}")):
                return found
    for each in getattr(decorators, "model_serializers", {}).values():
        if _json_type(_result(each), "serialization") not in (None, "object"):
            return f"the serializer of {kind.__name__} writes {shown(_result(each))}, which is not read back"
    return None


def _result(serializer: Any) -> Any:
    return _written(serializer.func, serializer.info.return_type)


def _fields(kind: Any) -> Mapping[str, Any]:
    found: Any = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", None)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _hints(kind: Any) -> Mapping[str, Any]:
    """The fields of a type: name → type."""
    if fields := _fields(kind):
        return {
            name: Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            for name, field in fields.items()
        }
    if not (dataclasses.is_dataclass(kind) or hasattr(kind, "__required_keys__") or hasattr(kind, "_fields")):
        return {}
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):  # local names of a function; each value is checked instead
        return {}


def _written(function: Any, given: Any) -> Any:
    """The type that a serializer declares to write."""
    if isinstance(given, type) or get_origin(given) is not None:
        return given
    try:
        return get_type_hints(getattr(function, "__func__", function)).get("return")
    except (NameError, TypeError, AttributeError):
        return None


def _rewritten(kind: Any, written: Any, path: str) -> str | None:
    """A message about a field whose serializer writes another JSON type than the field reads."""
    takes, gives = _json_type(kind, "validation"), _json_type(written, "serialization")
    if takes is None or gives is None or takes == gives or (takes, gives) == ("number", "integer"):
        return None
    return f"the serializer of {path} writes {shown(written)}, which is not read back as {shown(kind)}"


def _json_type(kind: Any, mode: Any) -> str | None:
    """The JSON type of a type's values, if all have the same."""
    if not (isinstance(kind, type) or get_origin(kind) is not None):
        return None
    from pydantic import PydanticUserError, TypeAdapter

    try:
        found = TypeAdapter(kind).json_schema(mode=mode).get("type")
    except PydanticUserError:
        return None
    return found if isinstance(found, str) else None


def given_state(state: object) -> Mapping[str, Any]:
    """Check the argument `state=`: a mapping with text keys; `None` is an empty mapping.

    Raises:
        ArgumentError: the argument is not such a mapping.
        StateTypeError: a session store cannot hold a value, such as NaN.

    >>> given_state({"topic": "tea"}), given_state(None)
    ({'topic': 'tea'}, {})
    """
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise ArgumentError(
            'state= takes a mapping of keys to values, such as {"topic": "tea"}, '
            f"not {type(state).__name__} {state!r:.40}."
        )
    for key in cast("Mapping[object, Any]", state):
        if not isinstance(key, str):
            raise ArgumentError(f"state= takes keys of text; {key!r:.40} is of type {type(key).__name__}.")
    given = cast("Mapping[str, Any]", state)
    check_storable(given, "state= has")
    return given


# --- messages -------------------------------------------------------------------------------------


def shown(kind: object) -> str:
    """The name of a type in messages.

    >>> shown(dict[str, int] | None)
    'dict[str, int] | None'
    """
    if kind is None or kind is type(None):
        return "None"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return shown(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(shown, args))
    if isinstance(origin, type) and args:
        return f"{origin.__name__}[{', '.join('...' if arg is ... else shown(arg) for arg in args)}]"
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
