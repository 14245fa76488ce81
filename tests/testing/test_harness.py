"""Harness, contract assertions, snapshots and frozen runs."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, S, gate
from adk_fluent.backends import AgentEvent, VizBackend
from adk_fluent.errors import BackendError, MockError, RunError
from adk_fluent.testing import (
    AgentHarness,
    assert_contracts,
    call_tool,
    check_contracts,
    frozen_run,
    mock_backend,
    snapshot_events,
    snapshot_requests,
)
from tests.backends.support import failing
from tests.debug.pipelines import look_up


async def test_turns_of_one_conversation() -> None:
    """Each `send` is a turn in one session: its answer, events, state and tool calls."""
    agent = S.counter("n") >> Agent("a").tool(look_up)
    backend = mock_backend({"a": [call_tool("look_up", order="7"), "It is paid.", "Bye."]})
    harness = AgentHarness(agent, backend=backend, state={"n": 10})
    first, second = await harness.send("Is 7 paid?"), await harness.send("Thanks.")
    assert (first.final_text, second.final_text) == ("It is paid.", "Bye.")
    assert (first.state, second.state) == ({"n": 11}, {"n": 12})
    assert [(call.tool_name, call.args) for call in first.tool_calls] == [("look_up", {"order": "7"})]
    assert [event.author for event in first.events] == ["counter", "a", "a", "a"]
    assert (first.errors, second.errors) == ((), ())
    assert len(backend.calls["a"][-1].contents) > 2


async def test_errors_are_collected() -> None:
    """What a turn raises is in `.errors`, with what happened until then, and the next turn goes on."""
    script = {"a": "one", "b": [ValueError("no"), failing(), "well"]}
    harness = AgentHarness(Agent("a").writes("said") >> Agent("b"), mock_backend(script))
    raised, reported, well = [await harness.send(text) for text in ("1", "2", "3")]
    assert [str(error.__cause__) for error in raised.errors] == ["no"]
    assert isinstance(reported.errors[0], RunError)
    assert [event.content for event in reported.events][:1] == ["one"]
    assert reported.state == {"said": "one"}
    assert (well.final_text, well.errors) == ("well", ())


async def test_a_harness_without_a_script_names_the_agent() -> None:
    """Without a backend nothing is asked, and the agent that would be is named; so for other backends."""
    (error,) = (await AgentHarness(Agent("a")).send("hi")).errors
    assert isinstance(error, MockError)
    assert "'a'" in str(error)
    (error,) = (await AgentHarness(Agent("a"), VizBackend()).send("hi")).errors
    assert isinstance(error, BackendError)


async def test_approvals() -> None:
    """A turn that waits says for what, and goes on with an approval."""
    pipeline = Agent("a") >> gate(lambda s: True, message="Send it?") >> Agent("b")
    async with AgentHarness(pipeline, mock_backend({"a": "one", "b": "two"})) as harness:
        asked = await harness.send("hi")
        assert [(each.message, asked.final_text) for each in asked.pending] == [("Send it?", "")]
        assert (await harness.resume({asked.pending[0].id: True})).final_text == "two"
        assert (await harness.resume({"none": True})).errors != ()


def test_contracts_can_be_asserted() -> None:
    """Nothing wrong passes; a finding fails with what is wrong and what to do."""
    assert_contracts(Agent("a").writes("x") >> Agent("b").instruct("Use {x}."))
    faulty = Agent("a").writes("summery") >> Agent("b").instruct("Use {summary}.")
    with pytest.raises(AssertionError, match=r"1 contract finding:\n.*summary"):
        assert_contracts(faulty)
    assert len(check_contracts(faulty)) == 1


SNAPSHOT = """\
a
  system: You are an agent. Your internal name is "a".
  user: hi
  tools: look_up(order: string)
  answer: text
"""


async def test_snapshots_are_stable() -> None:
    """Requests and events as text are the same in every run, whichever branch was first."""
    pipeline = FanOut(Agent("a").tool(look_up), Agent("b").writes("x")) >> S.drop("x")
    texts: set[tuple[str, str]] = set()
    for _ in range(2):
        backend = mock_backend({"a": [call_tool("look_up", order="7"), "done"], "b": "two"})
        result = await pipeline.run("hi", backend=backend)
        texts.add((snapshot_requests(backend), snapshot_events(result)))
    ((requests, events),) = texts
    assert requests.startswith("a, call 1 of 2\n  system: ")
    assert "b\n  system: " in requests
    assert events.splitlines() == [
        "a [parallel.a]",
        '  calls look_up({"order": "7"})',
        "a [parallel.a]",
        '  look_up gave {"order": "7", "paid": true}',
        "a [parallel.a]: done",
        "b [parallel.b]: two",
        '  x = "two"',
        "drop",
        "  x removed",
    ]
    assert snapshot_events([AgentEvent("a", "par", is_partial=True)]) == ""
    assert snapshot_requests(mock_backend({})) == ""


def run_frozen(seed: int) -> list[Any]:
    """All that a run is named and dated by."""
    import asyncio

    agent = Agent("a").tool(look_up)
    with frozen_run(seed=seed):
        backend = mock_backend({"a": [call_tool("look_up", order="7"), "done"]})
        result = asyncio.run(agent.run("hi", backend=backend))
    return [result.session_id, *(event.to_json() for event in result)]


def test_frozen_runs_are_the_same_to_the_last_id() -> None:
    """With one seed ids and times are the same in each run, another gives others; then all is as before."""
    before = uuid.uuid4, time.time
    one, same, other = run_frozen(1), run_frozen(1), run_frozen(2)
    assert one == same
    assert one[0] != other[0]
    assert '"timestamp": 17672256' in one[1]
    assert before == (uuid.uuid4, time.time)
