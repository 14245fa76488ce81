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

_ALWAYS_STORABLE: Final = frozenset({int, bool, type(None)})
_encode: Final = JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def check_storable(delta: Mapping[str, Any], subject: str) -> None:
    """Check that every session store can hold these values; `temp:` keys are not stored.

    Args:
        subject: the start of the message: `Agent 'a' wrote`.

    Raises:
        StateTypeError: a value has NaN, infinity, U+0000 or half a character, or nests too deep.
    """
    for key, value in delta.items():
        if type(value) in _ALWAYS_STORABLE and key.isascii() and "\0" not in key:
            continue
        if not is_temporary(key) and (refusal := unstorable(value, key) or _refusal(key)):
            raise StateTypeError(
                f"{subject} state key {key!r:.60}, which no session store can hold as it is: {refusal}. "
                "Write another value, or keep it under a temp: key."
            )


def unstorable(value: object, name: str = "") -> str | None:
    """The first part of a value that some session store refuses or changes, with its path; `None` if none.

    >>> unstorable({"rows": [{"total": float("nan")}]})
    'rows[0].total is nan, and JSON has finite numbers only'
    >>> unstorable([1.5, "text"])
    """
    kind = type(value)
    if kind in _ALWAYS_STORABLE:
        return None
    if kind is str or kind is float:
        refusal = _refusal(cast("str | float", value))
        return f"{name or 'it'} {refusal}" if refusal else None
    try:
        text = _encode(value)
    except RecursionError:
        return f"{name or 'it'} {_TOO_DEEP}"
    except (ValueError, TypeError):  # not finite, or not JSON: a model, a date, a value that contains itself
        return _first_refusal(value, name)
    if r"\u0000" in text or _has_half_character(text):
        return _first_refusal(value, name)
    return f"{name or 'it'} {_TOO_DEEP}" if _is_deep(text) else None


_LEVELS: Final = 200
"""The levels of nesting that pydantic's JSON parser reads; ADK's stores read events with it."""
_LEVELS_AROUND: Final = 8
"""At most so many levels of an event are around a value."""
_MAX_LEVELS: Final = _LEVELS - _LEVELS_AROUND
_TOO_DEEP: Final = f"nests more than {_MAX_LEVELS} levels, which a session store does not read back"


def _is_deep(text: str) -> bool:
    """True if a stored event with this JSON value could not be read."""
    if text.count("[") + text.count("{") <= _MAX_LEVELS:  # most values, at the speed of a search
        return False
    from pydantic_core import from_json

    try:
        from_json("[" * _LEVELS_AROUND + text + "]" * _LEVELS_AROUND)
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


def _first_refusal(value: object, name: str) -> str | None:
    """The first part of a value that a store refuses, also inside models and dataclasses."""
    stack: list[tuple[object, str]] = [(value, name)]
    seen: set[int] = set()
    while stack:
        part, path = stack.pop()
        if isinstance(part, str | float):
            if refusal := _refusal(part):
                return f"{path or 'it'} {refusal}"
            continue
        items = _parts(part)
        if items is None or id(part) in seen:
            continue
        seen.add(id(part))  # a value may contain itself
        for key, item in items:
            if isinstance(key, str | float) and (refusal := _refusal(key)):
                return f"a key of {path or 'it'} {refusal}"
            stack.append((item, path + _step(key, first=not path)))
    return None


def _refusal(part: str | float) -> str | None:
    if not isinstance(part, str):
        return None if math.isfinite(part) else f"is {float(part)!r}, and JSON has finite numbers only"
    if "\0" in part:
        return "has the character U+0000, which SQLite and PostgreSQL do not store"
    if _has_half_character(part):
        return "has half a character (an unpaired surrogate), which UTF-8 cannot write"
    return None


def _has_half_character(text: str) -> bool:
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
    declared = {name: getattr(value, name, None) for name in cast("Mapping[str, object]", fields)}
    return iter({**declared, **extra}.items())


