"""Fan-outs: branches of their own, back-pressure, errors and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.tool_context import ToolContext

from adk_fluent import Agent, FanOut, Loop, Pipeline, S, gate, map_over, race
from adk_fluent.errors import ExpressionError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from tests.backends.support import Hang, play, raises_from, said, script, seen, speakers

A, B, C = Agent("a"), Agent("b"), Agent("c")


async def test_all_branches_run_and_the_next_step_follows() -> None:
    """A fan-out is done when all branches are, and only then the next step runs."""
    result = await play((A | B) >> C)
    assert sorted(speakers(result)[:2]) == ["a", "b"]
    assert speakers(result)[2:] == ["c"]


async def test_branches_run_at_the_same_time() -> None:
    """Two branches that each wait for the other to start both finish."""
    started = {name: asyncio.Event() for name in "ab"}

    def meet(own: str, other: str) -> Any:
        async def answer(request: LlmRequest) -> AsyncIterator[str]:
            started[own].set()
            await started[other].wait()
            yield own

        return answer

    result = await play(A | B, {"a": meet("a", "b"), "b": meet("b", "a")})
    assert sorted(said(result)) == [("a", "a"), ("b", "b")]


async def test_each_branch_has_its_own_conversation_branch() -> None:
    """The events of two branches carry different branch names, below that of the fan-out."""
    result = await play(FanOut("fan", A, B))
    assert {event.author: event.branch for event in result} == {"a": "fan.a", "b": "fan.b"}


async def test_siblings_do_not_see_each_other() -> None:
    """The second step of one branch sees the first step of its own branch, never that of the sibling."""
    left = Pipeline("left", Agent("a1"), Agent("a2"))
    right = Pipeline("right", Agent("b1"), Agent("b2"))
    backend = script({"a1": "secret of a", "b1": "secret of b"})
    await (C >> (left | right)).run("hi", backend=backend)
    for name, own, other in (("a2", "secret of a", "secret of b"), ("b2", "secret of b", "secret of a")):
        text = seen(backend.calls[name][0])
        assert own in text
        assert other not in text
        assert "hi" in text


async def test_the_step_after_sees_all_branches() -> None:
    """What all branches said is in the conversation of the step that follows."""
    backend = script({"a": "from a", "b": "from b"})
    await ((A | B) >> C).run("hi", backend=backend)
    text = seen(backend.calls["c"][0])
    assert "from a" in text
    assert "from b" in text


async def test_nested_fan_outs_nest_their_branches() -> None:
    """A fan-out in a branch of another puts its branches below that one."""
    inner = FanOut("inner", B, C)
    result = await play(FanOut("outer", A, Pipeline("side", inner)))
    assert {event.author: event.branch for event in result} == {
        "a": "outer.a",
        "b": "outer.side.inner.b",
        "c": "outer.side.inner.c",
    }


async def test_state_of_all_branches_is_kept() -> None:
    """Every branch's writes are in the state afterwards."""
    result = await play(FanOut(A.writes("x"), B.writes("y"), S.set(z=3) >> C))
    assert result.state == {"x": "ok", "y": "ok", "z": 3}


async def test_a_branch_goes_on_only_after_its_event_was_stored() -> None:
    """A step in a branch reads what the step before it wrote, for each of many branches."""

    def branch(n: int) -> Expr[Any]:
        def double(state: Any) -> dict[str, int]:
            return {f"r{n}": state[f"k{n}"] * 2}

        return Pipeline(f"p{n}", S.set(**{f"k{n}": n}), double)

    branches = [branch(n) for n in range(8)]
    result = await play(FanOut("many", *branches) >> A)
    assert {key: value for key, value in result.state.items() if key[0] == "r"} == {
        f"r{n}": n * 2 for n in range(8)
    }


async def test_a_branch_waits_while_its_event_is_not_taken() -> None:
    """While the caller holds an event, the branch it came from does not go on."""
    ran: list[str] = []

    def note(state: Any) -> None:
        ran.append("one went on")

    expression = FanOut("fan", Pipeline("one", S.set(x=1), note))
    async with aclosing(expression.stream("hi")) as events:
        async for event in events:
            assert event.state_delta == {"x": 1}
            assert ran == []
    assert ran == ["one went on"]


async def test_a_branch_error_is_raised() -> None:
    """What one branch raises reaches the caller, as the cause of an error that names its agent."""
    problem = ValueError("branch")
    with raises_from(ValueError, match="branch") as caught:
        await play(A | B, {"b": problem})
    assert caught.value.__cause__ is problem


async def test_an_error_cancels_the_model_calls_of_the_siblings() -> None:
    """When one branch fails, the model calls of the others are cancelled before the error is raised."""
    hang = Hang()

    async def fail_once_it_hangs(request: LlmRequest) -> AsyncIterator[str]:
        await hang.started.wait()
        raise ValueError("branch")
        yield ""

    with raises_from(ValueError, match="branch"):
        await play(A | B | C, {"a": hang, "b": fail_once_it_hangs})
    assert hang.ended == ["CancelledError"]


