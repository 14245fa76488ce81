"""Which comparisons of a route leave nothing for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adk_fluent.ir.matching import Match, Predicate


def covered(test: Predicate, earlier: Sequence[Predicate]) -> Predicate | None:
    """The earlier test that holds whenever `test` does, if one certainly does."""
    return next((before for before in earlier if _covers(before, test)), None) or _by_two(test, earlier)


def exhaustive(tests: Sequence[Predicate]) -> bool:
    """Whether one of the tests always holds, also for a key that is not there."""
    return any(_opposite(first, second) for number, first in enumerate(tests) for second in tests[:number])


def _by_two(test: Predicate, earlier: Sequence[Predicate]) -> Predicate | None:
    return earlier[-1] if len(earlier) > 1 and exhaustive(earlier) else None


def _opposite(first: Predicate, second: Predicate) -> bool:
    if not (isinstance(first, Match) and isinstance(second, Match)):
        return False
    same = (first.key, first.value, first.ignore_case) == (second.key, second.value, second.ignore_case)
    return same and {first.op, second.op} == {"eq", "ne"}


def _covers(before: Predicate, test: Predicate) -> bool:
    if before is test or before == test:
        return True
    if not (isinstance(before, Match) and isinstance(test, Match)) or before.key != test.key:
        return False
    if test.op == "eq" and not test.ignore_case:
        return _holds(before, test.value)
    return _range_covers(before, test)


def _holds(test: Match, value: object) -> bool:
    try:
        return test({test.key: value})
    except TypeError:  # values that cannot be compared: the test would fail, not hold
        return False


def _range_covers(before: Match, test: Match) -> bool:
    """Whether one bound includes another: `> 3` includes `> 5`."""
    low, high = ("gt", "gte"), ("lt", "lte")
    first, second = _number(before.value), _number(test.value)
    if first is None or second is None:
        return False
    if before.op in low and test.op in low:
        return first < second or (first == second and (before.op == "gte" or test.op == "gt"))
    if before.op in high and test.op in high:
        return first > second or (first == second and (before.op == "lte" or test.op == "lt"))
    return False


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
