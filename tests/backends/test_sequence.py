"""Sequences: order, what later steps see, errors, reuse."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from adk_fluent import Agent, Pipeline, S
from adk_fluent.errors import DuplicateNameError, ExpressionError
from tests.backends.support import Hang, play, raises_from, said, script, seen, speakers, system

A, B, C = Agent("a"), Agent("b"), Agent("c")


async def test_steps_run_in_order() -> None:
    """Each step runs once, after the one before it."""
    assert speakers(await play(A >> B >> C)) == ["a", "b", "c"]


async def test_nested_sequences_run_in_order() -> None:
    """A named sequence inside a sequence runs where it stands."""
    assert speakers(await play(A >> Pipeline("inner", B, C) >> Agent("d"))) == ["a", "b", "c", "d"]


async def test_the_answer_is_what_the_last_agent_said() -> None:
    """`.text` and `.output` are the last agent's words, even when a step that says nothing follows."""
    result = await play(A >> B >> S.set(done=True), {"a": "first", "b": "second"})
    assert result.text == result.output == "second"


async def test_a_later_agent_reads_what_an_earlier_one_wrote() -> None:
    """`writes` puts the answer into state before the next agent's instruction is filled in."""
    backend = script({"a": "blue"})
    result = await (A.writes("colour") >> B.instruct("The colour is {colour}.")).run("hi", backend=backend)
    assert "The colour is blue." in system(backend.calls["b"][0])
    assert result.state == {"colour": "blue"}


async def test_a_later_agent_sees_what_was_said() -> None:
    """The conversation so far, the user's message included, reaches each later model."""
    backend = script({"a": "blue"})
    await (A >> B).run("which colour?", backend=backend)
    text = seen(backend.calls["b"][0])
    assert "which colour?" in text
    assert "blue" in text


async def test_an_error_ends_the_sequence() -> None:
    """What a model raises reaches the caller as the cause, and later steps do not run."""
    problem = RuntimeError("no")
    backend = script({"a": problem})
    with raises_from(RuntimeError) as caught:
        await (A >> B).run("hi", backend=backend)
    assert caught.value.__cause__ is problem
    assert backend.calls["b"] == []


async def test_state_written_before_an_error_stays() -> None:
    """Steps before a failing one keep what they wrote: it was stored as it happened."""
    expression = S.set(x=1) >> A
    with raises_from(RuntimeError):
        await play(expression, {"a": RuntimeError("no")}, session_id="kept-state")
    result = await play(S.compute(y=lambda s: s["x"] + 1), session_id="kept-state")
    assert result.state == {"x": 1, "y": 2}


async def test_closing_the_stream_cancels_the_running_step() -> None:
    """A caller that leaves early cancels the model call that is running."""
    hang = Hang("piece")
    async with aclosing((A >> B).stream("hi", backend=script({"b": hang}))) as events:
        async for event in events:
            if event.author == "b":
                break
    assert len(hang.ended) == 1


async def test_cancelling_the_run_cancels_the_running_step() -> None:
    """Cancelling the task of a run really cancels the model call in it."""
    hang = Hang()
    task = asyncio.ensure_future(play(A >> B, {"b": hang}))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert hang.ended == ["CancelledError"]


async def test_one_agent_used_several_times() -> None:
    """Uses of one agent get names of their own, and `by` finds the events of all of them."""
    writer = Agent("writer")
    result = await play(writer >> A >> writer >> writer, {"writer": ["one", "two", "three"]})
    assert said(result) == [("writer", "one"), ("a", "ok"), ("writer_2", "two"), ("writer_3", "three")]
    assert [event.content for event in result.by("writer")] == ["one", "two", "three"]
    assert [event.content for event in result.by("writer_2")] == ["two"]


async def test_one_sequence_used_several_times() -> None:
    """A whole sequence can stand in several places of a tree."""
    review = Pipeline("review", A, B)
    result = await play(review >> C >> review)
    assert [result.origin(author) for author in speakers(result)] == ["a", "b", "c", "a", "b"]
    assert len(result.by("a")) == 2


async def test_usage_adds_up_over_the_uses_of_an_agent() -> None:
    """`usage` counts the calls of an agent under the name the user gave it."""
    result = await play(A >> A >> B)
    calls = {agent: usage.calls for (agent, _), usage in result.usage.items()}
    assert calls == {"a": 2, "b": 1}


async def test_different_agents_of_one_name_are_refused() -> None:
    """Two agents that differ but share a name cannot be in one tree; the message names it."""
    with pytest.raises(DuplicateNameError, match="'a'"):
        await play(A >> B >> A.instruct("other"))


@pytest.mark.parametrize("empty", [Pipeline("p"), A >> Pipeline("p")])
async def test_an_empty_sequence_is_refused(empty: Pipeline[str]) -> None:
    """A sequence that never got a step is an error that names it when it is run."""
    with pytest.raises(ExpressionError, match="'p' is empty"):
        await play(empty)


async def test_a_long_sequence_runs() -> None:
    """Fifty steps in a row work like two."""
    steps = [S.counter("n") for _ in range(50)]
    assert (await play(Pipeline(*steps) >> A)).state == {"n": 50}


async def test_a_dict_after_an_agent_routes_on_what_it_wrote() -> None:
    """`agent >> {value: branch}` runs the branch of the value the agent wrote."""
    expression = A.writes("kind") >> {"x": B, "y": C}
    assert speakers(await play(expression, {"a": " y\n"})) == ["a", "c"]
