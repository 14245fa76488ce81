"""Loops: until, limits, escalation to the nearest loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, loop_until, until
from adk_fluent.adopt import adopt
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ExpressionError, PredicateError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from tests.backends.support import Hang, play, script, speakers

A, B, C = Agent("a"), Agent("b"), Agent("c")
COUNT = S.counter("n")


def stop(tool_context: ToolContext) -> str:
    """End the loop."""
    tool_context.actions.escalate = True
    return "stopped"


def escalating(name: str) -> Agent[str]:
    """An agent whose model ends the nearest loop with a tool."""
    return Agent(name).tool(stop)


async def test_a_loop_runs_the_given_number_of_times() -> None:
    """`body * 3` runs the body three times."""
    assert speakers(await play((A >> B) * 3)) == ["a", "b"] * 3


async def test_the_default_limit_is_ten_rounds() -> None:
    """A loop without a limit ends after ten rounds."""
    assert (await play(Loop(COUNT))).state == {"n": 10}


@pytest.mark.parametrize(
    "loop",
    [
        COUNT.until(lambda s: s["n"] == 4),
        COUNT * until(lambda s: s["n"] == 4, max=9),
        loop_until(lambda s: s["n"] == 4, COUNT, max_iterations=9),
        Loop("l").step(COUNT).until(lambda s: s["n"] == 4),
    ],
)
async def test_until_ends_the_loop(loop: Any) -> None:
    """Each way to write `until` ends the loop after the round in which it holds."""
    assert (await play(loop)).state == {"n": 4}


async def test_the_limit_ends_a_loop_whose_until_never_holds() -> None:
    """`until` does not lift the limit of rounds."""
    assert (await play(COUNT * until(lambda s: False, max=3))).state == {"n": 3}


async def test_until_is_tested_after_the_round() -> None:
    """The body runs once even if `until` holds from the start."""
    assert (await play(COUNT.until(lambda s: True))).state == {"n": 1}


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize(
    "loop",
    [
        A >> COUNT >> B,
        (A >> COUNT >> B) * 1,
        Loop(A, COUNT, B, max_iterations=1),
        Loop("l").step(A).step(COUNT).step(B).max_iterations(1),
        (A >> COUNT >> B) * until(lambda s: s["n"] == 1, max=1),
        (A >> COUNT >> B) * until(lambda s: s["n"] == 1, max=5),
        (A >> COUNT >> B) * until(lambda s: False, max=1),
        loop_until(lambda s: s["n"] == 1, A >> COUNT >> B),
        Loop(Loop(A, COUNT, B, max_iterations=1), max_iterations=1),
    ],
)
async def test_one_round_is_as_without_a_loop(loop: Any, resumable: bool) -> None:
    """A loop of one round, whatever ends it, does what its steps do one after another, then what follows."""
    config = ExecutionConfig(resumable=resumable)
    result = await play(loop >> Agent("after"), config=config)
    assert speakers(result) == ["a", "b", "after"]
    assert result.state == {"n": 1}
    assert result.text == "ok"
    assert [event.content for event in result.visible if event.content] == ["ok"]


async def test_until_is_tested_after_the_whole_round_only() -> None:
    """A predicate that becomes true in the middle of a round lets the round end."""
    result = await play((COUNT >> A >> COUNT) * until(lambda s: s["n"] >= 1))
    assert result.state == {"n": 2}


async def test_an_async_until_is_awaited() -> None:
    """`until` may be an async function."""

    async def enough(state: Any) -> bool:
        return state["n"] == 2

    assert (await play(COUNT.until(enough))).state == {"n": 2}


async def test_until_that_raises_names_loop_and_function() -> None:
    """A predicate that raises is reported with the loop's name, its own name and the cause."""

    def broken(state: Any) -> bool:
        return bool(state["missing"])

    with pytest.raises(PredicateError) as caught:
        await play(Loop("refine", A).until(broken))
    assert str(caught.value) == (
        "'refine': its predicate 'broken' needs state key 'missing', which is not set. Use "
        "state.get('missing') if it may be missing."
    )
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_tool_that_escalates_ends_the_loop_at_once() -> None:
    """After an agent escalated, the rest of the round does not run, and the step after the loop does."""
    loop = Loop(escalating("a"), B, max_iterations=3)
    result = await play(loop >> C, {"a": [call_tool("stop"), "bye"]})
    assert speakers(result) == ["a", "c"]


async def test_escalation_in_a_later_round() -> None:
    """An agent may escalate in any round."""
    result = await play(Loop(escalating("a"), B), {"a": ["go on", call_tool("stop"), "bye"]})
    assert speakers(result) == ["a", "b", "a"]


async def test_escalation_ends_only_the_nearest_loop() -> None:
    """The outer loop goes on when an agent of the inner loop escalates."""
    inner = Loop("inner", escalating("a"), max_iterations=5)
    result = await play(Loop("outer", inner, COUNT, max_iterations=3), {"a": [call_tool("stop"), "bye"] * 3})
    assert result.state == {"n": 3}
    assert speakers(result) == ["a"] * 3


async def test_escalation_beside_an_inner_loop_ends_the_outer_one() -> None:
    """An agent of the outer loop ends the outer loop, after an inner one ran its rounds."""
    loop = Loop("outer", Loop("inner", COUNT, max_iterations=2), escalating("a"), B)
    result = await play(loop, {"a": [call_tool("stop"), "bye"]})
    assert result.state == {"n": 2}
    assert speakers(result) == ["a"]


