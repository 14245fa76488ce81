"""Random values of every type that state holds, written, stored and read back."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field

from adk_fluent import Agent, Route, StateSchema, tap
from adk_fluent.testing import mock_backend
from tests.backends.support import SERVICES, close, session_service
from tests.sampling import examples


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mood(StrEnum):
    CALM = "calm"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Mixed(Enum):
    WORD = "x"
    NUMBER = 1
    PART = 1.5
    YES = True


class Season(Enum):
    """An enumeration whose values JSON cannot hold."""

    SPRING = date(2025, 3, 1)
    RANGE = (6, 8)
    SHARE = Decimal("0.25")


@dataclass
class Span:
    start: date
    length: timedelta


class Point(NamedTuple):
    x: int
    at: datetime


class Line(BaseModel):
    model_config = ConfigDict(frozen=True)
    price: Decimal
    note: str | None
    hint: str = ""


class Bill(BaseModel):
    model_config = ConfigDict(extra="forbid")
    due: date
    level: Level
    mood: Mood
    season: Mixed
    id: UUID
    file: Path
    number: int = Field(alias="bill-number")
    lines: list[Line]
    first: Line | None
    by_day: dict[date, Decimal]

    @computed_field
    @property
    def total(self) -> Decimal:
        return sum((line.price for line in self.lines), Decimal(0))


PATHS = st.text("ab./-_ ", min_size=1, max_size=8)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
"""What every store of sessions takes."""
SHORT = st.text(LETTERS, max_size=5)
LINES = st.builds(Line, price=DECIMALS, note=st.none() | SHORT, hint=SHORT)
BILLS = st.fixed_dictionaries(
    {
        "bill-number": st.integers(-(2**53), 2**53),
        "due": st.dates(),
        "level": st.sampled_from(Level),
        "mood": st.sampled_from(Mood),
        "season": st.sampled_from(Mixed),
        "id": st.uuids(),
        "file": PATHS.map(Path),
        "lines": st.lists(LINES, max_size=2),
        "first": st.none() | LINES,
        "by_day": st.dictionaries(st.dates(), DECIMALS, max_size=2),
    }
).map(Bill.model_validate)
VALUES: Mapping[Any, st.SearchStrategy[Any]] = {
    str: st.text(LETTERS),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Decimal: DECIMALS,
    date: st.dates(),
    datetime: st.datetimes(timezones=st.none() | OFFSETS),
    time: st.times(),
    timedelta: st.timedeltas(),
    UUID: st.uuids(),
    Path: PATHS.map(Path),
    PurePosixPath: PATHS.map(PurePosixPath),
    Level: st.sampled_from(Level),
    Mood: st.sampled_from(Mood),
    Rights: st.sampled_from([Rights.READ, Rights.WRITE, Rights.READ | Rights.WRITE]),
    Mixed: st.sampled_from(Mixed),
    Season: st.sampled_from(Season),
    Span: st.builds(Span, start=st.dates(), length=st.timedeltas()),
    Point: st.builds(Point, x=st.integers(), at=st.datetimes()),
    Bill: BILLS,
}
TYPED = st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))
NESTED = TYPED.flatmap(
    lambda typed: st.sampled_from(
        [
            (typed[0], typed[1]),
            (typed[0] | None, typed[1]),
            (list[typed[0]], [typed[1]] * 2),
            (dict[str, typed[0]], {"k": typed[1]}),
            (dict[str, list[typed[0] | None]], {"k": [typed[1], None]}),
            (tuple[int, typed[0]], (1, typed[1])),
        ]
    )
)


def schema_of(kind: Any) -> Any:
    """A schema with one field of a type."""
    return type("One", (StateSchema,), {"__annotations__": {"field": kind}, "__module__": __name__})


def as_stored(state: Mapping[str, Any]) -> dict[str, Any]:
    """State as every session store gives it back."""
    return json.loads(json.dumps(state))


@settings(max_examples=examples(300))
@given(NESTED)
def test_a_field_reads_back_what_was_written(typed: tuple[Any, Any]) -> None:
    """Every type gives the value that it was given, both before and after it was stored."""
    kind, value = typed
    schema, state = schema_of(kind), dict[str, Any]()
    schema.bind(state).field = value
    for read in (schema.bind(state).field, schema.bind(as_stored(state)).field):
        assert read == value
        assert type(read) is type(value)
    assert json.dumps(state) == json.dumps(as_stored(state))
    again = dict[str, Any]()
    schema.bind(again).field = schema.bind(as_stored(state)).field
    assert again == state


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_read_from_numbers_and_from_text(number: float) -> None:
    """A model may say `1.10` or `"1.10"`; both are the same decimal, exactly."""
    schema = schema_of(Decimal)
    expected = Decimal(repr(number))
    assert schema.bind({"field": number}).field == expected
    assert schema.bind({"field": repr(number)}).field == expected


class Desk(StateSchema):
    bill: Bill
    due: date
    level: Level
    lines: list[Line]


@pytest.mark.parametrize("kind", SERVICES)
@settings(max_examples=8)
@given(bill=BILLS)
def test_an_answer_is_the_same_before_and_after_it_is_stored(kind: str, bill: Bill) -> None:
    """An agent's answer has the same value, and takes the same branch, in its run and in the next one."""
    asyncio.run(_answered(kind, bill))


async def _answered(kind: str, bill: Bill) -> None:
    whole = (Agent("a") @ Bill).writes(Desk.bill)
    parts = (Agent("b") @ Bill).writes(Desk.due, Desk.level, Desk.lines)
    seen: list[str] = []
    look = tap(lambda state: seen.append(json.dumps(dict(state), sort_keys=True)))
    route = Route().when(lambda s: Desk.bind(s).bill.number > 0, Agent("pos")).otherwise(Agent("neg"))
    with tempfile.TemporaryDirectory() as folder:
        service = session_service(kind, Path(folder))
        says = bill.model_dump_json(by_alias=True, exclude={"total"})
        backend = mock_backend({"a": says, "b": says, "pos": "pos", "neg": "neg"}, session_service=service)
        first = await (whole >> parts >> look >> route).run("hi", backend=backend, session_id="s")
        second = await (look >> route).run("hi", backend=backend, session_id="s")
        await close(service)
    assert seen[0] == seen[1]
    assert first.text == second.text == ("pos" if bill.number > 0 else "neg")
    for run in (first, second):
        typed = Desk.bind(run.state)
        assert (typed.bill, typed.due, typed.level, typed.lines) == (bill, bill.due, bill.level, bill.lines)
