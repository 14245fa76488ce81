"""`StateSchema`: fields, scopes, binding, checking and composition, without ADK."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from adk_fluent import Agent, Route, S, StateSchema
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    CodecError,
    ReadOnlyStateError,
    SchemaError,
    UnknownFieldError,
)
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.ir.state_keys import state_key
from adk_fluent.state import (
    AppScoped,
    CapturedBy,
    SchemaCompositionError,
    SessionScoped,
    StateFieldRef,
    StateKeyError,
    StateTypeError,
    Temp,
    UserScoped,
    declares,
)
from adk_fluent.state.delta import ReadOnlyState
from tests.limits import LIMIT


class Mood(Enum):
    CALM = "calm"
    UPSET = "upset"


class Customer(BaseModel):
    name: str
    since: date


@dataclass
class Point:
    x: int
    y: int


class Line(TypedDict):
    text: str


TicketId = NewType("TicketId", str)


class BillingState(StateSchema):
    intent: str
    confidence: Annotated[float, Field(ge=0, le=1)]
    ticket_id: str | None = None
    attempts: int = 0
    tags: list[str] = []  # noqa: RUF012  # what a user writes; each reader gets its own copy
    user_tier: Annotated[str, UserScoped]
    app_version: Annotated[str, AppScoped]
    scratch: Annotated[dict[str, Any], Temp]
    plain: Annotated[str, SessionScoped]
    message: Annotated[str, CapturedBy(S.capture)]


class Rich(StateSchema):
    mood: Mood
    customer: Customer
    point: Point
    line: Line
    pair: tuple[int, str]
    labels: set[str]
    when: date
    ticket: TicketId
    choice: Literal["a", "b"]
    maybe: Optional[int]  # noqa: UP045  # both spellings are supported


def test_a_class_gives_references_with_the_prefixed_key() -> None:
    """On the class a field is a reference: name, type, scope, schema, and the key with its scope's prefix."""
    ref: object = BillingState.user_tier
    assert isinstance(ref, StateFieldRef)
    assert (ref.name, ref.type, ref.scope, ref.schema) == ("user_tier", str, "user", BillingState)
    keys = {name: field.key for name, field in BillingState.fields().items()}
    assert keys == {
        "intent": "intent",
        "confidence": "confidence",
        "ticket_id": "ticket_id",
        "attempts": "attempts",
        "tags": "tags",
        "user_tier": "user:user_tier",
        "app_version": "app:app_version",
        "scratch": "temp:scratch",
        "plain": "plain",
        "message": "message",
    }
    assert BillingState.fields()["message"].captured_by is S.capture


def test_a_bound_schema_reads_and_writes_prefixed_keys() -> None:
    """Reading a field reads its key from the state, and writing it writes that key."""
    stored: dict[str, Any] = {"intent": "refund", "user:user_tier": "gold"}
    state = BillingState.bind(stored)
    state.app_version = "2"
    state.ticket_id = "T-1"
    assert (state.intent, state.user_tier, state.app_version, state.ticket_id) == (
        "refund",
        "gold",
        "2",
        "T-1",
    )
    assert stored == {
        "intent": "refund",
        "user:user_tier": "gold",
        "app:app_version": "2",
        "ticket_id": "T-1",
    }


def test_an_absent_field_gives_its_default_or_none_where_it_may_be_none() -> None:
    """A missing key and `None` are the same: the default, `None` for an optional field, else an error."""
    for stored in ({}, {"ticket_id": None, "attempts": None}):
        state = BillingState.bind(stored)
        assert (state.ticket_id, state.attempts, state.tags) == (None, 0, [])
    assert Rich.bind({}).maybe is None


class Order(BaseModel):
    lines: list[Any]


@dataclass
class Crate:
    things: list[Any]


class Nested(StateSchema):
    tags: list[str] = []  # noqa: RUF012  # what a user writes, here and below; each reader gets its own copy
    deep: dict[str, Any] = {"a": {"b": ["x"]}}  # noqa: RUF012
    rows: list[Any] = [["x"]]  # noqa: RUF012
    plain: list = [["x"]]  # noqa: RUF012  # pyright: ignore[reportMissingTypeArgument, reportUnknownVariableType]  # it may be
    order: Order = Order(lines=["x"])
    box: Crate = Crate(things=["x"])


class Child(Nested):
    rows: list[Any]


