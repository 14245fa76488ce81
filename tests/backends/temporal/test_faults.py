"""Workers die while runs are on their way; what is done is not done again."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.client import WorkflowHandle

from tests.backends.temporal.engine import happened
from tests.backends.temporal.processes import HEARTBEAT, Crew, backend_of
from tests.backends.temporal.steps import (
    pipeline,
)

pytestmark = pytest.mark.newest


STEPS = ("first", "compute", "look", "caller", "last")


def _once(crew: Crew, *, twice: str = "") -> bool:
    """Whether every step began and ended once, but for one that began twice."""
    begun = {f"{name} begins": 1 + (name == twice) for name in STEPS}
    return Counter(crew.log()) == {**begun, **{f"{name} ends": 1 for name in STEPS}}


async def heartbeats(handle: WorkflowHandle[Any, Any]) -> AsyncIterator[float]:
    """After how many seconds of silence the worker of each step of a run counts as dead."""
    async for event in handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            asked = event.activity_task_scheduled_event_attributes
            if asked.activity_type.name != "session":
                yield asked.heartbeat_timeout.ToTimedelta().total_seconds()


@pytest.mark.parametrize("phase", ["first", "compute", "look", "last"])
async def test_a_killed_worker_repeats_nothing_that_is_done(crew: Crew, phase: str) -> None:
    """A worker dies in a step; another one does that step again, and only that, after one heartbeat."""
    session_id, backend = str(uuid.uuid4()), backend_of(crew)
    crew.hold(phase)
    run = asyncio.ensure_future(pipeline.run("hi", session_id=session_id, backend=backend))
    await crew.until(f"{phase} begins")
    crew.kill(f"{phase} begins")
    crew.release(phase)
    await crew.until(f"{phase} begins", 2)
    handle = (await backend.address.client()).get_workflow_handle(f"adk_fluent_app/user/{session_id}")
    noticed = await happened(handle, EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT)
    why = noticed.activity_task_timed_out_event_attributes.failure.timeout_failure_info
    assert why.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT
    assert {beat async for beat in heartbeats(handle)} == {HEARTBEAT}
    result = await run
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    assert _once(crew, twice=phase)


async def test_a_stream_goes_on_where_it_was(crew: Crew) -> None:
    """A worker dies in the middle of an answer; the reader gets the rest, and no piece twice."""
    crew.hold("last")
    pieces: list[str] = []
    async for event in pipeline.stream("hi", backend=backend_of(crew)):
        if event.author == "last" and event.is_partial:
            pieces.append(event.content or "")
            if len(pieces) == 1:
                crew.kill("last begins")
                crew.release("last")
    assert pieces == ["I am ", "last."]
    assert _once(crew, twice="last")


@pytest.mark.faults
async def test_a_frozen_worker_is_replaced(crew: Crew) -> None:
    """Its step, and whatever else Temporal hands to it, goes to another worker once it times out."""
    crew.hold("last")
    running = asyncio.ensure_future(pipeline.run("hi", backend=backend_of(crew)))
    await crew.until("last begins")
    frozen = crew.author("last begins")
    os.kill(frozen, signal.SIGSTOP)
    try:
        await crew.until("last begins", 2)
        crew.release("last")
        assert (await running).text == "I am last."
        assert _once(crew, twice="last")
    finally:
        os.kill(frozen, signal.SIGKILL)
        crew.start()
