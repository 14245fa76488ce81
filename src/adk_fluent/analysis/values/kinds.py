"""Types by the form in which state stores their values, and the comparisons of routes with such values.

The first part compares types with types: `fits`, `shortfall`. The second part reasons about comparisons
before a run: can one hold for a type, and does an earlier one hold in the same cases? `ir.matching` runs
them.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from enum import Enum, Flag
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NewType, Union, cast, get_args, get_origin

from adk_fluent.ir.predicates import Match, Predicate

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


# --- comparisons ----------------------------------------------------------------------------------


_ORDERS: Final = ("gt", "gte", "lt", "lte")
_DIGITS: Final = frozenset("0123456789.+-e")
"""The characters of numbers as text."""


def holds(test: Match, value: object) -> bool:
    """True if a comparison holds for a value; false if it does not hold or raises."""
    try:
        return test({test.key: value})
    except TypeError:  # values that cannot be compared
        return False


def can_hold(test: Match, kind: object) -> bool:
    """True if a comparison may hold for some value of a type.

    >>> can_hold(Match("score", "eq", 5), str), can_hold(Match("count", "eq", "5"), int)
    (True, False)
    """
    if test.value is None or test.op == "ne":
        return True
    if (values := values_of(kind)) is not None:
        return any(holds(test, value) for value in values)
    if test.op in _ORDERS:
        return not always_raises(test, kind)
    found = kinds(kind)
    if test.op == "contains" and found and found <= NUMBERS:
        return set(str(test.value)) <= _DIGITS
    return test.op != "eq" or found is None or bool(found & _equal_to(test.value))


def _equal_to(value: object) -> frozenset[Kind]:
    """The kinds of stored values that may be equal to this one; a number equals the text that shows it."""
    own = kinds(type(value))
    if own is None:
        return frozenset({"text", "int", "float", "bool", "list", "dict"})
    if not own & NUMBERS:
        return own
    return NUMBERS if isinstance(value, bool) else NUMBERS | TEXT


def always_raises(test: Match, kind: object) -> bool:
    """True if a comparison raises for every value of a type, as `>` does between text and a number.

    >>> always_raises(Match("count", "gt", "5"), int), always_raises(Match("score", "gt", 5), str)
    (True, False)
    """
    found, other = kinds(kind), kinds(cast("type[object]", type(test.value)))
    if test.op not in _ORDERS or not found or not other:
        return False
    if other == TEXT:
        return not found & TEXT
    return bool(other & NUMBERS) and not found & (NUMBERS | TEXT)


def covers(tests: Sequence[Predicate], key: str, values: Sequence[object]) -> bool:
    """True if, for each of these values of a key, one of the tests holds; `None` does not count as a value.

    >>> covers([Match("ok", "eq", True), Match("ok", "eq", False)], "ok", (True, False))
    True
    """
    about = [test for test in tests if isinstance(test, Match) and test.key == key]
    return all(any(holds(test, value) for test in about) for value in values if value is not None)


# --- tests that an earlier test covers ------------------------------------------------------------


_OTHERS: Final = 20
"""The most earlier comparisons, other than `eq` and bounds, that are tried for each later test."""
_LOW: Final = ("gt", "gte")
_HIGH: Final = ("lt", "lte")


def covering_tests(tests: Sequence[Predicate], *, text: bool = False) -> list[Predicate | None]:
    """For each test, the earlier one because of which it never chooses its branch; `None` without one.

    Args:
        text: true if the compared value is certainly text. For a list, `contains` asks for an item.
    """
    before = _EarlierTests(text=text)
    found: list[Predicate | None] = []
    for test in tests:
        found.append(before.everything or before.covering(test))
        before.add(test)
    return found


def exhaustive(tests: Sequence[Predicate]) -> bool:
    """True if one of the tests always holds, also if the key is missing."""
    before = _EarlierTests()
    for test in tests:
        before.add(test)
    return before.everything is not None


class _EarlierTests:
    """The earlier tests of a route.

    Attributes:
        everything: the test together with which the earlier ones cover every case; `None` until then.
    """

    def __init__(self, *, text: bool = False) -> None:
        self._text = text
        self.everything: Predicate | None = None
        self._same: dict[object, Predicate] = {}
        self._bounds: dict[tuple[str, bool], Match] = {}
        self._others: dict[str, list[Match]] = {}

    def add(self, test: Predicate) -> None:
        """Add the next test."""
        self._same.setdefault(_identity(test), test)
        if not isinstance(test, Match):
            return
        if test.op in ("eq", "ne"):
            opposite = test.replace(op="ne" if test.op == "eq" else "eq")
            if _identity(opposite) in self._same:
                self.everything = self.everything or test
        if test.op in _LOW + _HIGH and _number(test.value) is not None:
            side = (test.key, test.op in _LOW)
            known = self._bounds.get(side)
            if known is None or _range_covers(test, known):
                self._bounds[side] = test
        elif test.op != "eq":
            self._others.setdefault(test.key, []).append(test)

    def covering(self, test: Predicate) -> Predicate | None:
        """An earlier test that holds whenever this one does; `None` if that is not certain for any."""
        if (same := self._same.get(_identity(test))) is not None:
            return same
        if not isinstance(test, Match):
            return None
        bounds = [bound for low in (True, False) if (bound := self._bounds.get((test.key, low))) is not None]
        if test.op == "eq" and not test.ignore_case:
            tried = [*bounds, *self._others.get(test.key, ())[:_OTHERS]]
            return next((other for other in tried if holds(other, test.value)), None)
        if test.op == "contains" and self._text:
            others = self._others.get(test.key, ())[:_OTHERS]
            return next((other for other in others if _part_covers(other, test)), None)
        return next((bound for bound in bounds if _range_covers(bound, test)), None)


def _identity(test: Predicate) -> object:
    """A value that is equal for equal tests; a test without a hash is equal to itself only."""
    try:
        hash(test)
    except TypeError:
        return id(test)
    return test


def _range_covers(before: Match, test: Match) -> bool:
    """True if one bound includes another: `> 3` includes `> 5`."""
    first, second = _number(before.value), _number(test.value)
    if first is None or second is None:
        return False
    if before.op in _LOW and test.op in _LOW:
        return first < second or (first == second and (before.op == "gte" or test.op == "gt"))
    if before.op in _HIGH and test.op in _HIGH:
        return first > second or (first == second and (before.op == "lte" or test.op == "lt"))
    return False


def _part_covers(before: Match, test: Match) -> bool:
    """True if every text that contains the value of `test` also passes the earlier one: `xy` contains `x`."""
    if test.ignore_case and not before.ignore_case:
        return False
    if before.op == "contains":
        return holds(before, str(test.value))
    return before.op == "ne" and isinstance(before.value, str) and not holds(test, before.value)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
