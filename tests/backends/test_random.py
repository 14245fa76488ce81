"""Random small expressions: the same run on every store, and nothing changes an expression."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over
from adk_fluent.config import ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.ir import ir_hash, walk
from adk_fluent.testing import mock_backend
from tests.backends.support import close, session_service
from tests.sampling import examples

NAMES = ("a", "b", "c")
KEYS = ("x", "y", "z")


def _big(state: Any) -> bool:
    return state.get("n", 0) > 3


def _never(state: Any) -> bool:
    return False


def _items(state: Any) -> dict[str, Any]:
    return {"items": [state.get("n", 0), "i"]}


Expression = Expr[Any]


def _agent(name: str) -> Expression:
    return Agent(name).writes(name)


def _set(key: str, value: int) -> Expression:
    return S.set(**{key: value})


def _rename(old: str, new: str) -> Expression:
    return S.rename(**{old: f"{new}2"})


def _in_order(steps: list[Expression]) -> Expression:
    return Pipeline(*steps)


def _beside(one: Expression) -> Expression:
    return FanOut(one, S.set(side=1))


def _rounds(body: Expression, count: int) -> Expression:
    return Loop(body, max_iterations=count)


def _until(body: Expression) -> Expression:
    return Loop(S.counter("n") >> body).until(_big)


def _route(key: str, one: Expression, two: Expression) -> Expression:
    return Route(key).gt(1, one).otherwise(two)


def _each(body: Expression) -> Expression:
    return Pipeline(_items, map_over("items", body, concurrency=1))


def _or(one: Expression, two: Expression) -> Expression:
    return one // two


def _after_failing(one: Expression) -> Expression:
    return (Agent("fails") >> one) // one


def _timed(one: Expression) -> Expression:
    return one.timeout(60)


def _if_big(one: Expression) -> Expression:
    return one.proceed_if(_big)


names, keys = st.sampled_from(NAMES), st.sampled_from(KEYS)
leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(_agent, names),
    st.builds(_set, keys, st.integers(0, 3)),
    st.just(S.counter("n")),
    st.builds(S.drop, keys),
    st.builds(_rename, keys, keys),
    st.builds(S.capture, keys),
    st.just(S.accumulate("n", into="all")),
)


def combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Every composite but those that run branches at the same time, of random parts."""
    return st.one_of(
        st.builds(_in_order, st.lists(inner, min_size=1, max_size=3)),
        st.builds(_rounds, inner, st.integers(1, 3)),
        st.builds(_route, keys, inner, inner),
        st.builds(_or, inner, inner),
        *(st.builds(wrap, inner) for wrap in (_beside, _until, _each, _after_failing, _timed, _if_big)),
    )


expressions = st.recursive(leaves, combined, max_leaves=6)


async def _play(expression: Expr[Any], kind: str, **config: Any) -> tuple[list[Any], dict[str, Any]]:
    """Two turns on a store: what happened in each, and the state that is stored."""
    with tempfile.TemporaryDirectory() as folder:
        service = session_service(kind, Path(folder))
        backend = mock_backend(
            {name: [f"{name}1", f"{name}2", f"{name}3"] for name in NAMES} | {"fails": RuntimeError("no")}
        )
        happened: list[Any] = []
        for prompt in ("first", "second"):
            result = await expression.run(
                prompt,
                backend=backend,
                session_service=service,
                session_id="s",
                config=ExecutionConfig(**config),
            )
            told = [
                (e.branch or "", e.author, e.content, e.state_delta)
                for e in result
                if e.content or e.state_delta
            ]
            told.sort(key=lambda entry: entry[0])  # branches take turns as they like
            happened.append((told, result.text, result.state))
        session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
        await close(service)
    assert session is not None
    return happened, {key: value for key, value in session.state.items() if value is not None}


@settings(max_examples=examples(20))
@given(expressions)
def test_every_store_gives_the_same_run(expression: Expr[Any]) -> None:
    """The same expression does the same in memory and on SQLite, with checkpoints and without."""
    before = (ir_hash(expression.node), repr(expression), hash(expression), list(walk(expression.node)))

    async def all_ways() -> list[Any]:
        return [
            await _play(expression, "memory"),
            await _play(expression, "memory", resumable=True),
            await _play(expression, "sqlite"),
        ]

    first, checked, stored = asyncio.run(all_ways())
    assert checked == first
    assert stored[1] == first[1]
    assert [(text, state) for _, text, state in stored[0]] == [(text, state) for _, text, state in first[0]]
    assert (
        ir_hash(expression.node),
        repr(expression),
        hash(expression),
        list(walk(expression.node)),
    ) == before


@settings(max_examples=examples(25))
@given(expressions, st.booleans())
def test_building_changes_nothing(expression: Expr[Any], pauses: bool) -> None:
    """Compiling to native objects leaves the expression as it was and gives fresh objects each time."""
    if pauses:
        expression = expression >> gate(_never)
    before = ir_hash(expression.node)
    one, two = expression.build(), expression.build()
    expression.to_app(ExecutionConfig(timeout_seconds=5))
    assert ir_hash(expression.node) == before
    assert one is not two
    assert [agent.name for agent in one.sub_agents] == [agent.name for agent in two.sub_agents]


@settings(max_examples=examples(25))
@given(st.lists(leaves, min_size=3, max_size=3))
def test_how_a_sequence_is_grouped_changes_nothing(steps: list[Expr[Any]]) -> None:
    """`(a >> b) >> c` and `a >> (b >> c)` run the same."""
    a, b, c = steps

    async def both() -> tuple[Any, Any]:
        return await _play((a >> b) >> c, "memory"), await _play(a >> (b >> c), "memory")

    one, two = asyncio.run(both())
    assert one == two