async def test_a_branch_that_is_cancelled_inside_ends_the_run() -> None:
    """A `CancelledError` that a library raises inside one branch ends the run; nothing waits for ever."""

    async def cancelled(request: LlmRequest) -> AsyncIterator[str]:
        raise asyncio.CancelledError("a task of the client was cancelled")
        yield ""

    with pytest.raises(asyncio.CancelledError):
        await play(A | B, {"a": cancelled})


async def test_closing_the_stream_cancels_all_branches() -> None:
    """A caller that leaves early cancels every branch's model call."""
    hangs = [Hang(), Hang()]
    backend = script({"a": hangs[0], "b": hangs[1]})
    async with aclosing((FanOut(A, B, C)).stream("hi", backend=backend)) as events:
        async for event in events:
            assert event.author == "c"
            for hang in hangs:
                await hang.started.wait()
            break
    assert [hang.ended for hang in hangs] == [["CancelledError"], ["CancelledError"]]


async def test_cancelling_the_run_cancels_all_branches() -> None:
    """Cancelling the task of a run cancels the model calls of all branches."""
    hangs = [Hang(), Hang()]
    task = asyncio.ensure_future(play(A | B, {"a": hangs[0], "b": hangs[1]}))
    for hang in hangs:
        await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [hang.ended for hang in hangs] == [["CancelledError"], ["CancelledError"]]


async def test_one_agent_in_two_branches() -> None:
    """The same agent can be in two branches; each use has its own name and branch."""
    result = await play(FanOut("fan", A, A))
    assert {event.author: event.branch for event in result} == {"a": "fan.a", "a_2": "fan.a_2"}
    assert len(result.by("a")) == 2


async def test_the_last_write_to_a_shared_key_stays() -> None:
    """Two branches may write one key; the one that comes last wins, and nothing fails."""
    result = await play((A.writes("k") | B.writes("k")) >> C, {"a": "from a", "b": "from b"})
    last = [event.state_delta["k"] for event in result if "k" in event.state_delta][-1]
    assert result.state["k"] == last


async def test_an_empty_fan_out_is_refused() -> None:
    """A fan-out that never got a branch is an error that names it."""
    with pytest.raises(ExpressionError, match="'f' is empty"):
        await play(FanOut("f"))


async def test_a_fan_out_of_one_branch() -> None:
    """One branch alone is fine."""
    assert speakers(await play(FanOut("f", A))) == ["a"]


def stop(tool_context: ToolContext) -> str:
    """Say that it is over."""
    tool_context.actions.escalate = True
    return "over"


ENDER = Agent("ender").tool(stop)
ENDED: dict[str, Expr[Any]] = {
    "branch": FanOut("fan", A, ENDER) >> C,
    "in a sequence": FanOut("fan", A, Pipeline("p", B, ENDER, Agent("never"))) >> C,
    "inner fan-out": FanOut("outer", FanOut("inner", A, ENDER) >> B, Agent("beside")) >> C,
    "in a map": map_over("items", FanOut("fan", A, ENDER)) >> C,
    "in a race": race(FanOut("fan", A, ENDER), A.named("a_2")) >> C,
}


@pytest.mark.parametrize("shape", ENDED)
async def test_escalating_ends_the_fan_out_where_no_loop_is_around(shape: str) -> None:
    """The other branches are cancelled, and the step behind the fan-out runs."""
    hang = Hang()

    scripts = {"a": hang, "a_2": Hang(), "ender": [call_tool("stop"), "bye"], "never": RuntimeError("ran")}
    result = await play(ENDED[shape], scripts, state={"items": ["x"]})
    assert speakers(result)[-1] == "c"
    assert set(hang.ended) <= {"CancelledError"}
    assert "a" not in speakers(result)
    assert ("beside" in speakers(result)) is (shape == "inner fan-out")


async def test_escalating_ends_the_loop_where_one_is_around() -> None:
    """With a loop around, the fan-out finishes and the loop ends."""
    result = await play(Loop(FanOut("fan", A, ENDER)) >> C, {"ender": [call_tool("stop"), "bye"]})
    assert sorted(speakers(result)[:-1]) == ["a", "ender"]
    assert speakers(result)[-1] == "c"


async def test_a_loop_inside_a_branch_is_the_nearest() -> None:
    """A loop in a branch ends by what escalates in it, and the other branches go on."""
    result = await play(FanOut("fan", A, Loop(ENDER)) >> C, {"ender": [call_tool("stop"), "bye"]})
    assert sorted(speakers(result)) == ["a", "c", "ender"]


async def test_an_approval_is_still_awaited_when_another_branch_ends_the_fan_out() -> None:
    """What waits for a person goes on when they answer; what was cancelled does not start again."""
    waiting = asyncio.Event()

    async def ask(request: LlmRequest) -> AsyncIterator[str]:
        await waiting.wait()
        yield "never said"

    def leave(tool_context: ToolContext) -> str:
        """Say that it is over."""
        tool_context.actions.escalate = True
        return "over"

    approval = gate(lambda s: True).named("approval")
    ender = Agent("ender").tool(leave)
    expression = FanOut("fan", Pipeline("p", approval, B), A, ender) >> C
    scripts = {"a": ask, "ender": [call_tool("leave"), "bye"]}
    first = await play(expression, scripts)
    assert speakers(first) == []
    result = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=script({"a": "again"})
    )
    assert speakers(result) == ["b", "c"]
