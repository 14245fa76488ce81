from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, Route, S
from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import RouteNode, TransformNode
from adk_fluent.ir.predicates import Match, Predicate
from tests.samples import count_words, is_done, is_urgent

a, b, c = Agent("a"), Agent("b"), Agent("c")
untyped: Any = Route("k")
"""A route as a caller without a type checker sees it."""
untyped_route: Any = Route


@pytest.mark.parametrize(
    ("route", "test"),
    [
        (Route("k").eq("x", a), Match("k", "eq", "x")),
        (Route("k").eq("x", a, ignore_case=True), Match("k", "eq", "x", True)),
        (Route("k").eq(5, a), Match("k", "eq", 5)),
        (Route("k").eq(None, a), Match("k", "eq", None)),
        (Route("k").ne("x", a), Match("k", "ne", "x")),
        (Route("k").ne("x", a, ignore_case=True), Match("k", "ne", "x", True)),
        (Route("k").gt(1, a), Match("k", "gt", 1)),
        (Route("k").gte(1.5, a), Match("k", "gte", 1.5)),
        (Route("k").lt("b", a), Match("k", "lt", "b")),
        (Route("k").lte(1, a), Match("k", "lte", 1)),
        (Route("k").contains("x", a, ignore_case=True), Match("k", "contains", "x", True)),
        (Route("k").matches(r"^\d+$", a), Match("k", "matches", r"^\d+$")),
        (Route("k").matches("x", a, ignore_case=True), Match("k", "matches", "x", True)),
        (Route("user:k").eq("x", a), Match("user:k", "eq", "x")),
        (Route("k").when(is_done, a), is_done),
        (Route().when(is_done, a), is_done),
    ],
)
def test_each_rule_adds_one_branch(route: Route[Any], test: Predicate) -> None:
    """A rule holds its comparison as data and its branch."""
    assert route.node.rules == ((test, a.node),)
    assert route.node.default is None


def test_rules_keep_their_order() -> None:
    """The first match wins, so rules stay in the order in which they were written; `otherwise` is last."""
    route = Route("k").otherwise(c).eq("x", a).gt(5, b)
    assert [branch.name for _, branch in route.node.rules] == ["a", "b"]
    assert [child.name for child in route.node.children] == ["a", "b", "c"]
    assert route == Route("k").eq("x", a).gt(5, b).otherwise(c)


def test_a_route_does_not_change() -> None:
    """Adding a rule gives a new route, so a common start can be shared."""
    start = Route("k").eq("x", a)
    one, other = start.eq("y", b), start.otherwise(c)
    assert start == Route("k").eq("x", a)
    assert (len(one.node.children), len(other.node.children)) == (2, 2)
    assert one != other


def test_a_branch_may_be_anything_that_runs() -> None:
    """Pipelines, transforms, functions and other routes are branches too."""
    inner = Route("l").eq(1, a)
    branches: list[Any] = [a >> b, S.set(x=1), count_words, inner, a * 3]
    route = untyped
    for number, branch in enumerate(branches):
        route = route.eq(number, branch)
    expected = [a >> b, S.set(x=1), None, inner, a * 3]
    for (_, node), branch in zip(route.node.rules, expected, strict=True):
        assert node == (branch.node if branch else TransformNode(fn=count_words))


def test_the_reads_of_a_route() -> None:
    """The checker sees the key, and the keys of predicates whose source shows them."""
    assert Route("k").eq("x", a).node.access.reads == {"k"}
    assert Route("k").eq("x", a).node.access.reads_known
    assert Route("k").when(is_done, a).node.access.reads == {"k", "done"}
    assert not Route("k").when(lambda state: any(state.values()), a).node.access.reads_known


def test_proceed_if_is_a_route_of_one() -> None:
    """`proceed_if` skips only its own expression."""
    assert a.proceed_if(is_done).node == RouteNode(rules=((is_done, a.node),))
    assert (a.proceed_if(is_done) >> b).node.children[1] == b.node


