"""Facts about types: stored forms, types that fit, and possible results of comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum, Flag
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict

import pytest
from pydantic import BaseModel, Field, RootModel

from adk_fluent.analysis.values.kinds import always_raises, can_hold, fits, kinds, named, values_of
from adk_fluent.ir import Match


class Model(BaseModel):
    """A model, stored as a dict."""


class Other(BaseModel):
    """Another one."""


class Narrow(Model):
    """A kind of `Model`."""


class Listed(RootModel[list[int]]):
    """A model that is stored as what it holds."""


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    NAMED = "high"


class Rights(Flag):
    READ = 1


@dataclass
class Point:
    """A dataclass, stored as a dict."""

    x: int


class Typed(TypedDict):
    """A typed dict."""

    x: int


Name = NewType("Name", str)


def named_kind(value: object) -> str:
    """The name of a case; a set has no order, and every worker must find the same names."""
    return str(sorted(map(str, value))) if isinstance(value, set) else str(value)  # pyright: ignore[reportUnknownArgumentType]  # its items are of any type


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (str, {"text"}),
        (Name, {"text"}),
        (Annotated[str, Field(min_length=1)], {"text"}),
        (date, {"text"}),
        (Path, {"text"}),
        (bool, {"bool"}),
        (int, {"int"}),
        (float | None, {"float", "none"}),
        (None, {"none"}),
        (list[str], {"list"}),
        (tuple[int, ...], {"list"}),
        (frozenset, {"list"}),
        (Mapping[str, int], {"dict"}),
        (Model, {"dict"}),
        (Point, {"dict"}),
        (Typed, {"dict"}),
        (Literal["a", 1, True], {"text", "int", "bool"}),
        (Color, {"text"}),
        (Level, {"text", "int"}),
        (str | list[int], {"text", "list"}),
        (Listed, None),
        (Rights, None),
        (Any, None),
        (object, None),
        (str | Any, None),
        ({"type": "object"}, None),
        (bytes, None),
    ],
    ids=named_kind,
)
def test_how_values_are_stored(kind: object, stored: set[str] | None) -> None:
    """Every type is stored in JSON in one of a few ways, or it is not known how."""
    assert kinds(kind) == stored


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Literal["a", "b"], ("a", "b")),
        (Literal["a"] | None, ("a", None)),
        (Literal[Color.RED], ("red",)),
        (Annotated[Color, "x"], ("red", "blue")),
        (bool, (True, False)),
        (Rights, None),
        (str, None),
        (Literal["a"] | str, None),
    ],
    ids=named_kind,
)
def test_types_of_a_few_values(kind: object, values: tuple[object, ...] | None) -> None:
    """The values of a type are known where they are few, as they are stored."""
    assert values_of(kind) == values


@pytest.mark.parametrize(
    ("given", "wanted", "fine"),
    [
        (str, Literal["a"], True),
        (str, Color, True),
        (str, date, True),
        (str, float, False),
        (int, float, True),
        (float, int, False),
        (bool, int, True),
        (bool, str, False),
        (list, list[str] | None, True),
        (set, list[str], True),
        (str, list[str], False),
        (str | None, float | None, False),
        (Model, dict, True),
        (dict, Model, True),
        (Narrow, Model, True),
        (Other, Model, False),
        (str, Any, True),
        (bytes, str, True),
    ],
    ids=named_kind,
)
def test_types_that_fit(given: object, wanted: object, fine: bool) -> None:
    """A type fits where some value of it does; what is not known fits."""
    assert fits(given, wanted) is fine


STATE_VALUES: dict[Any, list[Any]] = {
    str: ["a", "5", "-1.5", ""],
    int: [5, 0],
    float: [2.5],
    bool: [True, False],
    list: [[], [1], ["a"]],
    dict: [{}, {"a": 1}],
    Literal["a", "5"]: ["a", "5"],
    Color: ["red", "blue"],
}
TESTS = [
    Match("k", op, value, ignore_case)
    for op in ("eq", "ne", "gt", "gte", "lt", "lte", "contains", "matches", "truthy")
    for value in ("a", "5", "red", 5, 2.5, True, None, [1], {"a": 1})
    for ignore_case in (False, True)
    if op not in ("matches", "contains") or isinstance(value, str)
    if op != "truthy" or isinstance(value, bool)
    if op not in ("gt", "gte", "lt", "lte") or isinstance(value, str | int | float)
]


@pytest.mark.parametrize("kind", STATE_VALUES, ids=named)
def test_certain_results_of_comparisons(kind: Any) -> None:
    """A comparison that "never holds" or "always raises" does so for every possible value."""
    for test in TESTS:
        outcomes = [_outcome(test, value) for value in STATE_VALUES[kind]]
        assert can_hold(test, kind) or True not in outcomes, test
        assert not always_raises(test, kind) or set(outcomes) == {TypeError}, test


def _outcome(test: Match, value: object) -> object:
    try:
        return test({"k": value})
    except TypeError:
        return TypeError


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        (Match("k", "eq", "5"), int),
        (Match("k", "eq", True), str),
        (Match("k", "eq", 5), list),
        (Match("k", "eq", "a"), dict),
        (Match("k", "eq", "green"), Color),
        (Match("k", "eq", "true"), bool),
        (Match("k", "contains", "z"), Literal["a", "b"]),
        (Match("k", "matches", "^z"), Color),
    ],
    ids=named_kind,
)
def test_a_comparison_that_no_value_meets_is_known(test: Match, kind: object) -> None:
    """The slips that people make are not let pass."""
    assert not can_hold(test, kind)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        (Match("k", "gt", "5"), int),
        (Match("k", "lte", "0.5"), float),
        (Match("k", "gt", 5), list),
        (Match("k", "lt", "a"), dict),
        (Match("k", "gte", "5"), bool),
    ],
    ids=named_kind,
)
def test_a_comparison_that_raises_is_known(test: Match, kind: object) -> None:
    """A comparison that raises for every value is known, and so is one that stops every run."""
    assert always_raises(test, kind)
