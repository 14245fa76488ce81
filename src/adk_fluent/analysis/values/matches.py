"""Which comparisons of a route leave nothing for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from adk_fluent.analysis.values.comparing import holds
from adk_fluent.ir.predicates import Match, Predicate

_OTHERS: Final = 20
"""So many earlier comparisons that are neither equality nor a bound are tried on each later value."""
_LOW: Final = ("gt", "gte")
_HIGH: Final = ("lt", "lte")


def covered(tests: Sequence[Predicate], *, text: bool = False) -> list[Predicate | None]:
    """For each test, an earlier one that holds whenever it does, or that leaves nothing for it.

    Args:
        text: whether what is compared is surely text: of a list, `contains` asks for an item.
    """
    before = _Before(text=text)
    found: list[Predicate | None] = []
    for test in tests:
        found.append(before.everything or before.covering(test))
        before.add(test)
    return found


def exhaustive(tests: Sequence[Predicate]) -> bool:
    """Whether one of the tests always holds, also for a key that is not there."""
    before = _Before()
    for test in tests:
        before.add(test)
    return before.everything is not None


class _Before:
    """The tests that come before.

    Attributes:
        everything: the test with which the tests before became such that one of them always holds.
    """

    def __init__(self, *, text: bool = False) -> None:
        self._text = text
        self.everything: Predicate | None = None
        self._same: dict[object, Predicate] = {}
        self._bounds: dict[tuple[str, bool], Match] = {}
        self._others: dict[str, list[Match]] = {}

    def add(self, test: Predicate) -> None:
        """One more test."""
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
        """An earlier test that holds whenever this one does, if one certainly does."""
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
    """Equal for tests that are the same; what cannot be hashed is the same as itself only."""
    try:
        hash(test)
    except TypeError:
        return id(test)
    return test


def _range_covers(before: Match, test: Match) -> bool:
    """Whether one bound includes another: `> 3` includes `> 5`."""
    first, second = _number(before.value), _number(test.value)
    if first is None or second is None:
        return False
    if before.op in _LOW and test.op in _LOW:
        return first < second or (first == second and (before.op == "gte" or test.op == "gt"))
    if before.op in _HIGH and test.op in _HIGH:
        return first > second or (first == second and (before.op == "lte" or test.op == "lt"))
    return False


def _part_covers(before: Match, test: Match) -> bool:
    """Whether all text in which one thing is found passes an earlier test: `x` is found where `xy` is."""
    if test.ignore_case and not before.ignore_case:
        return False
    if before.op == "contains":
        return holds(before, str(test.value))
    return before.op == "ne" and isinstance(before.value, str) and not holds(test, before.value)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
