"""Enumerations with members that JSON cannot hold as they are, such as dates, read from their stored form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin


def readable(kind: Any) -> Any:
    """The type with its enumerations, at any depth, changed so that pydantic reads them from their JSON.

    Without this change, pydantic writes a member whose value is a date as text, and then does not find that
    text among the values of the enumeration.
    """
    if isinstance(kind, type) and issubclass(cast(Any, kind), Enum):
        return _readable(cast("type[Enum]", kind))
    origin, args = get_origin(kind), get_args(kind)
    if not args or origin is Literal:
        return kind
    if origin is Annotated:
        return Annotated[(readable(args[0]), *args[1:])]
    parts = tuple(part if part is ... else readable(part) for part in args)
    if parts == args:
        return kind
    return Union[parts] if origin is UnionType else cast(Any, origin)[parts]  # noqa: UP007  # parts are a value


def _readable(kind: type[Enum]) -> Any:
    from pydantic import BeforeValidator
    from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

    try:
        stored = {to_json(member.value): member for member in kind}
        same = all(to_jsonable_python(member.value) == member.value for member in kind)
    except PydanticSerializationError:  # a value has no stored form at all
        return kind
    return kind if same else Annotated[kind, BeforeValidator(_reader(kind, stored))]


def _reader(kind: type[Enum], stored: Mapping[bytes, Enum]) -> Callable[[object], object]:
    from pydantic_core import to_json

    def read(value: object) -> object:
        return value if isinstance(value, kind) else stored.get(to_json(value), value)

    return read
