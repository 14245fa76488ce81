"""Recordings of pipelines that ask remote agents, and what answers for those without a network."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, RemoteAgent, S
from adk_fluent.a2a import RetryConfig
from adk_fluent.backends import DryRunBackend, TraceBackend
from adk_fluent.debug import Recorder, Recording, ReplayerBackend, diff_recordings
from adk_fluent.errors import RemoteError, ReplayError
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer
from adk_fluent.testing import call_tool, mock_backend
from tests.remote.others import Says, listening, plain, says
from tests.remote.test_composites import COMPOSITES, NOWHERE, outcome, script

pytestmark = pytest.mark.newest


async def recorded(made: Expr[Any], **more: Any) -> Recording:
    """A recording of a run whose questions are all agreed to."""
    recorder = Recorder()
    await outcome(recorder.install(made), script(**more))
    return recorder.get_recording()


@pytest.mark.parametrize("name", COMPOSITES)
async def test_a_recording_answers_for_a_remote_agent_in_every_composite(name: str) -> None:
    """Replayed when its server is gone, the run is the one that was recorded, call by call."""
    clerk = says("Pa", "id.")
    async with listening(plain(clerk, streaming=True)) as url:
        made = COMPOSITES[name](RemoteAgent("far", endpoint=url).writes("out"))
        recording = await recorded(made)
    assert isinstance(clerk.model, Says)
    calls = recording.get_llm_interactions("far")
    assert [call.response_content for call in calls] == ["Paid."] * len(clerk.model.asked)
    replay = await Recording.from_json(recording.to_json()).replay(made)
    assert not diff_recordings(recording, replay)


async def test_failures_attempts_and_fallbacks_are_replayed() -> None:
    """What failed fails again in the same words, is tried as often, and its fallback runs."""
    far = RemoteAgent("far", endpoint=NOWHERE, retry=RetryConfig(3, 0.0))
    made = Agent("a") >> far
    recorder = Recorder()
    with pytest.raises(RemoteError) as caught:
        await made.run("hi", backend=script(), middleware=[recorder])
    recording = recorder.get_recording()
    assert len(recording.get_llm_interactions("far")) == 3
    with pytest.raises(RemoteError) as again:
        await made.run("hi", backend=ReplayerBackend(recording))
    assert str(again.value) == str(caught.value)
    near = Agent("a") >> RemoteAgent("far", endpoint=NOWHERE, fallback=Agent("near"))
    recording = await recorded(near, near="By hand.")
    assert not diff_recordings(recording, await recording.replay(near))


async def test_a_stream_is_replayed_piece_by_piece() -> None:
    """The pieces of a remote answer come again as they came."""
    async with listening(plain(says("Pa", "id."), streaming=True)) as url:
        made = RemoteAgent("far", endpoint=url) >> Agent("b")
        recorder = Recorder()
        events = made.stream("hi", backend=script(), middleware=[recorder])
        before = [(event.author, event.content, event.is_partial) async for event in events]
    backend = ReplayerBackend(recorder.get_recording())
    after = [(e.author, e.content, e.is_partial) async for e in made.stream("hi", backend=backend)]
    assert after == before
    assert ("far", "Pa", True) in after


async def test_what_a_remote_asks_a_person_is_replayed() -> None:
    """A question from another process, and what came after the answer."""

    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    clerk = Agent("clerk").tool(pay, require_confirmation=True)
    server = A2AServer(clerk, backend=mock_backend({"clerk": [call_tool("pay", amount=5), "Done."]}))
    await server.start()
    made = Agent("a") >> RemoteAgent("far", endpoint=server.url).writes("out")
    try:
        recording = await recorded(made)
    finally:
        await server.stop()
    replay = await recording.replay(made)
    assert not diff_recordings(recording, replay)
    assert [call.response_content for call in replay.get_llm_interactions("far")] == ["", "Done."]


async def test_a_replay_says_what_is_sent_otherwise_than_recorded() -> None:
    """A changed message is a mismatch that shows it; `live` asks the process, `skip` answers nothing."""
    clerk = says("Paid.")
    async with listening(plain(clerk)) as url:
        assert isinstance(clerk.model, Says)
        far = RemoteAgent("far", endpoint=url).reads("intent")
        recording = await recorded(S.set(intent="refund") >> far)
        other = S.set(intent="complaint") >> far
        asked = len(clerk.model.asked)
        with pytest.raises(ReplayError, match=r"Agent 'far', call 1: .*history changed"):
            await other.run("hi", backend=ReplayerBackend(recording))
        assert (await other.run("hi", backend=ReplayerBackend(recording, "skip"))).text == ""
        assert len(clerk.model.asked) == asked
        live = await other.run("hi", backend=ReplayerBackend(recording, "live"))
        assert (live.text, len(clerk.model.asked)) == ("Paid.", asked + 1)


class Receipt(BaseModel):
    ok: bool


async def test_a_dry_run_asks_no_remote_agent_and_knows_no_price_of_it() -> None:
    """A stand-in of the promised type answers; what the other side costs, nobody here knows."""
    backend = DryRunBackend()
    pay = RemoteAgent("pay", endpoint=NOWHERE).writes("receipt") @ Receipt
    result = await (pay >> Agent("b", "gemini-2.5-flash")).run("hi", backend=backend)
    assert result.state["receipt"] == {"ok": False}
    assert backend.costs["pay"] is None
    assert isinstance(backend.costs["b"], Decimal)


async def test_a_trace_names_the_remote_agent() -> None:
    """A trace has the step, with what it wrote."""
    backend = TraceBackend(mock_backend({"far": "F", "b": "B"}))
    await (RemoteAgent("far", endpoint=NOWHERE).writes("out") >> Agent("b")).run("hi", backend=backend)
    assert "far" in str(backend.to_json())
