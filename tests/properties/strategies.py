"""Random expressions over every public constructor.

Two agents of one name are always equal, as a tree may not hold two different ones.
"""

# The functions that strategies call cannot know the types they are called with.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hypothesis import strategies as st

from adk_fluent import (
    Agent,
    FanOut,
    Loop,
    Pipeline,
    Route,
    S,
    gate,
    loop_until,
    map_over,
    race,
    tap,
    transfer,
    until,
)
from adk_fluent.expr.base import Expr
from adk_fluent.expr.transforms import Transform
from tests.samples import Invoice, Ticket, add, count_words, is_done, is_urgent, log_call, look, to_text

AnyExpr = Expr[Any]
Expressions = st.SearchStrategy[AnyExpr]

AGENTS = (
    Agent("plain"),
    Agent("writer", "some-model").instruct("Write about {topic} for {user:name?}.").writes("draft"),
    Agent("shaped").returns(Invoice).generate(temperature=0, stop_sequences=["END"]),
    Agent("listed").returns(list[Ticket]).describe("Lists."),
    Agent("handy").tools(add).tool(add, require_confirmation=True).before_agent(log_call),
    Agent("boss").delegate(Agent("left"), Agent("right").isolate()).global_instruct("Be kind."),
)
KEYS = st.sampled_from(["draft", "topic", "user:name", "app:limit", "temp:note", "_item", "größe"])
BARE_KEYS = st.sampled_from(["draft", "topic", "score", "label"])
COUNTS = st.integers(1, 4)
PREDICATES = st.sampled_from([is_done, is_urgent])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from([Invoice(number=1), Ticket]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def _kwargs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(BARE_KEYS, values, min_size=1, max_size=3)


PLAIN_TRANSFORMS: st.SearchStrategy[Transform] = st.one_of(
    st.lists(KEYS, min_size=1, max_size=3).map(lambda keys: S.pick(*keys)),
    st.lists(KEYS, min_size=1, max_size=3).map(lambda keys: S.drop(*keys)),
    st.builds(lambda old, new: S.rename(**{old: new}), BARE_KEYS, KEYS),
    _kwargs(VALUES).map(lambda values: S.set(**values)),
    _kwargs(VALUES).map(lambda values: S.default(**values)),
    st.builds(lambda keys, into: S.merge(*keys, into=into), st.lists(KEYS, min_size=1, max_size=2), KEYS),
    st.builds(lambda key: S.transform(key, to_text), KEYS),
    st.builds(lambda key, step: S.counter(key, step=step), KEYS, st.integers() | st.just(0.5)),
    st.builds(lambda key, size: S.history(key, max_size=size), KEYS, COUNTS),
    st.builds(lambda key, into: S.accumulate(key, into=into), KEYS, KEYS),
    st.builds(S.flatten, KEYS),
    st.builds(lambda key: S.group_by(key, to_text, into="groups"), KEYS),
    st.builds(lambda keys: S.zip(*keys, into="rows"), st.lists(KEYS, min_size=1, max_size=2)),
    st.sampled_from(
        [
            S.compute(words=count_words),
            S.fn(count_words),
            S.fn(look, reads=["draft"], writes=["words"]),
            S.guard(is_done, "not done"),
            S.require("draft"),
            S.validate(Ticket),
            S.log("draft", label="now"),
            S.identity(),
            S.unflatten(),
        ]
    ),
)
TRANSFORMS: st.SearchStrategy[Transform] = st.recursive(
    PLAIN_TRANSFORMS,
    lambda inner: st.one_of(
        st.builds(lambda key, one, other: S.when(key, one >> other), KEYS, inner, inner),
        st.builds(lambda test, step: S.when(test, step), PREDICATES, inner),
        st.builds(lambda key, one, other: S.branch(key, x=one, y=other), KEYS, inner, inner),
        st.builds(lambda one: one + S.drop("topic"), inner),
    ),
    max_leaves=4,
)
LEAVES: Expressions = st.one_of(
    st.sampled_from(AGENTS),
    cast(Expressions, TRANSFORMS),
    st.sampled_from([tap(look), tap(print), S.capture("said")]),
    st.builds(lambda test, message: gate(test, message=message), PREDICATES, st.text(max_size=5)),
    st.builds(lambda test: transfer("plain", condition=test), PREDICATES),
)


def _pair(join: Callable[[Any, Any], AnyExpr], inner: Expressions) -> Expressions:
    return st.builds(join, inner, inner)


def _several(make: Callable[..., AnyExpr], inner: Expressions, least: int = 1) -> Expressions:
    return st.lists(inner, min_size=least, max_size=3).map(lambda parts: make(*parts))


def _route(tests: list[tuple[str, Any]], branches: list[AnyExpr], otherwise: AnyExpr | None) -> AnyExpr:
    route: Any = Route("label")
    for (method, value), branch in zip(tests, branches, strict=False):
        route = getattr(route, method)(value, branch)
    return route if otherwise is None else route.otherwise(otherwise)


def _composites(inner: Expressions) -> Expressions:
    tests = st.tuples(st.sampled_from(["eq", "ne", "gt", "lte", "contains"]), st.integers()) | st.tuples(
        st.sampled_from(["eq", "matches", "contains", "lt"]), st.sampled_from(["x", "late", "5"])
    )
    return st.one_of(
        _pair(lambda x, y: x >> y, inner),
        _pair(lambda x, y: x | y, inner),
        _pair(lambda x, y: x // y, inner),
        _several(Pipeline, inner),
        _several(FanOut, inner),
        _several(Loop, inner),
        _several(race, inner, 2),
        st.builds(lambda x, n: x * n, inner, COUNTS),
        st.builds(lambda x, test, n: x * until(test, max=n), inner, PREDICATES, COUNTS),
        st.builds(lambda x, test: loop_until(test, x), inner, PREDICATES),
        st.builds(lambda x, test: x.proceed_if(test), inner, PREDICATES),
        st.builds(lambda x, s: x.timeout(s), inner, st.sampled_from([1, 0.5, 60.0])),
        st.builds(lambda x: x.tap(look), inner),
        st.builds(lambda x: x >> count_words, inner),
        st.builds(lambda x: AGENTS[1] >> {"x": x, 5: x}, inner),
        st.builds(lambda x, key, n: map_over(key, x, concurrency=n), inner, BARE_KEYS, COUNTS),
        st.builds(
            _route,
            st.lists(tests, min_size=2, max_size=2),
            st.lists(inner, min_size=1, max_size=2),
            st.none() | inner,
        ),
        st.builds(lambda x, y, test: Route().when(test, x).otherwise(y), inner, inner, PREDICATES),
    )


EXPRESSIONS: Expressions = st.recursive(LEAVES, _composites, max_leaves=12)
"""Any expression that can be written."""
