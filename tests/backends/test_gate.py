"""Gates: the run stops, a person answers, the run goes on where it stopped."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race
from adk_fluent.backends.events import RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ADKFluentError, ArgumentError, PredicateError, SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend
from tests.backends.support import ANYWAY, each, play, replies, said, script, speakers, system

A, B, C = Agent("a"), Agent("b"), Agent("c")


def always(state: Any) -> bool:
    """Approval is always required."""
    return True


ASK = gate(always, message="Send it?")


async def answer(
    expression: Expr[Any], result: RunResult[Any], reply: object = True, *, backend: MockBackend | None = None
) -> RunResult[Any]:
    """Resume with one reply to everything the run waits for."""
    return await expression.resume(
        session_id=result.session_id,
        approvals={pending.id: reply for pending in result.pending},
        backend=backend or script(),
    )


async def test_the_run_stops_and_says_what_it_waits_for() -> None:
    """The run ends at the gate with one pending approval that says who asks what."""
    result = await play(A >> ASK.named("check") >> B)
    (pending,) = result.pending
    assert (pending.agent, pending.message, pending.payload) == ("check", "Send it?", {})
    assert pending.id
    assert speakers(result) == ["a"]
    assert result.text == ""  # the answer is still to come


async def test_approval_goes_on_after_the_gate() -> None:
    """After approval the steps behind the gate run, those before it do not run again."""
    expression = A.writes("draft") >> ASK >> B.instruct("Send {draft}")
    backend = script()
    result = await answer(expression, await expression.run("hi", backend=backend), backend=backend)
    assert speakers(result) == ["b"]
    assert result.pending == []
    assert {name: len(calls) for name, calls in backend.calls.items()} == {"a": 1, "b": 1}
    assert result.state == {"draft": "ok"}


async def test_the_model_after_the_gate_sees_the_conversation() -> None:
    """The agent after the gate sees the user's message and what was said, and nothing of the approval."""
    expression = A >> ASK >> B
    backend = script({"a": "the draft"})
    await answer(expression, await expression.run("write!", backend=backend), backend=backend)
    contents = str(backend.calls["b"][0].contents)
    assert "write!" in contents
    assert "the draft" in contents
    assert "adk_request_confirmation" not in contents


async def test_refusal_ends_the_pipeline_with_a_clear_event() -> None:
    """A refused gate ends the run: the final event says what was not approved."""
    expression = A >> ASK.named("check") >> B
    result = await answer(expression, await play(expression), False)
    assert said(result) == [("check", "Not approved: Send it?")]
    assert [event.author for event in result if event.is_final] == ["check"]
    assert result.pending == []


@pytest.mark.parametrize("payload", [{"limit": 3}, "please", 0, [], {}, ""])
async def test_a_payload_approves(payload: object) -> None:
    """Any answer but `True` and `False` is a payload, and approves."""
    expression = A >> ASK >> B
    result = await answer(expression, await play(expression), payload)
    assert speakers(result) == ["b"]


async def test_none_is_no_answer() -> None:
    """`None` neither approves nor refuses: it is refused as an argument, and the run still waits."""
    expression = A >> ASK >> B
    first = await play(expression)
    with pytest.raises(ArgumentError, match="True, False or a payload"):
        await answer(expression, first, None)
    assert speakers(await answer(expression, first)) == ["b"]


async def test_a_payload_must_be_json() -> None:
    """A payload that cannot be stored is refused before anything happens."""
    expression = A >> ASK >> B
    first = await play(expression)
    with pytest.raises(ArgumentError, match="JSON"):
        await answer(expression, first, object())
    assert speakers(await answer(expression, first)) == ["b"]


async def test_a_gate_that_is_not_needed_lets_the_run_pass() -> None:
    """If the predicate does not hold, the gate does nothing."""
    result = await play(A >> gate(lambda s: False) >> B)
    assert speakers(result) == ["a", "b"]
    assert result.pending == []


async def test_the_predicate_sees_the_state() -> None:
    """The gate decides by the state at that moment."""
    expression = S.compute(sum=lambda s: s["x"] * 2) >> gate(lambda s: s["sum"] > 10) >> B
    assert (await play(expression, state={"x": 1})).pending == []
    assert len((await play(expression, state={"x": 9})).pending) == 1


async def test_a_predicate_that_raises_is_named() -> None:
    """The message names the gate and the function, and the cause is chained."""

    def needs_sum(state: Any) -> bool:
        return state["sum"] > 10

    with pytest.raises(
        PredicateError, match=r"^'check': its predicate 'needs_sum' needs state key 'sum'"
    ) as caught:
        await play(A >> gate(needs_sum).named("check"), config=ANYWAY)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_gate_alone() -> None:
    """A gate can be the whole expression, and the first or last step."""
    assert (await answer(ASK, await play(ASK))).pending == []
    last = A >> ASK
    assert speakers(await answer(last, await play(last))) == []


