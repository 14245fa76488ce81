"""Fallbacks: what counts as a failure, what is shown of it, what stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse
from pydantic import BaseModel

from adk_fluent import Agent, Pipeline, Route, S, map_over, tap
from adk_fluent.errors import AgentTimeoutError, RunError, StateGuardError
from adk_fluent.expr.base import Expr
from tests.backends.support import Hang, failing, play, raises_from, reply, said, script, speakers
from tests.clock import without_pauses

A, B, C = Agent("a"), Agent("b"), Agent("c")


class Size(BaseModel):
    size: int


async def test_the_second_does_not_run_when_the_first_succeeds() -> None:
    """Only as many alternatives run as are needed."""
    backend = script({"a": "fine"})
    result = await (A // B).run("hi", backend=backend)
    assert said(result) == [("a", "fine")]
    assert backend.calls["b"] == []


@pytest.mark.parametrize(
    "problem", [RuntimeError("down"), ValueError, failing(), LlmResponse(error_code="429")]
)
async def test_a_failure_lets_the_next_one_run(problem: Any) -> None:
    """An exception and an event that reports an error both count as failures."""
    result = await play(A // B, {"a": problem, "b": "rescued"})
    assert result.text == "rescued"
    assert speakers(result) == ["b"]


async def test_an_error_without_a_code_is_a_failure() -> None:
    """An event that has only an error message counts as a failure too."""
    result = await play(A // B, {"a": reply("half", error_message="odd"), "b": "rescued"})
    assert result.text == "rescued"


async def test_several_failures_in_a_row() -> None:
    """Alternatives are tried in order until one succeeds."""
    result = await play(A // B // C, {"a": RuntimeError("1"), "b": failing(), "c": "third"})
    assert said(result) == [("c", "third")]


async def test_all_failing_raises_the_last_error() -> None:
    """When every alternative raises, the caller gets the last error, with what raised it as the cause."""
    last = ValueError("last")
    with raises_from(ValueError, match="last") as caught:
        await play(A // B, {"a": RuntimeError("first"), "b": last})
    assert caught.value.__cause__ is last


async def test_all_failing_by_events_gives_the_last_event() -> None:
    """When the last alternative reports an error instead of raising, that event is given."""
    with pytest.raises(RunError, match="'b' gave no answer but an error: TWO: still no") as caught:
        await play(A // B, {"a": failing("ONE"), "b": failing("TWO", "still no")})
    assert caught.value.result is not None
    assert caught.value.result[-1].error == "TWO: still no"
    assert caught.value.result.text == ""


async def test_text_of_a_failed_branch_is_not_the_answer() -> None:
    """What a branch said before it failed is neither `.text` nor `.output`."""
    result = await play(Pipeline("p", A, B) // C, {"a": "half an answer", "b": RuntimeError("no"), "c": ""})
    assert ("a", "half an answer") in said(result)
    assert result.text == ""
    assert result.output == ""


async def test_text_before_an_error_event_is_not_the_answer() -> None:
    """A branch that said something and then reports an error is withdrawn too."""
    result = await play(Pipeline("p", A, B) // S.set(x=1), {"a": "half", "b": failing()})
    assert result.text == ""
    assert result.state == {"x": 1}


async def test_an_answer_with_an_error_is_withdrawn() -> None:
    """One event may hold text and an error at once, as when a filter cuts an answer off; it is a failure."""
    cut = reply("half", error_code="SAFETY", error_message="cut")
    result = await play(A // B, {"a": cut, "b": "whole"})
    assert result.text == "whole"
    assert (await play(A // S.set(x=1), {"a": cut})).text == ""


async def test_an_answer_cut_at_the_token_limit_is_an_answer() -> None:
    """A model that was given few tokens and used them all did not fail."""
    result = await play(A // B, {"a": reply("short", error_code="MAX_TOKENS", error_message="cut")})
    assert result.text == "short"
    assert speakers(result) == ["a"]


async def test_text_before_the_fallback_stays_the_answer() -> None:
    """Only the failed branch's words are withdrawn, not those from before."""
    result = await play(C >> (A // S.set(x=1)), {"a": RuntimeError("no"), "c": "before"})
    assert result.text == "before"


SILENT: dict[str, tuple[Expr[Any], Any]] = {
    "a transform": (S.set(x=1).named("a"), "ok"),
    "a look": (Pipeline("p", tap(lambda state: None)), "ok"),
    "an empty answer": (A, ""),
    "an answer without content": (A, LlmResponse()),
    "a skipped agent": (A.proceed_if(lambda state: False), "ok"),
    "a route that matches nothing": (Route("k").eq(1, A), "ok"),
    "a map over nothing": (S.set(items=[]) >> map_over("items", A), "ok"),
}
"""Branches that say nothing, and what their agent's model says."""


@pytest.mark.parametrize("kind", SILENT)
async def test_a_branch_that_says_nothing_did_not_fail(kind: str) -> None:
    """Only a failure lets the next alternative run; a branch may do its work without a word."""
    silent, response = SILENT[kind]
    backend = script({"a": response, "b": "not needed"})
    result = await (silent // B).run("hi", backend=backend)
    assert (said(result), result.text, backend.calls["b"]) == ([], "", [])
    assert not any("adk_fluent.failed" in event.metadata for event in result)


@pytest.mark.parametrize("kind", SILENT)
async def test_a_branch_that_says_nothing_may_come_to_the_rescue(kind: str) -> None:
    """A last alternative that says nothing ends the run well; what the failed one said is no answer."""
    silent, response = SILENT[kind]
    failed = Pipeline("failed", B, C)
    result = await play(failed // silent, {"a": response, "b": "half", "c": RuntimeError("down")})
    assert (said(result), result.text) == ([("b", "half")], "")
    assert [e.metadata["adk_fluent.failed"] for e in result if "adk_fluent.failed" in e.metadata] == [
        {"failed": "RuntimeError: down"}
    ]


async def test_state_of_a_failed_branch_stays() -> None:
    """What a failed branch wrote before it failed was stored and is there for the next one."""
    result = await play((S.set(tried="a") >> A) // B.instruct("{tried}"), {"a": RuntimeError("no")})
    assert result.state == {"tried": "a"}


async def test_the_failed_branch_is_named_in_the_events() -> None:
    """An event of the fallback says which branch failed and why."""
    result = await play(A // B, {"a": RuntimeError("down")})
    assert [e.metadata["adk_fluent.failed"] for e in result if "adk_fluent.failed" in e.metadata] == [
        {"a": "RuntimeError: down"}
    ]


@without_pauses
async def test_a_timeout_is_a_failure() -> None:
    """An alternative that takes too long is cancelled and the next one runs."""
    hang = Hang()
    result = await play(A.timeout(0.01) // B, {"a": hang, "b": "quick"})
    assert result.text == "quick"
    assert hang.ended == ["CancelledError"]


@without_pauses
async def test_the_last_timeout_is_raised() -> None:
    """A timeout of the last alternative reaches the caller."""
    with pytest.raises(AgentTimeoutError, match="'b'"):
        await play(A // B.timeout(0.01), {"a": RuntimeError("no"), "b": Hang()})


async def test_a_guard_is_a_failure() -> None:
    """A transform that refuses the state makes the next alternative run."""
    check = S.guard(lambda s: s["size"] > 3, "too small")
    result = await play((S.set(size=1) >> check >> A) // B, {"b": "rescued"})
    assert speakers(result) == ["b"]
    with pytest.raises(StateGuardError, match="too small"):
        await play(A // (S.set(size=1) >> check), {"a": RuntimeError("no")})


async def test_an_answer_that_is_not_what_was_promised_is_a_failure() -> None:
    """An answer that does not fit the schema it is stored under lets the next one run."""
    expression = (A @ Size).writes("size") // (B @ Size).writes("size")
    result = await play(expression, {"a": "no json", "b": {"size": 3}})
    assert result.output == Size(size=3)
    assert result.state == {"size": {"size": 3}}


async def test_cancelling_is_not_a_failure() -> None:
    """Cancelling the run does not start the next alternative."""
    hang = Hang()
    backend = script({"a": hang})
    task = asyncio.ensure_future((A // B).run("hi", backend=backend))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.calls["b"] == []


async def test_a_fallback_in_a_branch_of_a_fan_out() -> None:
    """A failing alternative in one branch does not disturb the sibling."""
    result = await play((A // B) | C, {"a": RuntimeError("no")})
    assert sorted(speakers(result)) == ["b", "c"]


async def test_nested_fallbacks() -> None:
    """A fallback that fails as a whole makes the outer one go on."""
    inner = Pipeline("inner", A // B)
    result = await play(inner // C, {"a": RuntimeError("1"), "b": RuntimeError("2"), "c": "outer"})
    assert result.text == "outer"


async def test_an_empty_session_text_after_streaming_a_failed_branch() -> None:
    """Pieces that a failed branch streamed do not become the answer."""

    async def half(request: Any) -> Any:
        yield "half "
        raise RuntimeError("cut")

    events = [event async for event in (A // B).stream("hi", backend=script({"a": half, "b": "whole"}))]
    assert "half " in [event.content for event in events if event.is_partial]
    assert said(events) == [("b", "whole")]
