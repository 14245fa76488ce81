"""`when`, `branch`, and the checks `guard`, `require`, `validate`; `log`."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, Field

from adk_fluent import Agent, C, P, Pipeline, Route, S
from adk_fluent.context.selection import select
from adk_fluent.errors import ArgumentError, ExpressionError, PredicateError, StateGuardError
from adk_fluent.expr.transforms import Transform
from tests.samples import Invoice, Ticket, is_done, is_urgent
from tests.state.stateful import after, delta

untyped: Any = S
"""`S` as a caller without a type checker sees it."""

chain = S.set(x=1) >> S.counter("x") >> S.drop("a")


@pytest.mark.parametrize(
    ("step", "before", "expected"),
    [
        (S.when(is_done, S.set(x=1)), {"done": True}, {"done": True, "x": 1}),
        (S.when(is_done, S.set(x=1)), {}, {}),
        (S.when("flag", S.set(x=1)), {"flag": "no"}, {"flag": "no", "x": 1}),
        (S.when("flag", S.set(x=1)), {"flag": 0}, {"flag": 0}),
        (S.when("flag", S.set(x=1)), {"flag": None}, {}),
        (S.when("flag", S.set(x=1)), {"flag": []}, {"flag": []}),
        (S.when("user:flag", S.set(x=1)), {"user:flag": 1}, {"user:flag": 1, "x": 1}),
        # chains see what came before, replacements replace
        (S.when("a", chain), {"a": 1}, {"x": 2}),
        (S.when("a", chain), {"b": 1}, {"b": 1}),
        (S.when("a", S.pick("a")), {"a": 1, "b": 2, "app:c": 3}, {"a": 1, "app:c": 3}),
        (S.when("a", S.pick("a") >> S.set(b=1)), {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 1}),
        (S.when("a", S.drop("a") >> S.default(a=5)), {"a": 1}, {"a": 5}),
        (S.when("a", S.when("b", S.set(c=1))), {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}),
        (S.when("a", S.set(x=1) + S.drop("a")), {"a": 1}, {"x": 1}),
        (S.branch("k", x=S.set(n=1), y=S.set(n=2)), {"k": "y"}, {"k": "y", "n": 2}),
        (S.branch("k", x=S.set(n=1)), {"k": " x\n"}, {"k": " x\n", "n": 1}),
        (S.branch("k", x=S.set(n=1)), {"k": "z"}, {"k": "z"}),
        (S.branch("k", x=S.set(n=1)), {}, {}),
        (S.branch("k", x=S.set(n=1)), {"k": None}, {}),
        (S.branch("k", **{"True": S.set(n=1)}), {"k": True}, {"k": True, "n": 1}),
        (S.branch("k", **{"5": S.set(n=1)}), {"k": 5}, {"k": 5, "n": 1}),
        (S.branch("k", **{"None": S.set(n=1)}), {}, {}),
        (S.branch("k", key=S.set(n=1)), {"k": "key"}, {"k": "key", "n": 1}),
        (S.branch("a", **{"1": chain}), {"a": 1}, {"x": 2}),
    ],
)
def test_conditions(step: Transform, before: dict[str, Any], expected: dict[str, Any]) -> None:
    """Conditions choose the transform for values that are true, falsy, absent, padded or not text."""
    assert after(step, before) == expected


def test_a_condition_is_one_step_with_one_delta() -> None:
    """A chain inside a condition is written at once: what it wrote and removed on its way does not show."""
    assert delta(S.when("a", chain), {"a": 1}) == {"x": 2, "a": None}
    assert delta(S.when("a", S.set(x=1) >> S.drop("x")), {"a": 1}) == {}


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (Agent("a"), "the expression Agent('a')"),
        (S.set(x=1) >> Agent("a"), "the expression Pipeline(set, a)"),
        (S.capture("x"), "the expression Step(capture)"),
        (Route("k").when(is_done, S.set(x=1)), "the expression Route(set)"),
        (5, "int 5"),
        (None, "NoneType None"),
        ({}, "dict {}"),
    ],
)
def test_conditions_hold_transforms_only(other: Any, shown: str) -> None:
    """`when` and `branch` refuse agents, and values that are not expressions."""
    with pytest.raises(ArgumentError) as caught:
        S.when("k", other)
    assert str(caught.value) == f"S.when() takes S transforms only, not {shown}."
    with pytest.raises(ArgumentError) as caught:
        S.branch("k", x=other)
    assert str(caught.value) == f"S.branch() takes S transforms only, not {shown}."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: untyped.when(5, S.identity()), "S.when() takes a function of the state, not int 5."),
        (lambda: untyped.when("", S.identity()), "S.when() takes a state key as text, not str ''."),
        (
            lambda: untyped.when(None, S.identity()),
            "S.when() takes a function of the state, not NoneType None.",
        ),
        (lambda: untyped.branch(5, x=S.identity()), "S.branch() takes a state key as text, not int 5."),
        (lambda: untyped.guard(5, "no"), "S.guard() takes a function of the state, not int 5."),
        (lambda: untyped.guard(is_done, None), "S.guard() takes a message as text, not NoneType None."),
        (lambda: untyped.validate(5), "S.validate() takes a pydantic model class, not int 5."),
        (
            lambda: untyped.validate(dict),
            "S.validate() takes a pydantic model class, not the class dict.",
        ),
        (
            lambda: untyped.validate(Ticket(intent="x")),
            "S.validate() takes a pydantic model class, not Ticket Ticket(intent='x').",
        ),
    ],
)
# An instance in the place of a model is one of the mistakes.
@pytest.mark.filterwarnings("ignore:Accessing the 'model_fields' attribute on the instance")
def test_wrong_arguments(make: Any, message: str) -> None:
    """Each argument that cannot work is refused when it is written."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message


