"""Compare types by the form in which state stores their values: as JSON."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from enum import Enum, Flag
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NewType, Union, cast, get_args, get_origin

Kind = Literal["text", "int", "float", "bool", "list", "dict", "none"]

NUMBERS: Final[frozenset[Kind]] = frozenset({"int", "float", "bool"})
TEXT: Final[frozenset[Kind]] = frozenset({"text"})
_AS_TEXT: Final = frozenset(
    {
        *(("datetime", name) for name in ("date", "time", "timedelta")),
        ("decimal", "Decimal"),
        ("pathlib", "PurePath"),
        ("uuid", "UUID"),
    }
)
"""Classes stored as text. They are listed by name because their imports take longer than a check."""
_LISTS: Final = (list, tuple, set, frozenset)
_TAKES: Final[Mapping[Kind, AbstractSet[Kind]]] = {
    "float": frozenset({"float", "int"}),
    "int": frozenset({"int", "bool"}),
}
"""The kinds that are accepted for an expected kind, if these are more than the kind itself."""


def kinds(kind: object) -> frozenset[Kind] | None:
    """The forms in which values of a type are stored; `None` if they are not known.

    >>> sorted(kinds(list[str] | None)), kinds(Literal["yes", "no"]), kinds(object)
    (['list', 'none'], frozenset({'text'}), None)
    """
    try:
        return _kinds(kind)
    except TypeError:  # a JSON schema, which is a dict, cannot be hashed
        return None


@lru_cache(maxsize=1024)
def _kinds(kind: Any) -> frozenset[Kind] | None:
    if (inner := _inside(kind)) is not kind:
        return kinds(inner)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _all(kinds(member) for member in get_args(kind))
    if kind is not bool and (values := values_of(kind)) is not None:
        return _all(kinds(type(value)) for value in values)
    cls = kind if isinstance(kind, type) else origin
    if kind is None:
        return frozenset({"none"})
    return _kinds_of_class(cls) if isinstance(cls, type) else None


def _kinds_of_class(cls: type[Any]) -> frozenset[Kind] | None:
    for base, stored in _CLASSES:
        if issubclass(cls, base):
            return frozenset({stored})
    if any((base.__module__.partition(".")[0], base.__qualname__) in _AS_TEXT for base in cls.__mro__):
        return TEXT
    # A root model is stored as the value that it wraps.
    is_model = _is_model(cls) and "root" not in cls.model_fields
    is_record = is_model or is_dataclass(cls) or hasattr(cls, "__required_keys__")
    return frozenset({"dict"}) if is_record else None


_CLASSES: Final[tuple[tuple[Any, Kind], ...]] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "text"),
    (_LISTS, "list"),
    (Mapping, "dict"),
    (types.NoneType, "none"),
)


def _all(found: Iterable[frozenset[Kind] | None]) -> frozenset[Kind] | None:
    """The kinds of several types together; unknown if one is."""
    every: frozenset[Kind] = frozenset()
    for one in found:
        if one is None:
            return None
        every |= one
    return every


def _inside(kind: Any) -> Any:
    """The type without `Annotated`, `NewType` or an alias around it."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[0]
    if isinstance(kind, NewType):
        return kind.__supertype__
    return kind.__value__ if type(kind).__name__ == "TypeAliasType" else kind  # `type X = ...`, from 3.12 on


def values_of(kind: Any) -> tuple[object, ...] | None:
    """All values of a type that has only a few, as they are stored; `None` for any other type.

    >>> values_of(Literal["yes", "no"] | None), values_of(bool), values_of(str)
    (('yes', 'no', None), (True, False), None)
    """
    if (inner := _inside(kind)) is not kind:
        return values_of(inner)
    origin = get_origin(kind)
    if origin is Literal:
        return tuple(value.value if isinstance(value, Enum) else value for value in get_args(kind))
    if origin in (Union, types.UnionType):
        members = [(None,) if member is types.NoneType else values_of(member) for member in get_args(kind)]
        return None if None in members else tuple(value for values in members for value in values or ())
    if kind is bool:
        return (True, False)
    if isinstance(kind, type) and issubclass(kind, Enum) and not issubclass(kind, Flag):
        return tuple(member.value for member in kind)
    return None


def fits(given: object, wanted: object) -> bool:
    """True if a value of one type may be used where the other is expected.

    >>> fits(str, Literal["yes", "no"]), fits(list, list[str] | None), fits(str, float)
    (True, True, False)
    """
    if isinstance(given, type) and isinstance(wanted, type) and _is_model(given) and _is_model(wanted):
        return issubclass(given, wanted)
    have, want = kinds(given), kinds(wanted)
    if have is None or want is None:
        return True
    return any(one in _TAKES.get(kind, {kind}) for one in _present(have) for kind in _present(want))


def shortfall(given: object, wanted: object) -> str | None:
    """The reason why no value of a type can be read as another; `None` if one can, or if it is not known.

    Unlike `fits`, it compares two models by their fields, as pydantic does when it reads a value.

    >>> from pydantic import BaseModel
    >>> Order = type("Order", (BaseModel,), {"__annotations__": {"item": str}})
    >>> Bill = type("Bill", (BaseModel,), {"__annotations__": {"total": float}})
    >>> shortfall(Bill, Order), shortfall(Order | None, Order)
    ('Bill has no "item"', None)
    """
    if get_origin(given) in (Union, types.UnionType):
        found = [shortfall(each, wanted) for each in get_args(given) if each is not types.NoneType]
        return None if None in found else next(iter(found), None)
    if not (isinstance(given, type) and isinstance(wanted, type) and _is_model(given) and _is_model(wanted)):
        if fits(given, wanted):
            return None
        stored, needed = (" or ".join(sorted(kinds(kind) or ())) for kind in (given, wanted))
        return f"as JSON it is {stored}, not {needed}"
    if not kinds(given) == kinds(wanted) == frozenset({"dict"}) or issubclass(given, wanted):
        return None
    return _lacking(cast("Any", given), cast("Any", wanted))


def _lacking(given: Any, wanted: Any) -> str | None:
    """The first field of `wanted` that `given` lacks, or has with another type, in words."""
    if given.model_config.get("extra") == "allow":
        return None
    has = {key: field for name, field in given.model_fields.items() for key in _keys(name, field)}
    for name, field in wanted.model_fields.items():
        own = next((has[key] for key in _keys(name, field) if key in has), None)
        if own is None and field.is_required():
            return f'{named(given)} has no "{name}"'
        if own is not None and not fits(own.annotation, field.annotation):
            return f'"{name}" of {named(given)} is {named(own.annotation)}, not {named(field.annotation)}'
    return None


def _keys(name: str, field: Any) -> set[object]:
    """The names under which a field of a model may be written."""
    names: set[object] = {name, field.alias, field.validation_alias, field.serialization_alias}
    return names - {None}


def _present(found: frozenset[Kind]) -> frozenset[Kind]:
    """The kinds without `None`, which means in state that there is no value."""
    return found - {"none"} or found


def _is_model(kind: type[Any]) -> bool:
    return hasattr(kind, "model_fields")


def named(kind: object) -> str:
    """The name of a type in messages.

    >>> named(float), named(Literal["a"])
    ('float', "Literal['a']")
    """
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind.__name__
    return str(kind).replace("typing.", "")
