"""Dead writes: the analysis reports only values that are certainly lost, on every way a run can take."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.tools.exit_loop_tool import exit_loop

from adk_fluent import (
    Agent,
    FanOut,
    Loop,
    Pipeline,
    RemoteAgent,
    Route,
    S,
    gate,
    map_over,
    race,
    tap,
    transfer,
)
from adk_fluent.analysis.dead_writes import overwritten
from adk_fluent.analysis.facts import Facts
from adk_fluent.expr.base import Expr
from tests.contracts.corpus.cases import Desk, is_urgent, load_profile, load_tickets, show_draft

a, b, c = (Agent(name).writes("x") for name in "abc")
reader = Agent("reader").instruct("{x?}")
other = Agent("other")


def found(expression: Expr[Any]) -> list[tuple[str, str, str]]:
    """Each value that is written in vain: by whom, under which key, and who writes it again."""
    return [(step.name, key, by.name) for step, key, by in overwritten(Facts(expression.node))]


IN_VAIN: dict[str, Expr[Any]] = {
    "one after another": a >> b >> reader,
    "something in between": a >> other >> S.set(y=1) >> b >> reader,
    "under a timeout": a >> b.timeout(3) >> reader,
    "on both branches": a >> Route("k").eq(1, b).otherwise(b.named("b2")) >> reader,
    "in a race": a >> race(b, b.named("b2")) >> reader,
    "in the first attempt and the next": a >> (b // b.named("b2")) >> reader,
    "beside a branch that looks at nothing": a >> (b | other) >> reader,
    "before a loop": a >> Loop(b, max_iterations=2) >> reader,
    "in a loop, and nobody reads it in it": Loop(a, b, max_iterations=2) >> reader,
    "by the first that completes": a >> FanOut(b, b.named("b2"), merge="first_complete") >> reader,
    "by a remote or what runs instead": a
    >> RemoteAgent("b", endpoint="http://127.0.0.1:1", fallback=b.named("b2")).writes("x")
    >> reader,
    "by the answers of a map": Pipeline(load_tickets)
    >> a
    >> map_over("tickets", other, output_key="x")
    >> reader,
    "by a field that may be null": Agent("a").writes("tags") >> Agent("b").writes(Desk.intent, Desk.tags),
    "read by an attempt that writes it first": a >> ((b >> reader) // (b.named("b2") >> reader.named("r2"))),
}


@pytest.mark.parametrize("name", IN_VAIN)
def test_a_value_that_is_certainly_written_again_is_in_vain(name: str) -> None:
    """The first write is found, and the step that writes the key again is named."""
    ((by, _, again), *more) = found(IN_VAIN[name])
    assert by == "a"
    assert again in ("b", "b2", "map")
    assert more == []


NOT_IN_VAIN: dict[str, Expr[Any]] = {
    "once": a >> reader,
    "read in between": a >> reader >> b,
    "read by a tap in between": Agent("a").writes("draft") >> tap(show_draft) >> Agent("b").writes("draft"),
    "read by an unknown function": a >> tap(print) >> b >> reader,
    "a person looks": a >> gate(is_urgent) >> b >> reader,
    "on one branch": a >> Route("k").eq(1, b).otherwise(other) >> reader,
    "without otherwise": a >> Route("k").eq(1, b) >> reader,
    "if a condition holds": a >> b.proceed_if(is_urgent) >> reader,
    "if it was not there": a >> S.default(x=1) >> reader,
    "set to nothing": a >> S.set(x=None) >> reader,
    "in one of two that race": a >> race(b, other) >> reader,
    "in one attempt": a >> (b // other) >> reader,
    "read after a failure": (a >> b) // reader,
    "read after a failure, further on": ((a >> b) // other) >> reader,
    "read after two failures": (a >> b) // other // reader,
    "read after an inner failure": ((a >> other) // b) >> reader,
    "read after an outer failure": ((a >> b) // b.named("b2")) // reader,
    "read by a branch beside": a >> (b | reader),
    "read by a branch before": FanOut(reader, a >> other) >> b,
    "read beside, further on": FanOut(a >> other, reader) >> b,
    "written beside a reader": FanOut(a >> b, reader),
    "written by the first that completes": a >> FanOut(b, other, merge="first_complete") >> reader,
    "in the next round": Loop(a, max_iterations=2) >> reader,
    "read in the next round": Loop(reader, a, max_iterations=2) >> b,
    "grown in the next round": Loop(S.accumulate("k", into="x"), S.merge("x", into="y"), a, max_iterations=2)
    >> b
    >> reader,
    "unless it leaves the loop": Loop(a, other.tool(exit_loop), b, max_iterations=2) >> reader,
    "unless it leaves before it answers": Loop(a, b.tool(exit_loop), max_iterations=2) >> reader,
    "for no item": Pipeline(load_tickets) >> a >> map_over("tickets", b) >> reader,
    "by another item": Pipeline(load_tickets) >> map_over("tickets", reader >> a) >> b,
    "under the name of an item": Agent("a").writes("_item")
    >> Pipeline(load_tickets)
    >> map_over("tickets", other)
    >> Agent("r").instruct("{_item?}"),
    "unless a sub-agent answers": a >> Agent("boss").delegate(other).writes("x") >> reader,
    "read by a sub-agent": a >> Agent("boss").delegate(reader) >> b,
    "unless its callback answers": a >> b.before_agent(load_profile) >> reader,
    "skipped by a transfer": Pipeline("p", a, transfer("reader", condition=is_urgent), b) >> reader,
    "put back from its parts": S.set(**{"x.y": 1}) >> S.unflatten() >> S.set(**{"x.y": 2}),
    "for all sessions": Agent("a").writes("app:x") >> Agent("b").writes("app:x"),
    "by a remote that may fail": a
    >> RemoteAgent("b", endpoint="http://127.0.0.1:1", fallback=other).writes("x")
    >> reader,
}


@pytest.mark.parametrize("name", NOT_IN_VAIN)
def test_a_value_with_a_possible_reader_is_not_dead(name: str) -> None:
    """A value is not a dead write if some run may read it later, or keep it."""
    assert found(NOT_IN_VAIN[name]) == []


def test_many_keys_are_followed_as_far_as_it_is_quick() -> None:
    """With very many keys, the dead writes of the keys that are written again soonest are found."""
    keys = [f"k{n}" for n in range(200)]
    writers = S.set(**dict.fromkeys(keys, 1))
    choice = Route("k").eq(1, S.counter("k199")).otherwise(other)
    again = Pipeline(*(S.set(**{key: 2}) for key in keys))
    assert len(found(writers >> again)) == 200
    assert {key for _, key, _ in found(writers >> choice >> again)} == set(keys[:64])