async def test_two_gates_in_a_row() -> None:
    """Each gate is asked for when it is reached."""
    expression = ASK.named("one") >> A >> ASK.named("two") >> B
    first = await play(expression)
    assert [pending.agent for pending in first.pending] == ["one"]
    second = await answer(expression, first)
    assert speakers(second) == ["a"]
    assert [pending.agent for pending in second.pending] == ["two"]
    third = await answer(expression, second)
    assert speakers(third) == ["b"]


async def test_a_gate_in_a_loop_asks_each_round() -> None:
    """Each round asks anew, under an id of its own, and rounds already done do not run again."""
    expression = Loop(A, ASK, S.counter("n"), max_iterations=3)
    result, ids = await play(expression), set[str]()
    for n in range(3):
        assert result.state.get("n", 0) == n
        ids.update(pending.id for pending in result.pending)
        result = await answer(expression, result)
    assert len(ids) == 3
    assert result.pending == []
    assert result.state == {"n": 3}


async def test_refusal_in_a_loop_ends_the_pipeline() -> None:
    """Refusing in a loop ends the loop and what would follow it."""
    expression = Loop(ASK, S.counter("n"), max_iterations=3) >> B
    second = await answer(expression, await play(expression))
    result = await answer(expression, second, False)
    assert result.state == {"n": 1}
    assert "b" not in speakers(result)
    assert result.pending == []


async def test_a_gate_in_a_loop_until_it_is_not_needed() -> None:
    """`until` is tested after a round that was paused as after any other."""
    expression = Loop(S.counter("n"), gate(lambda s: s["n"] == 2)).until(lambda s: s["n"] == 3) >> A
    first = await play(expression)
    assert first.state == {"n": 2}
    result = await answer(expression, first)
    assert result.state == {"n": 3}
    assert speakers(result) == ["a"]


TWO = FanOut(
    "fan",
    Pipeline("left", ASK.named("one"), A.writes("x")),
    Pipeline("right", ASK.named("two"), B.writes("y")),
    C,
)


async def test_two_gates_pending_at_once() -> None:
    """Gates in two branches both ask, and the branches without one finish."""
    result = await play(TWO >> Agent("after"))
    assert sorted(pending.agent for pending in result.pending) == ["one", "two"]
    assert speakers(result) == ["c"]


async def test_two_gates_answered_together() -> None:
    """Both branches go on, the finished one does not run again, and then the next step runs."""
    expression = TWO >> Agent("after")
    backend = script()
    result = await answer(expression, await expression.run("hi", backend=backend), backend=backend)
    assert sorted(speakers(result)[:2]) == ["a", "b"]
    assert speakers(result)[2:] == ["after"]
    assert result.pending == []
    assert {name: len(calls) for name, calls in backend.calls.items()} == {"a": 1, "b": 1, "c": 1, "after": 1}


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
async def test_two_gates_answered_one_at_a_time(order: tuple[str, str]) -> None:
    """After the first answer the other gate is still pending; the next step runs after the second."""
    expression = TWO >> Agent("after")
    backend = script()
    first = await expression.run("hi", backend=backend)
    ids = {pending.agent: pending.id for pending in first.pending}
    second = await expression.resume(
        session_id=first.session_id, approvals={ids[order[0]]: True}, backend=backend
    )
    assert [(pending.agent, pending.id) for pending in second.pending] == [(order[1], ids[order[1]])]
    assert speakers(second) == [{"one": "a", "two": "b"}[order[0]]]
    third = await answer(expression, second, backend=backend)
    assert speakers(third)[1:] == ["after"]
    assert {name: len(calls) for name, calls in backend.calls.items()} == {"a": 1, "b": 1, "c": 1, "after": 1}


async def test_one_of_two_gates_refused() -> None:
    """Refusing one branch lets the other finish, and ends the pipeline after the fan-out."""
    expression = TWO >> Agent("after")
    first = await play(expression)
    ids = {pending.agent: pending.id for pending in first.pending}
    result = await expression.resume(
        session_id=first.session_id, approvals={ids["one"]: False, ids["two"]: True}, backend=script()
    )
    assert sorted(speakers(result)) == ["b", "one"]
    assert result.pending == []


async def test_refused_first_and_approved_later() -> None:
    """A refusal given while another gate is pending still ends the pipeline once that one is answered."""
    expression = TWO >> Agent("after")
    first = await play(expression)
    ids = {pending.agent: pending.id for pending in first.pending}
    second = await expression.resume(
        session_id=first.session_id, approvals={ids["one"]: False}, backend=script()
    )
    assert [pending.agent for pending in second.pending] == ["two"]
    third = await answer(expression, second)
    assert speakers(third) == ["b"]
    assert third.pending == []


