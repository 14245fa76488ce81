"""Structured answers as values: text to a type, a type to state, and the words for what is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import STRICT, Enum, Flag, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, computed_field

from adk_fluent import Agent, StateSchema
from adk_fluent.errors import AnswerError, ExpressionError, StateKeyError, StateTypeError
from adk_fluent.state.answers import AnswerType, answer_type, returned_type, unfenced, writes_of
from adk_fluent.state.fidelity import type_text


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Season(Enum):
    SPRING = date(2025, 3, 1)
    SHARE = Decimal("0.25")


class Nothing(Enum):
    NOTHING = None
    SOME = "some"


class Rights(Flag, boundary=STRICT):
    READ = 1
    WRITE = 2


class Line(BaseModel):
    sku: str
    total: Decimal
    note: str | None = "none"


class Order(BaseModel):
    lines: list[Line]
    by_name: dict[str, int] = {}
    kind: int | str = 0


class Note(BaseModel):
    text: str


@dataclass
class Span:
    start: date


class Desk(StateSchema):
    price: Annotated[Decimal, Field(ge=0)]
    level: Level
    season: Season
    nothing: Nothing
    rights: Rights
    day: date
    moment: datetime
    length: timedelta
    id: UUID
    file: Path
    order: Order
    line: Line | None
    count: int
    text: str
    yes: bool
    word: Literal["a", 1]


# --- fences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "inside"),
    [
        ('```json\n{"x": 1}\n```', '{"x": 1}'),
        ('```\n{"x": 1}\n```', '{"x": 1}'),
        ('  ```JSON\r\n{"x": 1}\r\n```\n\n', '{"x": 1}'),
        ('```{"x": 1}```', '{"x": 1}'),
        ('```json{"x": 1}```', '{"x": 1}'),
        ("```json [1] ```", "[1]"),
        ("```\ntrue\n```", "true"),
        ("```true```", "true"),
        ("```12```", "12"),
        ("``````", ""),
        ("```json\n```", "json"),
        ('{"x": "```"}', '{"x": "```"}'),
        ('"```json"', '"```json"'),
        ("```json\n[1]", "```json\n[1]"),
        ("```", "```"),
        ("", ""),
        ("Here: ```[1]```", "Here: ```[1]```"),
    ],
)
def test_only_a_fence_around_the_whole_is_taken_off(said: str, inside: str) -> None:
    """With or without a language, on one line or several; any other text is left alone."""
    assert unfenced(said) == inside


def test_a_fence_that_never_ends_is_read_in_no_time() -> None:
    """Long answers of blanks cost no more than their length."""
    assert unfenced("```json" + " " * 200_000) == "```json" + " " * 200_000
    assert unfenced("```" + " \n" * 100_000 + "```") == ""


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text", "value", "data"),
    [
        (Note, '{"text": "x"}', Note(text="x"), {"text": "x"}),
        (Level, "2", Level.HIGH, 2),
        (Season, '"2025-03-01"', Season.SPRING, "2025-03-01"),
        (list[Season], '["0.25"]', [Season.SHARE], ["0.25"]),
        (dict[str, date], '{"a": "2025-03-01"}', {"a": date(2025, 3, 1)}, {"a": "2025-03-01"}),
        (Note | Level, "1", Level.LOW, 1),
        (Note | None, "null", None, None),
        (Span, '{"start": "2025-03-01"}', Span(date(2025, 3, 1)), {"start": "2025-03-01"}),
        (str, '"x"', "x", "x"),
        ({"type": "object"}, '{"any": [1]}', {"any": [1]}, {"any": [1]}),
        (types.Schema(type=types.Type.OBJECT), '{"any": 1}', {"any": 1}, {"any": 1}),
    ],
    ids=str,
)
def test_an_answer_is_read_as_its_type_and_stored_as_json(
    schema: Any, text: str, value: Any, data: Any
) -> None:
    """Answers of every kind of type are read as that type, and state holds them as JSON."""
    kind = answer_type(schema)
    assert kind.parse(text, "a") == value
    assert kind.data(text, "a") == data
    assert json.loads(json.dumps(kind.data(text, "a"))) == data
    with pytest.raises(AnswerError, match=r"^'a' answered 'no', which is not a .*: "):
        kind.parse("no", "a")


def test_a_type_is_made_once() -> None:
    """Building pydantic's validator takes a while, so equal types share it; a JSON schema cannot."""
    assert answer_type(Note) is answer_type(Note)
    assert answer_type(list[Note]) is answer_type(list[Note])
    assert isinstance(answer_type({"type": "object"}), AnswerType)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Note, "Note"),
        (Note | None, "Note | None"),
        (list[Note | Level], "list[Note | Level]"),
        (dict[str, tuple[int, ...]], "dict[str, tuple[int, ...]]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[Note, "x"], "Note"),
        (Any, "Any"),
        (None, "None"),
    ],
)
def test_types_are_shown_as_they_are_written(kind: object, words: str) -> None:
    """Without the modules they come from."""
    assert type_text(kind) == words