INSIDE: dict[str, Callable[[Any], list[Any]]] = {
    "tags": lambda state: state.tags,
    "deep": lambda state: state.deep["a"]["b"],
    "rows": lambda state: state.rows[0],
    "plain": lambda state: state.plain[0],
    "order": lambda state: state.order.lines,
    "box": lambda state: state.box.things,
}


@pytest.mark.parametrize("read", INSIDE.values(), ids=INSIDE)
def test_a_mutable_default_is_not_shared(read: Callable[[Any], list[Any]]) -> None:
    """A change that one reader makes deep inside a default is not visible to the next reader."""
    state = Nested.bind({})
    before = list(read(state))
    read(state).append("changed")
    for other in (state, Nested.bind({}), Child.bind({}), Nested.bind(ReadOnlyState({}))):
        assert read(other) == before


@pytest.mark.parametrize("read", INSIDE.values(), ids=INSIDE)
def test_values_are_read_as_copies(read: Callable[[Any], list[Any]]) -> None:
    """Changing something inside a value that was read, however deep, does not change the state."""
    stored: dict[str, Any] = {}
    state = Nested.bind(stored)
    for name in Nested.fields():
        setattr(state, name, getattr(state, name))
    before, kept = list(read(state)), copy.deepcopy(stored)
    read(state).append("changed")
    assert read(state) == before
    assert stored == kept


def test_changing_what_was_read_does_not_change_the_state() -> None:
    """Lists and dicts are handed out as copies; only an assignment writes."""
    stored: dict[str, Any] = {"tags": ["a"]}
    state = BillingState.bind(stored)
    state.tags.append("b")
    assert stored == {"tags": ["a"]}
    state.tags = [*state.tags, "b"]
    assert stored == {"tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({}, ["BillingState.intent", "session key 'intent'", "not set"]),
        ({"intnt": "x"}, ["Did you mean 'intnt'?"]),
        ({"user:intent": "x"}, ["'user:intent'", "another scope"]),
    ],
)
def test_a_missing_key_names_schema_field_scope_and_what_is_near(
    stored: dict[str, Any], says: list[str]
) -> None:
    """Reading a key that is not set says which one, in which scope, and where a similar value is."""
    with pytest.raises(StateKeyError) as error:
        _ = BillingState.bind(stored).intent
    assert all(part in str(error.value) for part in says)
    assert isinstance(error.value, KeyError)
    assert isinstance(error.value, ADKFluentError)


def test_a_value_of_the_wrong_type_is_an_error_when_read() -> None:
    """Text where a number is declared is refused, not converted, and the message names all of it."""
    with pytest.raises(
        StateTypeError, match=r"BillingState.confidence \(session key 'confidence'\) takes float"
    ):
        _ = BillingState.bind({"confidence": "0.9"}).confidence


def test_a_value_of_the_wrong_type_is_an_error_when_written() -> None:
    """A wrong value never reaches the state; the error is also Python's `TypeError`."""
    stored: dict[str, Any] = {}
    state = BillingState.bind(stored)
    with pytest.raises(TypeError, match=r"takes str \| None, not 42"):
        setattr(state, "ticket_id", 42)  # noqa: B010  # a type checker refuses the plain form
    with pytest.raises(StateTypeError, match=r"user key 'user:user_tier'"):
        setattr(state, "user_tier", None)  # noqa: B010
    assert stored == {}


class Numbers(StateSchema):
    one: float
    maybe: float | None
    some: list[float]
    named: dict[str, float]
    rated: Annotated[float, Field(ge=0)]
    whole: int


@pytest.mark.parametrize(
    ("field", "given", "floats"),
    [
        ("one", 2, 2.0),
        ("one", -0.5, -0.5),
        ("maybe", 0, 0.0),
        ("some", [1, 2.5], [1.0, 2.5]),
        ("named", {"a": 3}, {"a": 3.0}),
        ("rated", 1, 1.0),
        ("whole", 4, 4),
    ],
)
def test_whole_numbers_are_floats_where_the_field_is(field: str, given: Any, floats: Any) -> None:
    """A whole number, as models and JSON write floats, is read and stored as one."""
    read = getattr(Numbers.bind({field: given}), field)
    assert repr(read) == repr(floats)
    stored: dict[str, Any] = {}
    setattr(Numbers.bind(stored), field, given)
    assert repr(stored) == repr({field: floats})


