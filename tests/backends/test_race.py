"""Races: the first success wins, and nothing of the losers is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, Pipeline, S, race
from adk_fluent.errors import ExpressionError, RunError
from tests.backends.support import Hang, failing, play, raises_from, said, script, seen, speakers

A, B, C = Agent("a"), Agent("b"), Agent("c")


def after(*hangs: Hang, text: str = "won") -> Any:
    """A response that comes only when all these hang."""

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        for hang in hangs:
            await hang.started.wait()
        yield text

    return answer


async def test_the_first_success_wins_and_the_losers_are_cancelled() -> None:
    """Only the winner's events are given, and the losers' model calls are really cancelled."""
    slow, slower = Hang(), Hang()
    result = await play(race(A, B, C), {"a": slow, "b": after(slow, slower), "c": slower})
    assert said(result) == [("b", "won")]
    assert slow.ended == slower.ended == ["CancelledError"]


async def test_nothing_of_a_loser_is_in_the_session() -> None:
    """Neither text nor state of a loser reaches the session, even what it did before it lost."""
    hang = Hang()
    loser = Pipeline("loser", S.set(lost=1), Agent("talker").writes("talk"), A)
    winner = Pipeline("winner", S.set(won=1), B)
    service = InMemorySessionService()
    result = await play(race(loser, winner), {"a": hang, "b": after(hang)}, session_service=service)
    assert result.state == {"won": 1}
    session = await service.get_session(
        app_name="adk_fluent_app", user_id="user", session_id=result.session_id
    )
    assert session is not None
    assert {event.author for event in session.events} == {"user", "set_2", "b"}


async def test_a_failing_branch_does_not_win() -> None:
    """A branch that raises, or reports an error, loses against a slower success."""
    result = await play(race(A, B, C), {"a": RuntimeError("no"), "b": failing(), "c": "fine"})
    assert said(result) == [("c", "fine")]


async def test_all_failing_raises_the_first_branchs_error() -> None:
    """When all branches raise, the caller gets the first branch's error."""
    first = ValueError("first")
    with raises_from(ValueError, match="first") as caught:
        await play(race(A, B), {"a": first, "b": RuntimeError("second")})
    assert caught.value.__cause__ is first


async def test_an_exception_goes_before_an_error_event() -> None:
    """When one branch raised and another only reported an error, the exception is raised."""
    with raises_from(RuntimeError, match="raised"):
        await play(race(A, B), {"a": failing(), "b": RuntimeError("raised")})


async def test_all_failing_by_events_gives_the_first_branchs_event() -> None:
    """When all branches only report errors, the first branch's event is given."""
    with pytest.raises(RunError, match="'a' gave no answer but an error: ONE: blocked") as caught:
        await play(race(A, B), {"a": failing("ONE"), "b": failing("TWO")})
    assert caught.value.result is not None
    assert [event.error for event in caught.value.result] == ["ONE: blocked"]


async def test_cancelling_cancels_every_branch() -> None:
    """Cancelling the run cancels all model calls of the race."""
    hangs = [Hang(), Hang()]
    task = asyncio.ensure_future(play(race(A, B), {"a": hangs[0], "b": hangs[1]}))
    for hang in hangs:
        await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [hang.ended for hang in hangs] == [["CancelledError"]] * 2


async def test_a_branch_cancelled_inside_only_loses() -> None:
    """A `CancelledError` that comes from inside one branch is a failure of that branch."""

    async def cancelled(request: LlmRequest) -> AsyncIterator[str]:
        raise asyncio.CancelledError("the client gave up")
        yield ""

    assert said(await play(race(A, B), {"a": cancelled, "b": "fine"})) == [("b", "fine")]


async def test_a_branch_reads_its_own_writes() -> None:
    """A branch of several steps sees what its earlier steps wrote and said."""
    branch = Pipeline("p", S.set(x=1), S.compute(y=lambda s: s["x"] + 1), A, B.instruct("y is {y}"))
    hang = Hang()
    backend = script({"a": "first words", "c": hang})
    result = await race(branch, C).run("hi", backend=backend)
    assert result.state == {"x": 1, "y": 2}
    assert "first words" in seen(backend.calls["b"][0])


async def test_branches_do_not_see_each_others_writes() -> None:
    """What one branch writes is not there for the other."""
    hang = Hang()
    one = Pipeline("one", S.set(shared="one"), A)
    two = Pipeline("two", S.compute(saw=lambda s: s.get("shared", "nothing")), B)
    result = await play(race(one, two), {"a": hang, "b": after(hang)})
    assert result.state == {"saw": "nothing"}


async def test_the_step_after_sees_the_winner_only() -> None:
    """The next agent's conversation holds the winner's words and nobody else's."""
    hang = Hang()
    backend = script({"a": hang, "b": after(hang, text="from b")})
    await (race(Pipeline("p", Agent("t"), A), B) >> C).run("hi", backend=backend)
    assert "from b" in seen(backend.calls["c"][0])
    assert "[t]" not in seen(backend.calls["c"][0])


async def test_temporary_state_of_the_winner_is_there_afterwards() -> None:
    """A `temp:` key that the winner wrote can be read by the next step of the run."""
    winner = S.set(**{"temp:x": "T"}) >> A
    result = await play(race(winner, winner.named("again")) >> S.compute(got=lambda s: s.get("temp:x")))
    assert result.state["got"] == "T"


async def test_a_race_in_a_loop() -> None:
    """A race can run again and again."""
    assert speakers(await play(race(A, A.named("z")) * 2, {"z": Hang()})) == ["a", "a"]


async def test_a_race_in_a_fan_out_branch() -> None:
    """The race's branches lie below the branch it stands in."""
    result = await play((race(A, B) | C).named("fan"), {"b": Hang()})
    assert {event.author: event.branch for event in result} == {"a": "fan.race.race.a", "c": "fan.c"}


async def test_a_step_after_a_race_in_a_branch_sees_the_winner() -> None:
    """Also inside a branch of a fan-out, the step behind a race sees what the winner said."""
    backend = script({"a": "from a", "b": Hang(), "other": "of the sibling"})
    branch = race(A, B) >> C
    await (branch | Agent("other")).run("hi", backend=backend)
    text = seen(backend.calls["c"][0])
    assert "from a" in text
    assert "of the sibling" not in text


async def test_leaving_the_stream_early() -> None:
    """Closing the stream while the race runs cancels its branches."""
    hang = Hang()
    expression = Agent("before") >> race(A, B)
    async with aclosing(expression.stream("hi", backend=script({"a": hang, "b": hang}))) as events:
        task = asyncio.ensure_future(_drain(events))
        await hang.started.wait()
        task.cancel()
        await asyncio.wait([task])
    assert hang.ended == ["CancelledError"] * 2


async def _drain(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


@pytest.mark.parametrize("branches", [(), (A,)])
def test_a_race_needs_two(branches: Any) -> None:
    """A race of fewer than two expressions is refused."""
    with pytest.raises(ExpressionError, match="at least two"):
        race(*branches)