@pytest.mark.parametrize(
    ("schema", "text", "fault"),
    [
        (Order, '{"lines": [{"sku": "a", "total": 1}, {"sku": "b"}]}', "lines[1].total is missing"),
        (Order, "{}", "lines is missing"),
        (Order, "[]", "it should be an object"),
        (
            Order,
            '{"lines": [{}], "by_name": {"k": "v"}}',
            "lines[0].sku is missing (and 2 more)",
        ),
        (
            Order,
            '{"lines": [], "by_name": {"a b": []}}',
            "by_name['a b'] is [] but should be a valid integer",
        ),
        (
            Order,
            '{"lines": [], "kind": []}',
            "as int, kind is [] but should be a valid integer; "
            "as str, kind is [] but should be a valid string",
        ),
        (
            Order | Note,
            '{"lines": [{"sku": 1}]}',
            "as Order, lines[0].sku is 1 but should be a valid string; as Note, text is missing",
        ),
        (list[Order], '[{"lines": []}, {}]', "[1].lines is missing"),
        (
            dict[int, str],
            '{"x": "y"}',
            "x (the key) is 'x' but should be a valid integer, unable to parse string as an integer",
        ),
        (Literal["a", "b"], '"c"', "it should be 'a' or 'b'"),
        (Note, "", "it is not JSON: EOF while parsing a value at line 1 column 0"),
        ({"type": "object"}, "x", "it is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_the_error_names_the_path_of_the_fault(schema: Any, text: str, fault: str) -> None:
    """One line: the first fault with the path to it; of a union, the first of each member."""
    with pytest.raises(AnswerError) as error:
        answer_type(schema).parse(text, "clerk", "k")
    told = str(error.value)
    assert told.endswith(f": {fault}.")
    assert told.startswith(f"'clerk' answered {text!r:.80} for state key 'k', which is not a ")
    assert "\n" not in told


def test_a_fault_of_a_model_that_takes_no_more_fields() -> None:
    """A field that is too much is named."""

    class Narrow(BaseModel):
        model_config = ConfigDict(extra="forbid")
        text: str

    with pytest.raises(AnswerError, match="which is not a Narrow: txt is not one of its fields"):
        answer_type(Narrow).parse('{"text": "x", "txt": 1}', "a")


# --- from an answer to state ----------------------------------------------------------------------


def test_which_answers_are_structured() -> None:
    """Text alone has no type; fields make one of their own, unless one field is the whole answer."""
    agent = Agent("a")
    assert returned_type(agent.writes("k").node) is None
    assert returned_type(agent.writes(Desk.text).node) is None
    made = returned_type(agent.writes(Desk.count).node)
    assert made is not None
    assert set(made.schema.model_fields) == {"count"}
    assert returned_type(agent.returns(Order).writes(Desk.order).node) is answer_type(Order)
    kinds: list[Any] = [Line, Line | None, Annotated[Line, "x"]]
    for kind in kinds:  # the field is `Line | None`
        state = writes_of(agent.returns(kind).writes(Desk.line).node, '{"sku": "a", "total": 1}')
        assert state == {"line": {"sku": "a", "total": "1", "note": "none"}}
    assert writes_of(agent.returns(Line | None).writes(Desk.line).node, "null") == {"line": None}


def test_fields_come_from_what_was_returned() -> None:
    """Defaults, aliases and validators of the type count, since the answer is what it makes of the text."""

    class Made(BaseModel):
        count: int = Field(3, alias="how-many")
        text: str = "none"

    agent = Agent("a").returns(Made).writes(Desk.count, Desk.text)
    assert writes_of(agent.node, '{"how-many": 4}') == {"count": 4, "text": "none"}
    with pytest.raises(ExpressionError, match="'a' writes field 'day', which its answer, Made, does not"):
        Agent("a").returns(Made | None).writes(Desk.day, Desk.count)
    maybe = Agent("a").returns(Made | None).writes(Desk.count, Desk.text).node
    assert writes_of(maybe, "{}") == {"count": 3, "text": "none"}
    assert writes_of(maybe, "null") == {"count": None, "text": None}


# --- fields read back what was written ------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "stored", "value"),
    [
        ("price", 3, Decimal(3)),
        ("price", 3.1, Decimal("3.1")),
        ("price", "3.10", Decimal("3.10")),
        ("level", 2, Level.HIGH),
        ("season", "2025-03-01", Season.SPRING),
        ("season", "0.25", Season.SHARE),
        ("rights", 3, Rights.READ | Rights.WRITE),
        ("day", "2025-03-01", date(2025, 3, 1)),
        ("moment", "2025-03-01T10:00:00", datetime(2025, 3, 1, 10)),
        ("length", "P1DT2H", timedelta(days=1, hours=2)),
        ("id", "00000000-0000-0000-0000-000000000007", UUID(int=7)),
        ("file", "a/b.txt", Path("a/b.txt")),
        ("line", {"sku": "a", "total": 1.5}, Line(sku="a", total=Decimal("1.5"))),
        ("line", {"sku": "a", "total": "1.5", "note": None}, Line(sku="a", total=Decimal("1.5"), note=None)),
    ],
)
def test_a_field_is_read_from_numbers_and_from_text(field: str, stored: object, value: object) -> None:
    """Whichever of them a model, a tool or a session store gave."""
    assert getattr(Desk.bind({field: stored}), field) == value


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        ("price", "much"),
        ("price", -1),
        ("price", True),
        ("level", 3),
        ("level", "HIGH"),
        ("season", "2025-03-02"),
        ("rights", 4),
        ("day", 3),
        ("day", "2025-03-01T10:00:00"),
        ("moment", 3),
        ("length", 3),
        ("id", 7),
        ("file", 7),
        ("count", 1.0),
        ("count", "1"),
        ("count", True),
        ("text", 1),
        ("yes", 1),
        ("line", {"sku": "a"}),
        ("line", {"sku": "a", "total": 1, "note": 3}),
    ],
)
def test_a_field_is_strict_all_the_same(field: str, stored: object) -> None:
    """A value of another type is refused at reading and at writing."""
    with pytest.raises(StateTypeError, match=rf"Desk\.{field} "):
        getattr(Desk.bind({field: stored}), field)
    with pytest.raises(StateTypeError, match=rf"Desk\.{field} "):
        setattr(Desk.bind({}), field, stored)


