"""Comparisons of routes: can one hold for a type, and does an earlier one hold in the same cases?

`ir.matching` runs the comparisons; this module reasons about them before a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from adk_fluent.analysis.values.kinds import NUMBERS, TEXT, Kind, kinds, values_of
from adk_fluent.ir.predicates import Match, Predicate

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
