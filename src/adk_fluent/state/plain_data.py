"""Plain data: values that another process receives equal, in every format of serialization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.errors import SerializationError
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.field_types import field_type

if TYPE_CHECKING:
    from adk_fluent.ir.state_keys import StateFieldRef


Fields = Mapping[str, "StateFieldRef"]
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
            stack += ((inner, (*path, place)) for place, inner in enumerate(cast("list[Any]", part)))
        elif isinstance(part, dict):
            entries = cast("dict[Any, Any]", part)
            wrong = next((key for key in entries if not isinstance(key, KEYS)), None)
            if wrong is not None:
                return f"{_called(wrong)} as a key of a dict{_place(path)}"
            stack += ((inner, (*path, key)) for key, inner in entries.items())
        else:
            return f"{_called(part)}{_place(path)}"
    return None


def _called(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _place(path: tuple[Any, ...]) -> str:
    return f" at {''.join(_steps(path))}" if path else ""


def _steps(path: tuple[Any, ...]) -> Iterator[str]:
    return (f"[{step!r:.40}]" for step in path)


# --- a whole state ---------------------------------------------------------------------------------


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
    return {key: _packed(key, value, fields, where) for key, value in state.items() if not is_temporary(key)}


def _packed(key: str, value: Any, fields: Fields, where: str) -> Any:
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
    return {key: _unpacked(key, value, fields) for key, value in state.items()}


def _unpacked(key: str, value: Any, fields: Fields) -> Any:
    if not isinstance(value, Typed):
        return value
    if key not in fields:
        raise SerializationError(
            f"State key {key!r} came as a value of a StateSchema that this side does not have. "
            "Deploy the same pipeline on both sides."
        )
    return field_type(fields[key]).load(value.value)
