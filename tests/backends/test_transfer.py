"""`transfer`: another agent of the tree runs in place of the rest of the sequence."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, transfer
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ADKFluentError, CompileError, CycleError, InvalidNameError, PredicateError
from adk_fluent.expr.base import Expr
from tests.backends.support import ANYWAY, play, said, script, speakers

A, B, C, D = Agent("a"), Agent("b"), Agent("c"), Agent("d")
ASIDE = Route("never").eq("x", D)
"""Holds `d` without ever running it, so that it can be a target."""


async def test_the_target_runs_and_the_rest_is_skipped() -> None:
    """The target runs next; the steps after the transfer in the same sequence do not."""
    assert speakers(await play(Pipeline("p", A, transfer("d"), B) >> ASIDE)) == ["a", "d"]


async def test_only_the_enclosing_sequence_is_left() -> None:
    """The sequence around the enclosing one goes on."""
    assert speakers(await play(Pipeline("p", A, transfer("d"), B) >> C >> ASIDE)) == ["a", "d", "c"]


async def test_a_condition_that_holds() -> None:
    """With a condition that holds it hands over."""
    inner = Pipeline("p", A, transfer("d", condition=lambda s: s.get("go")), B)
    assert speakers(await play(inner >> ASIDE, state={"go": True})) == ["a", "d"]


async def test_a_condition_that_does_not_hold() -> None:
    """Without it the sequence goes on as if there were no transfer."""
    inner = Pipeline("p", A, transfer("d", condition=lambda s: s.get("go")), B)
    assert speakers(await play(inner >> ASIDE)) == ["a", "b"]


async def test_to_an_earlier_agent() -> None:
    """The target may be a step that ran already; it runs once more."""
    expression = A >> B >> transfer("a") >> C
    assert said(await play(expression, {"a": ["first", "again"]})) == [
        ("a", "first"),
        ("b", "ok"),
        ("a", "again"),
    ]


async def test_to_a_later_agent() -> None:
    """The target may be a step further on; what lies between is skipped, and so is what follows it."""
    assert speakers(await play(A >> transfer("c") >> B >> C >> D)) == ["a", "c"]


async def test_to_a_named_sequence() -> None:
    """The target may be any named expression of the tree."""
    steps = Pipeline("steps", B, C)
    assert speakers(await play(Pipeline("p", A, transfer("steps"), D) >> Route("n").eq("x", steps))) == [
        "a",
        "b",
        "c",
    ]


async def test_from_inside_a_route() -> None:
    """A transfer in a branch of a route leaves the sequence around the route."""
    expression = A >> Route("k").eq("x", transfer("d")).otherwise(B) >> C >> ASIDE
    assert speakers(await play(expression, state={"k": "x"})) == ["a", "d"]
    assert speakers(await play(expression, state={"k": "y"})) == ["a", "b", "c"]


@pytest.mark.parametrize("body", [A >> transfer("d") >> B, Pipeline("round", A, transfer("d"), B)])
async def test_in_a_loop_the_rest_of_the_round_is_skipped(body: Expr[Any]) -> None:
    """A round of a loop is a sequence: the rest of it is skipped, and the next round follows."""
    assert speakers(await play((body * 2) >> C >> ASIDE)) == ["a", "d", "a", "d", "c"]


async def test_in_a_fan_out_branch() -> None:
    """In one branch it leaves that branch alone; the target runs on the branch's conversation."""
    expression = FanOut("fan", Pipeline("p", A, transfer("d"), B), C) >> Agent("after") >> ASIDE
    result = await play(expression)
    assert sorted(speakers(result)[:-1]) == ["a", "c", "d"]
    assert speakers(result)[-1] == "after"
    assert [event.branch for event in result if event.author == "d"] == ["fan.p"]


async def test_a_chain_of_transfers() -> None:
    """A target may hand over again."""
    second = Pipeline("second", B, transfer("d"), C)
    first = Pipeline("first", A, transfer("second"), C)
    result = await play(first >> Route("n").eq("x", second) >> ASIDE)
    assert speakers(result) == ["a", "b", "d"]


async def test_an_event_says_whereto() -> None:
    """The step's event carries the target's name."""
    result = await play(A >> transfer("d") >> ASIDE)
    assert [event.transfer_to for event in result if event.transfer_to] == ["d"]


async def test_the_target_keeps_its_place() -> None:
    """After a transfer to it, the target also runs where it stands."""
    expression = Pipeline("p", A, transfer("d")) >> D >> B
    assert speakers(await play(expression)) == ["a", "d", "d", "b"]


async def test_the_next_turn_starts_at_the_top() -> None:
    """A transfer is for one turn; the next message goes to the whole expression again."""
    expression = Pipeline("p", A, transfer("d"), B) >> ASIDE
    await play(expression, session_id="transfer-turns")
    assert speakers(await play(expression, session_id="transfer-turns")) == ["a", "d"]