def test_a_member_whose_value_is_none_cannot_be_stored() -> None:
    """`None` in state means absent, so it would be lost; the error says so."""
    state: dict[str, Any] = {}
    with pytest.raises(StateTypeError, match=r"Desk\.nothing .* its value is None, which means absent"):
        Desk.bind(state).nothing = Nothing.NOTHING
    Desk.bind(state).nothing = Nothing.SOME
    assert state == {"nothing": "some"}


def test_a_field_inside_that_is_none_may_be_absent() -> None:
    """ADK leaves such fields out, so a missing one that may be `None` is `None`; another one is missing."""

    class Needed(BaseModel):
        a: int | None
        b: int

    class Holder(StateSchema):
        one: Needed
        several: list[Needed]

    assert Holder.bind({"one": {"b": 1}}).one == Needed(a=None, b=1)
    assert Holder.bind({"several": [{"b": 1}, {"a": 2, "b": 1}]}).several[0] == Needed(a=None, b=1)
    with pytest.raises(StateTypeError, match=r"one\b.*: a is missing \(and 1 more\)"):
        _ = Holder.bind({"one": {}}).one
    with pytest.raises(StateTypeError, match=r"several\b.*: \[0\]\.a is missing"):
        _ = Holder.bind({"several": [{}]}).several
    with pytest.raises(StateKeyError):
        _ = Holder.bind({}).one


def test_computed_fields_may_be_stored() -> None:
    """A computed field is stored, and read back even by a model that takes no other fields; a slip is not."""

    class Sum(BaseModel):
        model_config = ConfigDict(extra="forbid")
        numbers: list[int] = Field(alias="all-numbers")

        @computed_field
        @property
        def total(self) -> int:
            return sum(self.numbers)

    class Holder(StateSchema):
        one: Sum

    state: dict[str, Any] = {}
    Holder.bind(state).one = Sum(**{"all-numbers": [1, 2]})
    assert state == {"one": {"numbers": [1, 2], "total": 3}}
    assert Holder.bind(state).one.numbers == [1, 2]
    assert Holder.bind({"one": {"all-numbers": [1]}}).one.numbers == [1]
    for wrong in ({"numbers": [1], "total": 9}, {"numbers": [1], "totl": 1}):
        with pytest.raises(StateTypeError, match="is not one of its fields"):
            _ = Holder.bind({"one": wrong}).one
