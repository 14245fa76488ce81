"""Decide whether a comparison of a route can hold for values of a type. `ir.matching` runs the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from adk_fluent.analysis.values.kinds import NUMBERS, TEXT, Kind, kinds, values_of
from adk_fluent.ir.matching import Match, Predicate

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