@pytest.mark.parametrize(
    ("field", "given"), [("one", True), ("one", "1"), ("whole", 1.0), ("some", [True]), ("rated", -1)]
)
def test_other_numbers_are_not_converted(field: str, given: Any) -> None:
    """A truth value or text is no float, and a float no whole number."""
    with pytest.raises(StateTypeError, match=f"Numbers.{field}"):
        getattr(Numbers.bind({field: given}), field)
    with pytest.raises(StateTypeError, match=f"Numbers.{field}"):
        setattr(Numbers.bind({}), field, given)


def test_constraints_are_pydantics() -> None:
    """Pydantic constraints in `Annotated` are checked at reading and at writing."""
    state = BillingState.bind({"confidence": 1.5})
    with pytest.raises(StateTypeError, match="less than or equal to 1"):
        _ = state.confidence
    with pytest.raises(StateTypeError, match="greater than or equal to 0"):
        state.confidence = -0.1
    state.confidence = 1
    assert state.confidence == 1.0


def test_a_misspelt_field_names_the_nearest() -> None:
    """Reading or writing a field that the schema lacks says so, and `hasattr` works."""
    state = BillingState.bind({})
    with pytest.raises(UnknownFieldError, match=r"no field 'intnt'\. Did you mean 'intent'"):
        getattr(state, "intnt")  # noqa: B009
    with pytest.raises(StateKeyError, match="Did you mean 'ticket_id'"):
        setattr(state, "tiket_id", "T")  # noqa: B010
    assert not hasattr(state, "intnt")


def test_rich_types_are_stored_as_json_and_read_back_as_themselves() -> None:
    """Models, dataclasses, enums, dates, tuples and sets survive a session store that knows only JSON."""
    stored: dict[str, Any] = {}
    state = Rich.bind(stored)
    state.mood = Mood.UPSET
    state.customer = Customer(name="Ann", since=date(2020, 1, 2))
    state.point = Point(1, 2)
    state.line = {"text": "hi"}
    state.pair = (1, "x")
    state.labels = {"q"}
    state.when = date(2021, 3, 4)
    state.ticket = TicketId("T-1")
    state.choice = "b"
    again = Rich.bind(json.loads(json.dumps(stored)))
    assert again.mood is Mood.UPSET
    assert again.customer == Customer(name="Ann", since=date(2020, 1, 2))
    assert (again.point, again.line, again.pair) == (Point(1, 2), {"text": "hi"}, (1, "x"))
    assert (again.labels, again.when, again.ticket, again.choice) == ({"q"}, date(2021, 3, 4), "T-1", "b")
    with pytest.raises(StateTypeError, match="customer"):
        _ = Rich.bind({"customer": {"name": "Ann"}}).customer


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_reading_agrees_with_the_declared_type(value: object) -> None:
    """Whatever is stored, an `int` field gives an `int` that is no bool, or raises; it never converts."""
    stored: dict[str, Any] = {"attempts": value}
    if value is None:
        assert BillingState.bind(stored).attempts == 0
    elif type(value) is int:
        assert BillingState.bind(stored).attempts == value
    else:
        with pytest.raises(StateTypeError):
            _ = BillingState.bind(stored).attempts