def difference(value: object, back: object, path: str = "") -> str | None:
    """A message about the first part of a value that differs from `back`; `None` if they are equal."""
    if type(value) is type(back) and value == back:
        return None
    parts, parts_back = _parts(value), _parts(back)
    by_key = None if parts is None else dict(parts)
    by_key_back = None if parts_back is None else dict(parts_back)
    same_keys = by_key is not None and by_key_back is not None and by_key.keys() == by_key_back.keys()
    if not same_keys or isinstance(value, Set) or type(value) is not type(back):
        same = _are_equal(cast("object", value), back)
        return None if same else f"{path or 'it'} would be read back as {back!r:.40}"
    assert by_key is not None
    assert by_key_back is not None
    differences = (
        difference(part, by_key_back[key], path + _step(key, first=not path)) for key, part in by_key.items()
    )
    return next(filter(None, differences), None)


def _are_equal(value: object, back: object) -> bool:
    """True if two values without parts count as equal; without `__eq__`, objects of the same type do."""
    if type(value) is type(back):
        return type(value).__eq__ is object.__eq__ or repr(value) == repr(back)  # such as Decimal("NaN")
    plain = (str, int, float, bool, bytes, list, tuple, dict, set, frozenset)
    return isinstance(value, plain) and value == back  # a subclass of a plain type, such as a `StrEnum`


# --- types ----------------------------------------------------------------------------------------


LOSS_REMEDY: Final = "Declare a type that JSON holds as it is, such as str, or leave the field out."
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
        serializers = [extra for extra in args[1:] if hasattr(extra, "when_used")]
        written = [_written(serializer.func, serializer.return_type) for serializer in serializers]
        losses = (_rewritten(args[0], kind_written, path) for kind_written in written)
        return next(filter(None, losses), None) or _loss(args[0], path, seen)
    if hasattr(kind, "get_secret_value") or hasattr(get_origin(kind), "get_secret_value"):
        return f"{path or 'it'} is a {type_text(kind)}, which is stored as asterisks"
    for part in args:
        if lost := _loss(part, path, seen):
            return lost
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
        if lost := _loss(hint, path, seen):
            return lost
    decorators = getattr(kind, "__pydantic_decorators__", None)
    for serializer in getattr(decorators, "field_serializers", {}).values():
        written = _written(serializer.func, serializer.info.return_type)
        for name in serializer.info.fields:
            hint = hints.get(name)
            if hint is not None and (lost := _rewritten(hint, written, f"{kind.__name__}.{name}")):
                return lost
    for serializer in getattr(decorators, "model_serializers", {}).values():
        written = _written(serializer.func, serializer.info.return_type)
        if _json_type(written, "serialization") not in (None, "object"):
            return f"the serializer of {kind.__name__} writes {type_text(written)}, which is not read back"
    return None


def _fields(kind: Any) -> Mapping[str, Any]:
    fields: Any = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", None)
    return cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}


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


def _written(function: Any, return_type: Any) -> Any:
    """The type that a serializer writes: the `return_type` that it declares, or that of its function."""
    if isinstance(return_type, type) or get_origin(return_type) is not None:
        return return_type
    try:
        return get_type_hints(getattr(function, "__func__", function)).get("return")
    except (NameError, TypeError, AttributeError):
        return None


def _rewritten(kind: Any, written: Any, path: str) -> str | None:
    """A message about a field whose serializer writes another JSON type than the field reads."""
    read_as, written_as = _json_type(kind, "validation"), _json_type(written, "serialization")
    if read_as is None or written_as is None or read_as == written_as:
        return None
    if (read_as, written_as) == ("number", "integer"):
        return None
    return (
        f"the serializer of {path} writes {type_text(written)}, which is not read back as {type_text(kind)}"
    )


def _json_type(kind: Any, mode: Any) -> str | None:
    """The JSON type of a type's values, if all have the same."""
    if not (isinstance(kind, type) or get_origin(kind) is not None):
        return None
    from pydantic import PydanticUserError, TypeAdapter

    try:
        json_type = TypeAdapter(kind).json_schema(mode=mode).get("type")
    except PydanticUserError:
        return None
    return json_type if isinstance(json_type, str) else None


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


def type_text(kind: object) -> str:
    """The name of a type in messages.

    >>> type_text(dict[str, int] | None)
    'dict[str, int] | None'
    """
    if kind is None or kind is type(None):
        return "None"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_text(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(type_text, args))
    if isinstance(origin, type) and args:
        return f"{origin.__name__}[{', '.join('...' if arg is ... else type_text(arg) for arg in args)}]"
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