def test_a_branch_needs_branches() -> None:
    """Without a single case, nothing could ever run."""
    with pytest.raises(ExpressionError) as caught:
        S.branch("k")
    assert str(caught.value) == "S.branch() needs at least one state key."


async def later(state: object) -> dict[str, int]:
    """A function that must be awaited."""
    return {"x": 1}


untyped_later: Any = later


class Later:
    """A callable that must be awaited."""

    async def __call__(self, state: object) -> bool:
        """Not now."""
        return False


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: S.when(later, S.identity()), "S.when()"),
        (lambda: S.guard(later, "no"), "S.guard()"),
        (lambda: S.transform("a", later), "S.transform()"),
        (lambda: S.compute(a=later), "S.compute(a=)"),
        (lambda: S.merge("a", into="b", fn=later), "S.merge(fn=)"),
        (lambda: S.group_by("a", later, into="b"), "S.group_by()"),
        (lambda: S.when("k", S.fn(later)), "S.when()"),
        (lambda: S.when("k", S.set(x=1) >> later), "S.when()"),
        (lambda: S.branch("k", x=S.fn(later)), "S.branch()"),
        (lambda: S.fn(later) + S.set(y=1), "+"),
        (lambda: S.when(partial(later), S.identity()), "S.when()"),
        (lambda: S.when(Later(), S.identity()), "S.when()"),
        (lambda: P.when(later, P.task("t")), "P.when()"),
        (lambda: P.when(Later(), P.task("t")), "P.when()"),
        (lambda: C.when(later, C.none()), "C.when()"),
        (lambda: C.when(partial(later), C.none()), "C.when()"),
        (lambda: C.validate(untyped_later), "C.validate()"),
        (lambda: C.relevant(scorer=untyped_later), "C.relevant(scorer=)"),
    ],
)
def test_async_functions_inside_conditions_are_refused(make: Any, where: str) -> None:
    """An async function where it would not be awaited, and so would always count as true, is refused."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == (
        f"{where} takes a plain function; an async one can be a separate step, with >>."
    )


def hidden(state: object) -> object:
    """An async predicate that does not look like an async function."""
    return Later()(state)


@pytest.mark.parametrize(
    ("run", "told", "operation"),
    [
        (lambda: after(S.when(hidden, S.set(x=1)), {}), "S.when: its predicate 'hidden'", "S.when"),
        (lambda: after(S.guard(hidden, "no"), {}), "S.guard: its predicate 'hidden'", "S.guard"),
        (lambda: P.when(hidden, P.task("t")).render({}), "P.when: its predicate 'hidden'", "P.when"),
        (
            lambda: C.when(hidden, C.none()).resolved({}, "a"),
            "'a' in C.when: its predicate 'hidden'",
            "C.when",
        ),
        (
            lambda: select(C.validate(untyped_hidden), [], agent="a"),
            "'a': its check 'hidden' in C.validate",
            "C.validate",
        ),
    ],
)
def test_an_awaitable_condition_stops_the_run(run: Any, told: str, operation: str) -> None:
    """A condition that turns out to be async when it is asked stops the run, wherever it stands."""
    with pytest.raises(PredicateError) as caught:
        run()
    assert str(caught.value) == (
        f"{told} is async. {operation} takes a plain function; an async one can be a separate step, with >>."
    )


untyped_hidden: Any = hidden


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda: after(S.when(raising, S.set(x=1)), {}), "S.when: its predicate 'raising'"),
        (lambda: after(S.guard(raising, "no"), {}), "S.guard: its predicate 'raising'"),
        (lambda: P.when(raising, P.task("t")).render({}), "P.when: its predicate 'raising'"),
        (lambda: C.when(raising, C.none()).resolved({}, "a"), "'a' in C.when: its predicate 'raising'"),
    ],
)
def test_a_condition_that_raises_is_named(run: Any, told: str) -> None:
    """An error of a condition becomes one error type that names the condition and chains the cause."""
    with pytest.raises(PredicateError) as caught:
        run()
    assert str(caught.value) == f"{told} raised ZeroDivisionError: division by zero."
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def raising(state: Any) -> bool:
    """A predicate that is wrong about the state."""
    return bool(1 / state.get("missing", 0))


def test_a_named_chain_is_a_chain() -> None:
    """A pipeline of transforms may be named and stand inside a condition all the same."""
    assert after(S.when("a", Pipeline("tidy", S.set(x=1), S.drop("a"))), {"a": 1}) == {"x": 1}


# --- checks ---------------------------------------------------------------------------------------


class Strict(BaseModel):
    number: int
    tags: list[str]


class Size(BaseModel):
    width: float
    unit: str | None


class Parcel(BaseModel):
    weight: float
    note: str | None
    any: Any
    size: Size | None = None
    sizes: list[Size] = []
    label: str = Field("", alias="printedLabel")
    stamp: str | None = Field(alias="Stamp")
    count: int = 1


@pytest.mark.parametrize(
    ("step", "state", "message"),
    [
        (S.guard(is_done, "Not done yet."), {"done": False}, "Not done yet."),
        (S.guard(is_done, "Not done yet."), {}, "Not done yet."),
        (S.guard(is_done, "Not done yet."), {"done": None}, "Not done yet."),
        (S.require("a"), {}, "State is missing 'a'; an earlier step must write them."),
        (
            S.require("a", "b", "c"),
            {"b": 0, "c": None},
            "State is missing 'a', 'c'; an earlier step must write them.",
        ),
        (S.validate(Ticket), {}, "State does not fit Ticket: 'intent': Field required (1 problem(s))."),
        (
            S.validate(Strict),
            {"number": "many", "tags": [1]},
            "State does not fit Strict: 'number': Input should be a valid integer, unable to parse string as "
            "an integer (2 problem(s)).",
        ),
        (
            S.validate(Strict),
            {"number": 1, "tags": ["x", 5]},
            "State does not fit Strict: 'tags.1': Input should be a valid string (1 problem(s)).",
        ),
        (S.validate(Parcel), {}, "State does not fit Parcel: 'weight': Field required (1 problem(s))."),
        (
            S.validate(Parcel),
            {"weight": 1, "size": {"unit": "cm"}},
            "State does not fit Parcel: 'size.width': Field required (1 problem(s)).",
        ),
        (
            S.validate(Parcel),
            {"weight": 1, "note": 5, "count": "x"},
            "State does not fit Parcel: 'note': Input should be a valid string (2 problem(s)).",
        ),
        (
            S.validate(Parcel),
            {"weight": 1, "stamp": 5},
            "State does not fit Parcel: 'stamp': Input should be a valid string (1 problem(s)).",
        ),
        (S.guard(is_done, "stop") >> S.set(x=1), {}, "stop"),
        (S.when("k", S.require("a")), {"k": 1}, "State is missing 'a'; an earlier step must write them."),
    ],
)
def test_checks_that_fail(step: Any, state: dict[str, Any], message: str) -> None:
    """A failed check raises with what is wrong, in one line."""
    with pytest.raises(StateGuardError) as caught:
        after(step, state)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (S.guard(is_urgent, "no"), {"priority": "high"}),
        (S.require("a", "b"), {"a": 0, "b": ""}),
        (S.validate(Invoice), {"number": "5", "unrelated": [1]}),
        (S.validate(Ticket), {"intent": "x"}),
        (S.validate(Parcel), {"weight": 1.5, "note": "n", "any": 1, "count": 2}),
        (S.validate(Parcel), {"weight": 1}),
        (S.validate(Parcel), {"weight": 1, "label": "l", "stamp": "s"}),
        (S.validate(Parcel), {"weight": 1, "note": None, "size": None, "any": None}),
        (
            S.validate(Parcel),
            {"weight": 1, "size": {"width": 2}, "sizes": [{"width": 1, "unit": "m"}, {"width": 2}]},
        ),
    ],
)
def test_checks_that_hold_change_nothing(step: Transform, state: dict[str, Any]) -> None:
    """A check that holds writes nothing, not even what a model would convert."""
    assert delta(step, state) == {}


def test_validate_declares_the_fields_of_the_model() -> None:
    """The checker sees which keys a model is validated from."""
    assert S.validate(Strict).node.reads_keys == {"number", "tags"}


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (S.log(), "{'a': 1, 'b': [2]}"),
        (S.log("a"), "{'a': 1}"),
        (S.log("a", "missing", label="after triage"), "after triage: {'a': 1, 'missing': None}"),
    ],
)
def test_log(
    step: Transform, line: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """`S.log` writes one INFO line on `adk_fluent.state`, prints nothing and changes nothing."""
    with caplog.at_level(logging.INFO):
        assert delta(step, {"a": 1, "b": [2], "gone": None}) == {}
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [
        ("adk_fluent.state", logging.INFO, line)
    ]
    assert capsys.readouterr() == ("", "")