@pytest.mark.parametrize("view", [MappingProxyType, ReadOnlyState])
def test_a_read_only_view_is_read_but_not_written(
    view: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    """Predicates and instructions can read typed; a write there is an error that names the view."""
    state = BillingState.bind(view({"intent": "refund"}))
    name = type(view({})).__name__
    assert state.intent == "refund"
    with pytest.raises(ReadOnlyStateError, match=rf"'ticket_id'.* {name} is read-only"):
        state.ticket_id = "T"


def test_deleting_a_field_makes_it_absent() -> None:
    """ADK's state has no deletion, so a deleted field is written as `None`, which is absent."""
    stored: dict[str, Any] = {"attempts": 3}
    state = BillingState.bind(stored)
    del state.attempts
    assert stored == {"attempts": None}
    assert state.attempts == 0


def test_a_schema_is_a_view_not_a_value() -> None:
    """Making one directly, or binding it to something without state, says what to do."""
    with pytest.raises(SchemaError, match=r"use BillingState.bind\(ctx\)"):
        BillingState()
    with pytest.raises(ArgumentError, match="takes a context with state, or a dict, not int"):
        BillingState.bind(3)  # pyright: ignore[reportArgumentType]  # what is refused
    assert repr(BillingState.bind({"intent": "x", "plain": None})) == "BillingState(intent='x')"


# --- classes that cannot be -----------------------------------------------------------------------

T = TypeVar("T")


class Connection:
    """Something that no session can store."""


class Box(Generic[T]):
    """A generic class that pydantic does not know."""


@pytest.mark.parametrize(
    "kind",
    [
        Connection,
        Callable[[], int],
        list[Connection],
        dict[str, Connection | None],
        type,
        bytes,
        Box[int],
        T,
        3,
    ],
)
def test_a_type_that_state_cannot_hold_is_refused_where_it_is_written(kind: object) -> None:
    """The class statement fails in one line that names schema, field and the type."""
    with pytest.raises(SchemaError) as error:
        type("Bad", (StateSchema,), {"__annotations__": {"field": kind}, "__module__": __name__})
    assert "Bad" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_annotation_that_cannot_be_resolved_is_refused() -> None:
    """A misspelt type name fails at the class statement, and says which."""
    with pytest.raises(
        SchemaError, match="Bad: an annotation cannot be resolved: name 'Strng' is not defined"
    ):
        type("Bad", (StateSchema,), {"__annotations__": {"field": "Strng"}, "__module__": __name__})


def test_types_of_the_function_around_the_class_are_found() -> None:
    """Annotations that are text may name what is local to where the class stands."""

    class Local(BaseModel):
        n: int

    class Holder(StateSchema):
        local: Local

    assert Holder.bind({"local": {"n": 1}}).local == Local(n=1)


def test_a_schema_in_source_that_is_no_module_finds_its_types() -> None:
    """A schema in executed text finds its types, even if `__name__` is not a module, as in notebooks."""
    namespace: dict[str, Any] = {"__name__": "no_such_module"}
    source = (
        "from adk_fluent import StateSchema\nWord = str\nclass Text(StateSchema):\n    key: 'Word | None'"
    )
    exec(source, namespace)
    assert namespace["Text"].key.name == "key"


def test_two_scopes_and_taken_names_are_refused() -> None:
    """A field has one scope, and a name that `StateSchema` does not use itself."""
    two = Annotated[str, UserScoped, Temp]
    with pytest.raises(SchemaError, match="two scopes, 'user' and 'temp'"):
        type("Two", (StateSchema,), {"__annotations__": {"field": two}, "__module__": __name__})

    with pytest.raises(SchemaError, match="uses that name itself"):
        type("Taken", (StateSchema,), {"__annotations__": {"bind": str}, "__module__": __name__})


def test_a_wrong_default_is_found_when_it_is_used() -> None:
    """A default is checked like any value."""

    class Wrong(StateSchema):
        n: int = "three"  # pyright: ignore[reportAssignmentType]  # what is refused

    with pytest.raises(StateTypeError, match=r"The default of Wrong.n .* takes int, not 'three'"):
        _ = Wrong.bind({}).n


# --- composition ----------------------------------------------------------------------------------


class ClassifierState(StateSchema):
    intent: str
    shared: int = 1


class ResolverState(StateSchema):
    ticket_id: str
    shared: int = 2


class PipelineState(ClassifierState, ResolverState):
    resolution: str = "none"


def test_schemas_compose_by_inheritance() -> None:
    """A schema with several parents has all their fields, and is bound like any other."""
    assert list(PipelineState.fields()) == ["intent", "shared", "ticket_id", "resolution"]
    state = PipelineState.bind({"intent": "x", "ticket_id": "T"})
    assert (state.intent, state.ticket_id, state.shared, state.resolution) == ("x", "T", 1, "none")
    composed: object = PipelineState.intent
    assert composed == ClassifierState.fields()["intent"]


def test_a_child_may_give_another_default() -> None:
    """A default can be set or changed in a child, with or without repeating the type."""

    class Plain(ClassifierState):
        shared = 7

    class Typed(ClassifierState):
        intent: str = "unknown"

    assert (Plain.bind({}).shared, Typed.bind({}).intent) == (7, "unknown")
    assert ClassifierState.bind({}).shared == 1


def test_a_field_that_is_declared_again_keeps_its_default() -> None:
    """A child that repeats a field without a default has that of its nearest parent, until one changes it."""

    class Repeats(ClassifierState):
        shared: int

    class Both(ClassifierState, ResolverState):
        shared: int
        ticket_id: str

    class Below(Repeats):
        shared: int = 3

    class Again(Below):
        shared: int

    found = [schema.bind({}).shared for schema in (Repeats, Both, Below, Again)]
    assert found == [1, 1, 3, 3]
    declared: object = Repeats.shared
    assert isinstance(declared, StateFieldRef)
    assert (declared.schema, declared.key) == (Repeats, "shared")
    for state in (Repeats.bind({}), Both.bind({})):
        with pytest.raises(StateKeyError, match=r"ClassifierState.intent .* is not set"):
            _ = state.intent


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (str, int, "type: str in One, int in Other"),
        (str, Annotated[str, UserScoped], "scope: session in One, user in Other"),
        (int, Annotated[int, Field(ge=0)], "constraints"),
    ],
)
def test_parents_that_disagree_are_refused_at_class_definition(one: object, other: object, what: str) -> None:
    """Two parents, or a child and its parent, cannot declare one field differently."""

    def schema(name: str, kind: object, *bases: type) -> type:
        bases = bases or (StateSchema,)
        return type(name, bases, {"__annotations__": {"field": kind}, "__module__": __name__})

    first, second = schema("One", one), schema("Other", other)
    with pytest.raises(SchemaCompositionError, match=f"Both.field is declared twice with a different {what}"):
        type("Both", (first, second), {})
    with pytest.raises(SchemaCompositionError, match=r"Child\.field is declared twice"):
        schema("Child", other, first)


