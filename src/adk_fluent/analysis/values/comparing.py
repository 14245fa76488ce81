"""What the comparisons of a route can make of a value of a known type; runs do what `ir.predicates` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from adk_fluent.analysis.values.kinds import NUMBERS, TEXT, Kind, kinds, values_of
from adk_fluent.ir.predicates import Match, Predicate

_ORDERS: Final = ("gt", "gte", "lt", "lte")
_DIGITS: Final = frozenset("0123456789.+-e")
"""What a number consists of where it is written down."""


def holds(test: Match, value: object) -> bool:
    """Whether a comparison holds for a value; one that raises does not."""
    try:
        return test({test.key: value})
    except TypeError:  # values that cannot be compared
        return False


def can_hold(test: Match, kind: object) -> bool:
    """Whether a comparison holds for some value of a type; unsure counts as yes.

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
    """How a value must be stored to be equal to this one; a number is also what text says."""
    own = kinds(type(value))
    if own is None:
        return frozenset({"text", "int", "float", "bool", "list", "dict"})
    if not own & NUMBERS:
        return own
    return NUMBERS if isinstance(value, bool) else NUMBERS | TEXT


def always_raises(test: Match, kind: object) -> bool:
    """Whether a comparison raises for every value of a type, as `>` does between text and a number.

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
    """Whether for each of these values of a key one of the tests holds; `None` is no value.

    >>> covers([Match("ok", "eq", True), Match("ok", "eq", False)], "ok", (True, False))
    True
    """
    about = [test for test in tests if isinstance(test, Match) and test.key == key]
    return all(any(holds(test, value) for test in about) for value in values if value is not None)