async def test_escalation_inside_a_sequence_skips_the_rest_of_it() -> None:
    """A nested sequence in the body is left at the agent that escalates."""
    loop = Loop(Pipeline("steps", escalating("a"), B), C)
    assert speakers(await play(loop, {"a": [call_tool("stop"), "bye"]})) == ["a"]


async def test_escalation_inside_a_route_ends_the_loop() -> None:
    """An agent in a branch of a route ends the loop around the route."""
    loop = Loop(Route().when(lambda s: True, escalating("a")), B)
    assert speakers(await play(loop, {"a": [call_tool("stop"), "bye"]})) == ["a"]


async def test_escalation_inside_a_fan_out_ends_the_loop_after_it() -> None:
    """When one branch escalates the others finish, then the loop ends."""
    loop = Loop(FanOut("fan", escalating("a"), Pipeline("p", B, B)), C)
    result = await play(loop, {"a": [call_tool("stop"), "bye"]})
    assert sorted(speakers(result)) == ["a", "b", "b_2"]


async def test_escalation_outside_a_loop_does_nothing() -> None:
    """Without a loop around it, an agent that escalates changes nothing."""
    result = await play(escalating("a") >> B, {"a": [call_tool("stop"), "bye"]})
    assert speakers(result) == ["a", "b"]


async def test_a_callback_may_escalate() -> None:
    """A callback of an agent can end the loop, as in ADK."""

    def after(callback_context: Any) -> None:
        callback_context._event_actions.escalate = True
        callback_context.state["ended"] = True

    result = await play(Loop(A.after_agent(after), B, max_iterations=3))
    assert speakers(result) == ["a"]


async def test_a_loop_in_a_loop_starts_afresh_each_round() -> None:
    """The inner loop counts its rounds from zero in each round of the outer one."""
    assert (await play(Loop("outer", Loop("inner", COUNT, max_iterations=3), max_iterations=2))).state == {
        "n": 6
    }


async def test_a_resumable_loop_runs_all_rounds() -> None:
    """Checkpoints of a loop that can pause do not change what it runs."""
    inner = Loop("inner", COUNT, gate(lambda s: False), max_iterations=3)
    result = await play(Loop("outer", inner, A, max_iterations=2))
    assert result.state == {"n": 6}
    assert speakers(result) == ["a", "a"]


async def test_the_body_sees_what_earlier_rounds_said() -> None:
    """The conversation grows over the rounds."""
    backend = script({"a": ["draft one", "draft two"]})
    await (A * 2).run("hi", backend=backend)
    assert "draft one" in str(backend.calls["a"][1].contents)


@pytest.mark.parametrize("rounds", [0, -1, True, 1.5, None, "3"])
def test_a_wrong_number_of_rounds_is_refused(rounds: Any) -> None:
    """A loop takes a positive whole number of rounds only."""
    with pytest.raises(ExpressionError, match="positive whole number"):
        _ = A * rounds


async def test_an_empty_loop_is_refused() -> None:
    """A loop that never got a step is an error that names it."""
    with pytest.raises(ExpressionError, match="'l' is empty"):
        await play(Loop("l"))


# --- who escalates is not in the tree -------------------------------------------------------------


class Caller(BaseAgent):
    """Says something in the name of another agent, as if it ran one that nobody knows of.

    Attributes:
        at: the time at which that one escalates.
    """

    at: int = 2
    _rounds: int = PrivateAttr(default=0)

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        self._rounds += 1
        yield Event(
            author="stranger",
            invocation_id=ctx.invocation_id,
            branch=ctx.branch,
            content=types.Content(role="model", parts=[types.Part(text=f"round {self._rounds}")]),
            actions=EventActions(escalate=self._rounds == self.at or None),
        )


def calls(name: str, at: int = 2) -> Expr[Any]:
    """A step that does so."""
    return adopt(Caller(name=name, at=at))


STRANGE: dict[str, tuple[Callable[[], Expr[Any]], list[str]]] = {
    "in the loop": (
        lambda: Loop(A, calls("n"), B, max_iterations=4),
        ["a", "stranger", "b", "a", "stranger"],
    ),
    "in a sequence": (
        lambda: Loop(Pipeline("p", calls("n"), A), B, max_iterations=4),
        ["stranger", "a", "b", "stranger"],
    ),
    "in a route": (
        lambda: Loop(Route().when(lambda s: True, calls("n")), A, max_iterations=4),
        ["stranger", "a", "stranger"],
    ),
    "in an inner loop, beside one": (
        lambda: Loop(Loop("inner", calls("n"), max_iterations=3), calls("m"), A, max_iterations=2),
        ["stranger", "stranger", "stranger", "a", "stranger", "stranger", "stranger", "stranger"],
    ),
}


@pytest.mark.parametrize("shape", STRANGE)
async def test_an_agent_that_a_native_one_runs_unseen_ends_the_nearest_loop(shape: str) -> None:
    """It ends it at once, though it is nowhere in the tree; a loop that is not the nearest goes on."""
    make, said = STRANGE[shape]
    result = await play(make() >> C)
    assert speakers(result) == [*said, "c"]


async def test_it_ends_a_fan_out_where_no_loop_is_around() -> None:
    """As a branch of its own would: the others are cancelled, and the step behind runs."""
    hang = Hang()
    result = await play(FanOut("fan", A, calls("n", at=1)) >> C, {"a": hang})
    assert speakers(result) == ["stranger", "c"]
    assert set(hang.ended) <= {"CancelledError"}


async def test_it_ends_no_loop_that_has_no_native_step() -> None:
    """A loop goes on whatever happens beside it."""
    assert speakers(await play(calls("n", at=1) >> A * 2)) == ["stranger", "a", "a"]
