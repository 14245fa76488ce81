from __future__ import annotations

from typing import Any

import pytest

from adk_fluent.ir import Access
from adk_fluent.ir.predicates import Comparison, Match


@pytest.mark.parametrize(
    ("op", "value", "actual", "holds"),
    [
        # text, as models write it
        ("eq", "yes", "yes", True),
        ("eq", "yes", " yes\n", True),
        ("eq", " yes ", "yes", True),
        ("eq", "yes", "Yes", False),
        ("eq", "yes", "yes.", False),
        ("eq", "", "  ", True),
        ("ne", "yes", "no", True),
        ("ne", "yes", " yes ", False),
        # numbers, and text that is one
        ("eq", 5, 5, True),
        ("eq", 5, 5.0, True),
        ("eq", 5, "5", True),
        ("eq", 5, " 5.0 ", True),
        ("eq", 5, "five", False),
        ("eq", "5", 5, False),
        ("ne", 5, "5", False),
        ("ne", 5, "five", True),
        ("gt", 5, 6, True),
        ("gt", 5, 5, False),
        ("gt", 5, "6.5", True),
        ("gt", 9, "10", True),
        ("gte", 5, "5", True),
        ("gte", 5, 4.9, False),
        ("lt", 5, "4", True),
        ("lt", 5, 5, False),
        ("lte", 5, 5, True),
        ("lte", -1, "-1.5", True),
        ("gt", "b", "c", True),
        ("gt", "2024-05-01", "2024-06-01", True),
        ("lt", "b", "a ", True),
        # booleans are what they are, and text is never one
        ("eq", True, True, True),
        ("eq", True, False, False),
        ("eq", False, False, True),
        ("eq", True, "True", False),
        ("eq", True, "1", False),
        ("ne", True, False, True),
        # nothing
        ("eq", None, None, True),
        ("eq", None, "x", False),
        ("eq", None, 0, False),
        ("ne", None, None, False),
        ("ne", None, "x", True),
        ("eq", "x", None, False),
        ("eq", False, None, False),
        ("ne", "x", None, True),
        ("gt", 0, None, False),
        ("gte", 0, None, False),
        ("lt", 0, None, False),
        ("lte", 0, None, False),
        ("contains", "x", None, False),
        ("matches", ".*", None, False),
        ("truthy", True, None, False),
        # other values
        ("eq", [1, 2], [1, 2], True),
        ("eq", {"a": 1}, {"a": 2}, False),
        # contains
        ("contains", "late", "too late!", True),
        ("contains", "Late", "too late!", False),
        ("contains", " ", "word", False),
        ("contains", " ", "two words", True),
        ("contains", 5, "room 5", True),
        ("contains", "5", 152, True),
        ("contains", "vip", ["new", "vip"], True),
        ("contains", "vip", [" vip "], True),
        ("contains", "vip", ["vips"], False),
        ("contains", 2, [1, 2], True),
        ("contains", 2, (1, 2), True),
        ("contains", [1], [[1], 2], True),
        ("contains", "key", {"key": 0}, True),
        ("contains", "value", {"key": "value"}, False),
        ("contains", "x", [], False),
        # regular expressions
        ("matches", r"^\d+$", " 42\n", True),
        ("matches", r"^\d+$", "42a", False),
        ("matches", r"\d", "room 5", True),
        ("matches", r"^4", 42, True),
        # truth
        ("truthy", True, "x", True),
        ("truthy", True, 0, False),
        ("truthy", True, [], False),
    ],
)
def test_comparisons(op: Comparison, value: Any, actual: Any, holds: bool) -> None:
    """Each comparison, with text, numbers, booleans, containers and nothing at all."""
    assert Match("k", op, value)({"k": actual}) is holds
    if actual is None:
        assert Match("k", op, value)({}) is holds


@pytest.mark.parametrize(
    ("op", "value", "actual", "exact"),
    [
        ("eq", "Yes", "yEs ", False),
        ("eq", "STRASSE", "straße", False),
        ("contains", "LATE", "too late", False),
        ("contains", "VIP", ["Vip"], False),
        ("contains", "vip", {"VIP": 1}, False),
        ("matches", "^yes", "YES sir", False),
        ("ne", "Yes", "yes", True),
    ],
)
def test_ignore_case(op: Comparison, value: Any, actual: Any, exact: bool) -> None:
    """`ignore_case` makes text equal that differs in case only, inside lists and dicts too."""
    assert Match("k", op, value)({"k": actual}) is exact
    assert Match("k", op, value, ignore_case=True)({"k": actual}) is not exact


@pytest.mark.parametrize("actual", ["high", [1], {"a": 1}])
def test_what_cannot_be_ordered_raises(actual: object) -> None:
    """Comparing a number with another type by order raises an error and does not count as false."""
    with pytest.raises(TypeError):
        Match("k", "gt", 5)({"k": actual})


def test_not_a_number_is_never_greater_or_equal() -> None:
    """Text that floats read as NaN compares as NaN."""
    assert Match("k", "gt", 0)({"k": "nan"}) is False
    assert Match("k", "eq", 0)({"k": "nan"}) is False


def test_a_match_reads_its_key_alone() -> None:
    """A comparison declares exactly the key it compares, with its scope."""
    assert Match("user:tier", "eq", 1).access == Access(reads=frozenset({"user:tier"}))


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (Match("k", "eq", "x"), "k == 'x'"),
        (Match("k", "ne", 1), "k != 1"),
        (Match("k", "gte", 2), "k >= 2"),
        (Match("k", "lt", 2), "k < 2"),
        (Match("k", "contains", "x"), "k contains 'x'"),
    ],
)
def test_a_match_prints_as_its_comparison(match: Match, text: str) -> None:
    """Error messages and pictures show a comparison as a person would write it."""
    assert str(match) == text


def test_a_match_is_a_value() -> None:
    """Equal comparisons are equal and hash alike; the case flag counts."""
    assert Match("k", "eq", "x") == Match("k", "eq", "x")
    assert hash(Match("k", "eq", "x")) == hash(Match("k", "eq", "x"))
    assert Match("k", "eq", "x") != Match("k", "eq", "x", ignore_case=True)
