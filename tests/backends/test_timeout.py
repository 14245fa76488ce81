"""Timeouts: our error, at once, and never in place of the child's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse

from adk_fluent import Agent, FanOut, Pipeline, S
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ADKFluentError, AgentTimeoutError, ArgumentError
from tests.backends.support import Hang, PlainLlm, play, raises_from, reply, said, speakers
from tests.clock import without_pauses

A, B = Agent("a"), Agent("b")
SOON = 0.01


@without_pauses
async def test_the_error_names_the_agent_and_the_seconds() -> None:
    """The message says who was too slow, how long it had, and what to do."""
    with pytest.raises(AgentTimeoutError) as caught:
        await play(A.timeout(SOON), {"a": Hang()})
    assert str(caught.value) == (
        "'a' did not finish within 0.01 seconds and was cancelled. Give it more time with .timeout(seconds), "
        "or a fallback with //."
    )
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ADKFluentError)
    assert caught.value.__cause__ is None


@without_pauses
async def test_the_model_call_is_cancelled() -> None:
    """The call that was too slow is over when the error is raised."""
    hang = Hang()
    with pytest.raises(AgentTimeoutError):
        await play(A.timeout(SOON), {"a": hang})
    assert hang.ended == ["CancelledError"]


@without_pauses
async def test_a_model_of_ones_own_is_cancelled() -> None:
    """The same holds for a `BaseLlm` that the user wrote."""
    ended: list[str] = []

    async def answer(request: Any) -> AsyncGenerator[LlmResponse, None]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("over")
        yield reply("")

    with pytest.raises(AgentTimeoutError):
        await Agent("own", PlainLlm.of(answer)).timeout(SOON).run("hi")
    assert ended == ["over"]


async def test_the_childs_own_timeout_error_passes_through() -> None:
    """A `TimeoutError` that the child raises itself is not turned into ours."""
    own = TimeoutError("the database was slow")
    with raises_from(TimeoutError) as caught:
        await play(A.timeout(60), {"a": own})
    assert caught.value.__cause__ is own


async def test_the_childs_own_error_passes_through() -> None:
    """Any other error of the child is told as without a timeout."""
    own = ValueError("own")
    with raises_from(ValueError, match="own") as caught:
        await play(A.timeout(60), {"a": own})
    assert caught.value.__cause__ is own


async def test_in_time_is_as_without_a_timeout() -> None:
    """A child that is quick enough gives the same events."""
    assert said(await play(A.timeout(60) >> B)) == [("a", "ok"), ("b", "ok")]


@without_pauses
async def test_the_limit_is_for_the_whole_expression() -> None:
    """All steps together have the seconds; the first may finish and the second be cut."""
    hang = Hang()
    with pytest.raises(AgentTimeoutError, match="'steps' did not finish"):
        await play(Pipeline("steps", A, B).timeout(SOON), {"b": hang})
    assert hang.ended == ["CancelledError"]


@without_pauses
async def test_state_written_before_the_timeout_stays() -> None:
    """Steps that finished in time keep what they wrote."""
    with pytest.raises(AgentTimeoutError):
        await play((S.set(x=1) >> A).timeout(SOON), {"a": Hang()}, session_id="timed-out")
    assert (await play(B, session_id="timed-out")).state == {"x": 1}


@without_pauses
async def test_the_inner_of_two_timeouts_is_named() -> None:
    """With two limits around one agent, the shorter one is reported."""
    with pytest.raises(AgentTimeoutError, match=r"'a' did not finish within 0\.01 seconds"):
        await play(Pipeline("p", A.timeout(SOON)).timeout(60), {"a": Hang()})


@without_pauses
async def test_the_outer_of_two_timeouts_is_named() -> None:
    """When the outer limit is shorter, it is the outer expression that is reported."""
    with pytest.raises(AgentTimeoutError, match=r"'p' did not finish within 0\.01 seconds"):
        await play(Pipeline("p", A.timeout(60)).timeout(SOON), {"a": Hang()})


@without_pauses
async def test_a_timeout_inside_a_fan_out_cancels_the_siblings() -> None:
    """A branch that is too slow fails the fan-out, and the sibling is cancelled."""
    hang = Hang()
    with pytest.raises(AgentTimeoutError, match="'a'"):
        await play(FanOut(A.timeout(SOON), B), {"a": Hang(), "b": hang})
    assert hang.ended == ["CancelledError"]


@without_pauses
async def test_a_timeout_around_a_fan_out_cancels_all_branches() -> None:
    """A limit on a fan-out cancels every branch."""
    hangs = [Hang(), Hang()]
    with pytest.raises(AgentTimeoutError, match="'fan'"):
        await play(FanOut("fan", A, B).timeout(SOON), {"a": hangs[0], "b": hangs[1]})
    assert [hang.ended for hang in hangs] == [["CancelledError"]] * 2


async def test_cancelling_the_run_is_not_a_timeout() -> None:
    """Cancelling a run inside a timeout raises `CancelledError`, not our error."""
    hang = Hang()
    task = asyncio.ensure_future(play(A.timeout(60), {"a": hang}))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@without_pauses
async def test_the_whole_run_can_have_a_limit() -> None:
    """`ExecutionConfig(timeout_seconds=)` limits the run and names its root."""
    hang = Hang()
    with pytest.raises(AgentTimeoutError, match=r"'support' did not finish within 0\.01 seconds"):
        await play(Pipeline("support", A, B), {"b": hang}, config=ExecutionConfig(timeout_seconds=SOON))
    assert hang.ended == ["CancelledError"]


async def test_a_timeout_can_be_used_again() -> None:
    """A limit starts anew in each round of a loop."""
    assert speakers(await play(A.timeout(60) * 3)) == ["a"] * 3


@pytest.mark.parametrize("seconds", [0, -1, True, "3", None, float("nan")])
def test_wrong_seconds_are_refused(seconds: Any) -> None:
    """A limit is a positive number."""
    with pytest.raises(ArgumentError, match="positive number"):
        A.timeout(seconds)