@pytest.mark.parametrize("op", ["eq", "ne", "gt", "gte", "lt", "lte", "contains", "matches"])
def test_a_comparison_needs_the_key(op: str) -> None:
    """Without a key only `when` can be used; the message shows how to give one."""
    with pytest.raises(ExpressionError) as caught:
        getattr(untyped_route(), op)("1", a)
    assert (
        str(caught.value)
        == f"Route() has no key to compare: write Route('key').{op}(...), or use .when(...)."
    )


LIMITS: list[tuple[Any, str]] = [
    (None, "NoneType None"),
    (True, "bool True"),
    ([1], "list [1]"),
    (int, "the class int"),
]


@pytest.mark.parametrize(("value", "shown"), LIMITS, ids=[shown for _, shown in LIMITS])
@pytest.mark.parametrize("op", ["gt", "gte", "lt", "lte"])
def test_only_numbers_and_text_have_an_order(op: str, value: Any, shown: str) -> None:
    """A limit that nothing can be compared with is refused when it is written."""
    with pytest.raises(ArgumentError) as caught:
        getattr(untyped, op)(value, a)
    assert str(caught.value) == f"{op}() compares with a number or text, not {shown}."


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: untyped_route(5), ArgumentError, "Route() takes a state key as text, not int 5."),
    (lambda: untyped_route(""), ArgumentError, "Route() takes a state key as text, not str ''."),
    (
        lambda: untyped_route(a),
        ArgumentError,
        "Route() takes a state key as text, not the expression Agent('a').",
    ),
    (lambda: untyped_route(str), ArgumentError, "Route() takes a state key as text, not the class str."),
    (
        lambda: untyped.matches("(", a),
        ArgumentError,
        "matches('(') is not a regular expression: missing ), unterminated subpattern at position 0.",
    ),
    (
        lambda: untyped.matches(5, a),
        ArgumentError,
        "matches() takes a regular expression as text, not int 5.",
    ),
    (
        lambda: untyped.matches(b"x", a),
        ArgumentError,
        "matches() takes a regular expression as text, not bytes b'x'.",
    ),
    (lambda: untyped.when(5, a), ArgumentError, "when() takes a function of the state, not int 5."),
    (lambda: untyped.when("k", a), ArgumentError, "when() takes a function of the state, not str 'k'."),
    (
        lambda: untyped.when(bool, a),
        ArgumentError,
        "when() takes a function of the state, not the class bool.",
    ),
    (
        lambda: untyped.when(b, a),
        ArgumentError,
        "when() takes a function of the state, not the expression Agent('b').",
    ),
    (
        lambda: untyped.eq("x", 5),
        ArgumentError,
        "the branch k == 'x' takes an expression or a function of the state, not int 5.",
    ),
    (
        lambda: untyped.eq("x", "a"),
        ArgumentError,
        "the branch k == 'x' takes an expression or a function of the state, not str 'a'. Did you mean "
        "Agent('a')?",
    ),
    (
        lambda: untyped.gt(5, None),
        ArgumentError,
        "the branch k > 5 takes an expression or a function of the state, not NoneType None.",
    ),
    (
        lambda: untyped.when(is_urgent, Agent),
        ArgumentError,
        "the branch is_urgent takes an expression or a function of the state, not the class Agent.",
    ),
    (
        lambda: untyped.otherwise(5),
        ArgumentError,
        "otherwise() takes an expression or a function of the state, not int 5.",
    ),
    (
        lambda: untyped.otherwise(a).otherwise(b),
        ExpressionError,
        "This route has an otherwise() already; a route has at most one.",
    ),
    (lambda: untyped.proceed_if(5), ArgumentError, "proceed_if() takes a function of the state, not int 5."),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG, ids=[message[:40] for *_, message in WRONG])
def test_wrong_arguments(make: Callable[[], Expr[Any]], error: type[Exception], message: str) -> None:
    """Keys, patterns, predicates and branches that cannot work are refused with one line."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message
    assert untyped == Route("k")