def test_a_diamond_is_no_conflict() -> None:
    """A field that comes from one ancestor by two ways is one field."""

    class Left(ClassifierState):
        left: int

    class Right(ClassifierState):
        right: int

    class Both(Left, Right): ...

    assert set(Both.fields()) == {"intent", "shared", "left", "right"}


# --- fields as keys -------------------------------------------------------------------------------


def test_fields_stand_wherever_a_state_key_does() -> None:
    """Routes, transforms, declarations and templates take a field for its key."""
    tier: Any = BillingState.user_tier
    assert state_key(tier) == str(tier) == "user:user_tier"
    assert Route(tier).eq("gold", Agent("a")).node.key == "user:user_tier"
    assert S.pick(tier).node.reads_keys == {"user:user_tier"}
    assert S.merge(tier, "b", into=BillingState.intent).node.writes_keys == {"intent"}
    assert S.rename(old=BillingState.intent).node.writes_keys == {"intent"}
    assert S.when(tier, S.set(a=1)).node.reads_keys == {"user:user_tier"}
    assert S.fn(lambda state: None, reads=[tier], writes=[BillingState.intent]).node.writes_keys == {"intent"}

    @declares(reads=[tier])
    def seen(state: Mapping[str, Any]) -> bool:
        return BillingState.bind(state).user_tier == "gold"

    assert Route().when(seen, Agent("a")).node.reads_keys == {"user:user_tier"}
    with pytest.raises(ArgumentError, match="a state key as text, not int 3"):
        state_key(3)  # pyright: ignore[reportArgumentType]  # what is refused


def test_references_compare_hash_and_store_by_value() -> None:
    """A field can be a dict key, and a graph that names it survives JSON."""
    refs = {BillingState.fields()["intent"]: "refund", BillingState.fields()["tags"]: "x"}
    assert refs[BillingState.fields()["intent"]] == "refund"
    node = Agent("a").writes(BillingState.intent, BillingState.confidence).schema(BillingState).to_ir()
    assert from_dict(json.loads(json.dumps(to_dict(node)))) == node
    assert ir_hash(node) != ir_hash(Agent("a").writes(BillingState.intent).to_ir())


def test_a_stored_graph_whose_schema_lost_the_field_is_refused() -> None:
    """Reading a graph says which field is gone, instead of inventing one."""
    data = to_dict(Agent("a").writes(BillingState.intent, BillingState.confidence).to_ir())
    stored = json.dumps(data).replace('"$field": "intent"', '"$field": "intention"')
    with pytest.raises(CodecError, match="names field 'intention'"):
        from_dict(json.loads(stored))


def test_declaring_and_composing_schemas_imports_neither_pydantic_nor_adk() -> None:
    """Pydantic is loaded when a value is first checked, so that importing stays cheap."""
    code = (
        "import sys\n"
        "from adk_fluent import Agent, StateSchema\n"
        "class B(StateSchema):\n    intent: str\n    n: int = 0\n"
        "Agent('a').writes(B.intent, B.n).schema(B).to_ir()\n"
        "assert not {'pydantic', 'google.adk'} & set(sys.modules), 'too early'\n"
        "B.bind({'n': 1}).n\n"
        "assert 'pydantic' in sys.modules\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": source},
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
