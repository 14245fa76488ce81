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

NAMES = ("a", "b", "c")
KEYS = ("x", "y", "z")


def _big(state: Any) -> bool:
    return state.get("n", 0) > 3


def _never(state: Any) -> bool:
    return False


def _items(state: Any) -> dict[str, Any]:
    return {"items": [state.get("n", 0), "i"]}


names, keys = st.sampled_from(NAMES), st.sampled_from(KEYS)
leaves: st.SearchStrategy[Expr[Any]] = st.one_of(
    st.builds(lambda n: Agent(n).writes(n), names),
    st.builds(lambda k, v: S.set(**{k: v}), keys, st.integers(0, 3)),
    st.just(S.counter("n")),
    st.builds(S.drop, keys),
    st.builds(lambda k, j: S.rename(**{k: f"{j}2"}), keys, keys),
    st.builds(S.capture, keys),
    st.just(S.accumulate("n", into="all")),
)


def _combine(inner: st.SearchStrategy[Expr[Any]]) -> st.SearchStrategy[Expr[Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda steps: Pipeline(*steps)),
        st.builds(lambda one: FanOut(one, S.set(side=1)), inner),
        st.builds(lambda body, n: Loop(body, max_iterations=n), inner, st.integers(1, 3)),
        st.builds(lambda body: Loop(body).until(_big), st.builds(lambda e: S.counter("n") >> e, inner)),
        st.builds(lambda k, one, two: Route(k).gt(1, one).otherwise(two), keys, inner, inner),
        st.builds(lambda body: Pipeline(_items, map_over("items", body, concurrency=1)), inner),
        st.builds(lambda one, two: one // two, inner, inner),
        st.builds(lambda one: (Agent("fails") >> one) // one, inner),
        st.builds(lambda one: one.timeout(60), inner),
        st.builds(lambda one: one.proceed_if(_big), inner),
    )


expressions = st.recursive(leaves, _combine, max_leaves=6)


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
                (e.author, e.content, e.state_delta, e.branch) for e in result if e.content or e.state_delta
            ]
            happened.append((told, result.text, result.state))
        session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
        await close(service)
    assert session is not None
    return happened, {key: value for key, value in session.state.items() if value is not None}


@settings(max_examples=25)
@given(expressions)
def test_every_store_gives_the_same_run(expression: Expr[Any]) -> None:
    """The same expression does the same in memory and on SQLite, with checkpoints and without, and again."""
    before = (ir_hash(expression.node), repr(expression), hash(expression), list(walk(expression.node)))

    async def all_ways() -> list[Any]:
        return [
            await _play(expression, "memory"),
            await _play(expression, "memory"),
            await _play(expression, "sqlite"),
            await _play(expression, "memory", resumable=True),
        ]

    first, again, stored, checked = asyncio.run(all_ways())
    assert again == first
    assert checked == first
    assert stored[1] == first[1]
    assert [(text, state) for _, text, state in stored[0]] == [(text, state) for _, text, state in first[0]]
    assert (
        ir_hash(expression.node),
        repr(expression),
        hash(expression),
        list(walk(expression.node)),
    ) == before


@settings(max_examples=25)
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


@settings(max_examples=25)
@given(st.lists(leaves, min_size=3, max_size=3))
def test_how_a_sequence_is_grouped_changes_nothing(steps: list[Expr[Any]]) -> None:
    """`(a >> b) >> c` and `a >> (b >> c)` run the same."""
    a, b, c = steps

    async def both() -> tuple[Any, Any]:
        return await _play((a >> b) >> c, "memory"), await _play(a >> (b >> c), "memory")

    one, two = asyncio.run(both())
    assert one == two
