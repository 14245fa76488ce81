"""Replaying an unchanged random pipeline gives just what was recorded."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, FanOut, S, map_over, race
from adk_fluent.debug import Recorder, Recording, diff_recordings
from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.test_random import combined, leaves
from tests.debug.pipelines import look_up, slowly
from tests.sampling import examples

Expression = Expr[Any]

CALLING = Agent("d").tool(look_up).writes("x")


def _both(one: Expression, other: Expression) -> Expression:
    return FanOut(one, other)


def _race(one: Expression, other: Expression) -> Expression:
    return race(one, other)


def _first(one: Expression, other: Expression) -> Expression:
    return FanOut(one, other, merge="first_complete")


def _then(one: Expression, other: Expression) -> Expression:
    return one >> CALLING >> S.counter("z") >> other


def _each(body: Expression, concurrency: int) -> Expression:
    return S.set(items=["p", "q", "r"]) >> map_over("items", body, concurrency=concurrency)


def _combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    joined = (st.builds(join, inner, inner) for join in (_both, _race, _first, _then))
    return st.one_of(combined(inner), *joined, st.builds(_each, inner, st.integers(1, 3)))


any_pipeline = st.recursive(leaves, _combined, max_leaves=7)
paces = st.lists(st.integers(0, 12), min_size=4, max_size=4)


async def record(expression: Expression, pace: list[int]) -> Recording:
    """Two turns, in which agents answer at different speeds, and one calls a tool."""
    a, b, c, d = pace
    script = {
        "a": [slowly(a, "a1"), slowly(b, "a2"), slowly(a, "a3")],
        "b": [slowly(b, "b1"), ConnectionError("lost"), slowly(c, "b3")],
        "c": [slowly(c, "c1"), slowly(d, "c2"), slowly(c, "c3")],
        "d": [call_tool("look_up", order="7"), slowly(d, "d2"), call_tool("look_up", order="8"), "d4"],
        "fails": RuntimeError("no"),
    }
    tape, backend = Recorder(), mock_backend(script)
    for prompt in ("first", "second"):
        try:
            await tape.install(expression).run(prompt, backend=backend, session_id="s")
        except ADKFluentError:
            continue
    return tape.get_recording()


async def replayed(expression: Expression, pace: list[int]) -> str:
    """The differences between a recording, read from its file, and its replay."""
    recording = Recording.from_json((await record(expression, pace)).to_json())
    return str(diff_recordings(recording, await recording.replay(expression)))


@settings(max_examples=examples(15))
@given(any_pipeline, paces)
def test_replaying_an_unchanged_pipeline_changes_nothing(expression: Expression, pace: list[int]) -> None:
    """Whatever runs, in whatever order its branches answered: the diff with its replay is empty."""
    assert asyncio.run(replayed(expression, pace)).startswith("No difference: ")