async def test_a_loop_made_of_a_conditional_transfer() -> None:
    """A conditional transfer to the expression around it repeats that until the condition fails."""
    expression = Pipeline("again", S.counter("n"), transfer("again", condition=lambda s: s["n"] < 3))
    assert (await play(expression)).state == {"n": 3}


async def test_a_loop_made_of_a_conditional_transfer_that_can_pause() -> None:
    """The same holds where the run can pause: the condition is asked each time."""
    expression = Pipeline(
        "again",
        S.counter("n"),
        gate(lambda s: s["n"] == 2),
        A,
        transfer("again", condition=lambda s: s["n"] < 3),
    )
    backend = script()
    first = await expression.run("hi", backend=backend)
    assert first.state == {"n": 2}
    assert len(first.pending) == 1
    result = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert result.state == {"n": 3}
    assert len(backend.calls["a"]) == 3


async def test_to_the_expression_around_the_enclosing_one() -> None:
    """An expression further out starts again; what lies between is left, not run afterwards."""
    inner = Pipeline("inner", S.counter("n"), transfer("outer", condition=lambda s: s["n"] < 3), B)
    assert speakers(await play(Pipeline("outer", A, inner, C) >> D)) == ["a", "a", "a", "b", "c", "d"]


async def test_starting_again_often() -> None:
    """Starting again two hundred times needs no deeper stack than once."""
    expression = Pipeline("again", S.counter("n"), transfer("again", condition=lambda s: s["n"] < 200))
    assert (await play(expression)).state == {"n": 200}


async def test_starting_a_loop_again() -> None:
    """A loop that starts again counts its rounds from zero."""
    loop = Loop("l", S.counter("n"), transfer("l", condition=lambda s: s["n"] == 2), max_iterations=3)
    assert (await play(loop)).state == {"n": 5}


async def test_a_route_may_lead_back() -> None:
    """A transfer that only one branch of a route makes needs no condition of its own."""
    back = Route().when(lambda s: s["n"] < 3, transfer("again"))
    assert (await play(Pipeline("again", S.counter("n"), back))).state == {"n": 3}


async def test_a_gate_may_end_what_leads_back() -> None:
    """Behind a gate a transfer needs no condition: refusing ends it."""
    expression = Pipeline("chat", A, gate(lambda s: True), transfer("chat"))
    result = await play(expression)
    for reply in (True, True, False):
        result = await expression.resume(
            session_id=result.session_id, approvals={result.pending[0].id: reply}, backend=script()
        )
    assert speakers(result) == ["gate"]
    assert result.pending == []


async def test_two_expressions_that_hand_over_to_each_other() -> None:
    """They may, as long as a condition ends it."""
    one = Pipeline("one", S.counter("n"), A, transfer("two", condition=lambda s: s["n"] < 3))
    two = Pipeline("two", B, transfer("one"))
    for config in (None, ExecutionConfig(resumable=True)):
        result = await play(Route("k").eq("x", two).otherwise(one), config=config)
        assert speakers(result) == ["a", "b", "a", "b", "a"]


async def test_a_target_that_pauses() -> None:
    """A gate inside the target pauses the run; afterwards the rest of the sequence stays skipped."""
    steps = Pipeline("steps", B, gate(lambda s: True), C)
    expression = Pipeline("p", A, transfer("steps"), D) >> Agent("after") >> Route("n").eq("x", steps)
    backend = script()
    first = await expression.run("hi", backend=backend)
    assert speakers(first) == ["a", "b"]
    result = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert speakers(result) == ["c", "after"]


async def test_a_condition_that_raises_is_named() -> None:
    """The message names the step and the function, and the cause is chained."""

    def ready(state: Any) -> bool:
        return state["ready"]

    with pytest.raises(PredicateError, match=r"^'to_d': its predicate 'ready' needs state key") as caught:
        await play(A >> transfer("d", condition=ready) >> ASIDE, config=ANYWAY)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_unknown_target_is_refused() -> None:
    """A target that is not in the tree is an error before anything runs, with the nearest name."""
    backend = script()
    with pytest.raises(CompileError, match=r"transfer\('writter'\): nothing .* Did you mean 'writer'\?"):
        await (Agent("writer") >> transfer("writter")).run("hi", backend=backend)
    assert backend.calls == {}


@pytest.mark.parametrize("target", ["not a name", "", "user", None])
def test_a_target_is_a_name(target: Any) -> None:
    """What cannot name an agent cannot be a target."""
    with pytest.raises(InvalidNameError):
        transfer(target)


async def test_an_endless_transfer_is_refused() -> None:
    """An unconditional transfer to the expression around it would never end, and is refused."""
    with pytest.raises(CycleError, match="Give it a condition"):
        await play(Pipeline("again", A, transfer("again")))


async def test_endless_transfers_to_and_fro_are_refused() -> None:
    """Two expressions that hand over to each other without a condition would never end either."""
    one, two = Pipeline("one", A, transfer("two")), Pipeline("two", B, transfer("one"))
    with pytest.raises(ADKFluentError, match="Give it a condition"):
        await play(Route("k").eq("x", one).otherwise(two))
