"""Facts that the analysis derives from the declared effects of `S` operations and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, C, S, StateSchema, tap
from adk_fluent.analysis.facts import Facts
from adk_fluent.contracts import check_all
from adk_fluent.expr.base import Expr
from adk_fluent.inspection import llm_anatomy
from adk_fluent.ir import declares
from tests.samples import to_text


class Nullable(BaseModel):
    k: str | None


class Strict(BaseModel):
    k: str


class Board(StateSchema):
    count: int
    text: str
    items: list[str]


@declares(reads=["k"])
def look(state: Mapping[str, Any]) -> None:
    """See the key."""


@declares(writes=["k"])
def put(state: Mapping[str, Any]) -> dict[str, str]:
    """Write the key."""
    return {"k": "v"}


def status(expression: Expr[Any], state: Mapping[str, Any] | None = None) -> str:
    """The status of the key that the last step reads."""
    *_, read = [read for read in Facts(expression.node, state=state or {}).reads if read.via == "function"]
    return read.status


SEEN = tap(look)


@pytest.mark.parametrize(
    ("expression", "state", "expected"),
    [
        (S.set(k=1) >> SEEN, {}, "must"),
        (S.set(k=None) >> SEEN, {"k": 1}, "never"),
        (S.set(k=None) | SEEN, {"k": 1}, "may"),
        (S.default(k=1) >> SEEN, {}, "must"),
        (S.default(k=None) >> SEEN, {}, "never"),
        (S.default(k=None) >> SEEN, {"k": 1}, "must"),
        (S.rename(a="k") >> SEEN, {"a": 1}, "must"),
        (S.rename(a="k") >> SEEN, {}, "never"),
        (S.rename(k="a") >> SEEN, {"k": 1}, "never"),
        (S.pick("a") >> SEEN, {"k": 1}, "never"),
        (S.flatten("k") >> SEEN, {"k": 1}, "may"),
        (S.require("k") >> SEEN, {}, "must"),
        (S.transform("k", to_text) >> SEEN, {}, "must"),
        (S.zip("k", "rows", into="both") >> SEEN, {}, "must"),
        (S.group_by("k", to_text, into="groups") >> SEEN, {}, "must"),
        (S.validate(Strict) >> SEEN, {}, "must"),
        (S.validate(Nullable) >> SEEN, {}, "never"),
        (S.history("a") >> S.rename(a_history="k") >> SEEN, {"a": 1}, "must"),
        (S.when("flag", S.set(k=1)) >> SEEN, {}, "may"),
        ((S.set(k=1) + S.drop("k")) >> SEEN, {"k": 1}, "never"),
        (S.fn(put) >> SEEN, {}, "must"),
        (S.identity() >> put >> SEEN, {}, "must"),
    ],
)
def test_the_status_of_a_key_after_an_operation(
    expression: Expr[Any], state: Mapping[str, Any], expected: str
) -> None:
    """The status of a key follows from the effects of the steps before."""
    assert status(expression, state) == expected


def test_a_value_that_may_not_have_been_copied_may_have_stayed() -> None:
    """If `user:u` may be missing, `k` may keep its older value, even one that an agent wrote."""
    end = Agent("b").instruct("{k}").context(C.none())
    pipeline = Agent("a").writes("k") >> S.rename(**{"user:u": "k"}) >> end
    assert "a" in llm_anatomy(pipeline)["b"].sees


def test_a_field_that_may_be_none_need_not_be_there() -> None:
    """`S.validate` lets it be absent, so a check does not ask for it; another field it asks for."""
    assert [issue.key for issue in check_all(S.validate(Nullable)).errors] == []
    assert [issue.key for issue in check_all(S.validate(Strict)).errors] == ["k"]


@pytest.mark.parametrize("step", [S.fn(put), S.identity() >> put])
def test_declared_writes_of_a_function_count(step: Expr[Any]) -> None:
    """An unread answer is a dead write before `S.fn`, as before the function itself."""
    found = check_all(Agent("a").writes("k") >> step >> SEEN)
    assert [issue.key for issue in found.issues if issue.code == "overwritten"] == ["k"]


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        (S.counter("count"), []),
        (S.counter("count", step=0.5), []),
        (S.counter("text"), ["text"]),
        (S.merge("count", into="text"), []),
        (S.merge("count", into="items"), ["items"]),
        (S.merge("count", into="items", fn=lambda *values: [*values]), []),
        (S.accumulate("text", into="items"), []),
        (S.accumulate("text", into="count"), ["count"]),
        (S.set(text="x", count="y"), ["count"]),
        (S.default(count="y"), ["count"]),
        (S.transform("count", to_text), []),
    ],
)
def test_types_of_writes_are_compared_with_the_schema(step: Expr[Any], wrong: list[str]) -> None:
    """The type that an operation is known to write is held against the field, before a run refuses it."""
    found = check_all(step.schema(Board), state={"count": 1, "text": "x", "items": ["y"]})
    assert [issue.key for issue in found.errors] == wrong