@pytest.mark.parametrize(
    "wrap",
    each(
        lambda body: Pipeline("p", body),
        lambda body: Route().when(lambda s: True, body),
        lambda body: body.timeout(60),
        lambda body: body // C,
        lambda body: body.proceed_if(always),
        lambda body: Pipeline("p", Pipeline("q", Route().when(lambda s: True, body.timeout(60)))),
        lambda body: Loop("l", body, max_iterations=1),
        lambda body: FanOut("f", body),
        lambda body: race(body, Agent("fails")),
        lambda body: FanOut("f", Loop("l", Route().when(lambda s: True, body // C), max_iterations=1)),
    ),
)
async def test_a_gate_inside_other_composites(wrap: Any) -> None:
    """Wherever the gate stands, the run pauses there and goes on behind it, once."""
    expression = Agent("before") >> wrap(Pipeline("body", A, ASK, B)) >> Agent("after")
    backend = script({"fails": RuntimeError("no")})
    first = await expression.run("hi", backend=backend)
    assert speakers(first) == ["before", "a"]
    assert len(first.pending) == 1
    result = await answer(expression, first, backend=backend)
    assert speakers(result) == ["b", "after"]
    assert result.pending == []
    assert len(backend.calls["before"]) == len(backend.calls["a"]) == 1


async def test_a_route_keeps_its_choice_over_a_pause() -> None:
    """The branch that was chosen goes on, even if the state would now choose another."""
    branch = S.set(k="other") >> ASK >> A
    expression = Route("k").eq("x", branch).otherwise(B)
    first = await play(expression, state={"k": "x"})
    assert speakers(await answer(expression, first)) == ["a"]


async def test_a_new_message_leaves_the_pending_run_alone() -> None:
    """A new run in the same session starts from the beginning and has its own approval."""
    expression = A >> ASK >> B
    first = await play(expression, session_id="gate-twice")
    second = await play(expression, session_id="gate-twice")
    assert speakers(second) == ["a"]
    assert len(second.pending) == 1
    assert second.pending[0].id != first.pending[0].id
    assert speakers(await answer(expression, second)) == ["b"]


async def test_an_unknown_approval_is_refused() -> None:
    """Answering what nobody asked is an error that lists what is asked."""
    expression = A >> ASK >> B
    first = await play(expression)
    with pytest.raises(SessionError, match=f"does not wait for 'nope'; it waits for '{first.pending[0].id}'"):
        await expression.resume(session_id=first.session_id, approvals={"nope": True})


async def test_an_approval_can_be_given_once() -> None:
    """After it was answered the run does not wait for it any more."""
    expression = A >> ASK >> B
    first = await play(expression)
    await answer(expression, first)
    with pytest.raises(SessionError, match="it waits for nothing"):
        await answer(expression, first)


async def test_no_approval_is_refused() -> None:
    """`resume` without an answer is an error that lists what is asked."""
    expression = A >> ASK >> B
    first = await play(expression)
    with pytest.raises(SessionError, match="needs approvals"):
        await expression.resume(session_id=first.session_id, approvals={})


async def test_approvals_of_two_runs_are_refused() -> None:
    """One `resume` goes on with one run; approvals of two are an error that says so."""
    expression = A >> ASK >> B
    first = await play(expression, session_id="two-runs")
    second = await play(expression, session_id="two-runs")
    with pytest.raises(SessionError, match="belong to different runs"):
        await expression.resume(
            session_id="two-runs", approvals={first.pending[0].id: True, second.pending[0].id: True}
        )


async def test_resume_in_an_unknown_session() -> None:
    """Resuming a session that does not exist is an error that names it."""
    with pytest.raises(SessionError, match="There is no session 'nowhere' of user 'user'"):
        await (A >> ASK).resume(session_id="nowhere", approvals={"x": True})


async def test_ask_says_that_the_run_waits() -> None:
    """`ask_async` cannot give an answer that a person must approve first: it raises, naming the gate."""
    with pytest.raises(ADKFluentError, match="'check' waits for approval: Send it"):
        await (A >> ASK.named("check") >> B).ask_async("hi", backend=script())


async def test_a_run_that_cannot_be_resumed_stops_too() -> None:
    """With `resumable=False` nothing behind the gate runs unapproved, and `resume` says why not."""
    expression = A >> ASK >> B
    config = ExecutionConfig(resumable=False)
    first = await play(expression, config=config)
    assert speakers(first) == ["a"]
    assert len(first.pending) == 1
    with pytest.raises(SessionError, match="resumable"):
        await expression.resume(
            session_id=first.session_id, approvals={first.pending[0].id: True}, config=config
        )


async def test_gates_in_the_items_of_a_map() -> None:
    """Each item asks for itself, and answers keep their order whatever order they are given in."""
    body = gate(lambda s: s["_item"] > 1, message="big") >> A.instruct("{_item}")
    expression = map_over("items", body)
    backend = script({"a": replies(lambda request: "did " + system(request)[0])})
    first = await expression.run("hi", backend=backend, state={"items": [1, 2, 3]})
    assert len(first.pending) == 2
    assert "results" not in first.state
    second = await expression.resume(
        session_id=first.session_id, approvals={first.pending[1].id: True}, backend=backend
    )
    assert [pending.id for pending in second.pending] == [first.pending[0].id]
    third = await answer(expression, second, backend=backend)
    assert third.state["results"] == ["did 1", "did 2", "did 3"]
    assert len(backend.calls["a"]) == 3


@pytest.mark.parametrize("message", [None, 3, b"x"])
def test_a_message_is_text(message: Any) -> None:
    """The message of a gate is text."""
    with pytest.raises(ArgumentError, match="takes text"):
        gate(always, message=message)
