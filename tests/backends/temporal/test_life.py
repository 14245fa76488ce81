"""A run from outside: it is cancelled, tells how far it is, and keeps to its code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle

from adk_fluent import Agent, FanOut, Loop, S, gate, map_over
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal import following
from adk_fluent.backends.temporal.connecting import Address, queue_of
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import EngineError, SessionError
from adk_fluent.middleware import tool_approval
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.backends.test_waiting import (
    GIVEN,
    B,
    adk_request_input,
    all_kinds,
    asks,
    calls_at_once,
    desk,
    every_kind,
    responses_in,
)
from tests.limits import LIMIT, within_limit

pytestmark = pytest.mark.newest


class Slow:
    """What an agent says, once the test lets it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.asked, self.let, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(self) -> str:
        """Wait, in the loop of the worker, for what the loop of the test decides."""
        self._loop.call_soon_threadsafe(self.asked.set)
        waiting = asyncio.run_coroutine_threadsafe(self.let.wait(), self._loop)
        try:
            await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self.cancelled.set)
            raise
        return "done"


async def test_who_cancels_a_run_cancels_what_it_does(workers: Workers) -> None:
    """The task that waits is cancelled: the tool that is on its way is, too, in its worker."""
    slow = Slow()

    async def look() -> str:
        """Look."""
        return await slow.answer()

    models = mock_backend({"b": "ok", "a": [call_tool("look"), "done"]})
    backend = Served(workers, {"models": models})
    run = asyncio.ensure_future((Agent("b") >> Agent("a").tool(look)).run("hi", backend=backend))
    await slow.asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await within_limit(slow.cancelled.wait())


@pytest.mark.parametrize("approved", [True, False])
async def test_a_tool_that_must_be_approved_waits(workers: Workers, *, approved: bool) -> None:
    """What middleware guards is not called before a person says so."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    guarded = Agent("a").tools(pay).middleware(tool_approval(["pay"]))
    backend = Served(workers, {"models": mock_backend({"a": [call_tool("pay", amount=3), "done"]})})
    asked = await guarded.run("hi", backend=backend)
    assert ([each.message for each in asked.pending], paid) == (["Run pay(amount=3)?"], [])
    approvals = {asked.pending[0].id: approved}
    done = await guarded.resume(session_id=asked.session_id, approvals=approvals, backend=backend)
    assert (done.text, paid) == ("done", [3] if approved else [])


async def test_every_kind_waits_and_goes_on(workers: Workers) -> None:
    """A run of workers waits for results and credentials as for approvals, and takes them one by one.

    What was answered stays so when no worker is left that knows it.
    """
    items = S.set(items=[1]) >> map_over("items", all_kinds())
    expression = Loop(items, max_iterations=1) >> B
    models = mock_backend({}, default=every_kind)
    backend = Served(workers, {"models": models})
    result = await expression.run("hi", backend=backend)
    assert {pending.kind for pending in result.pending} == set(GIVEN)
    options: dict[str, Any] = {"session_id": result.session_id, "backend": backend}
    while waiting := result.pending:
        backend.replace_workers()
        assert "b" not in models.calls
        asked = {waiting[0].id: GIVEN[waiting[0].kind]}
        with pytest.raises(SessionError, match="does not wait for 'x'; it waits for '"):
            await expression.resume(answers={**asked, "x": 1}, **options)
        result = await expression.resume(answers=asked, **options)
        assert [each.id for each in result.pending] == [each.id for each in waiting[1:]]
        with pytest.raises(SessionError, match=f"does not wait for '{waiting[0].id}'|waits no more"):
            await expression.resume(answers=asked, **options)
    assert result.text == "ok"
    asked = {agent: len(calls) for agent, calls in models.calls.items()}
    assert asked == await calls_at_once(expression)


async def test_an_answer_that_is_given_twice_counts_once(workers: Workers) -> None:
    """Given at the same time, too: one goes on, the others are told why they cannot, and the run waits on.

    They come while the run goes on with the first answer, or when it waits for the other one.
    """
    expression = FanOut(desk(), desk("other")) >> B
    models = mock_backend({}, default=asks)
    backend = Served(workers, {"models": models})
    asked = await expression.run("hi", backend=backend)
    options: dict[str, Any] = {"session_id": asked.session_id, "backend": backend}
    one, two = (pending.id for pending in asked.pending)
    first, last = {one: {"status": "fixed"}}, {two: {"status": "fixed"}}
    same = (expression.resume(answers=first, **options) for _ in range(3))
    given = await asyncio.gather(*same, return_exceptions=True)
    (went_on,) = (each for each in given if not isinstance(each, BaseException))
    assert [pending.id for pending in went_on.pending] == [two]
    said = [str(each) for each in given if isinstance(each, SessionError)]
    reasons = (
        f"Session {asked.session_id!r} does not wait for {one!r}; it waits for {two!r}.",
        f"The run of session {asked.session_id!r} does not wait: another resume() was first, and it goes on. "
        "Wait for that one.",
    )
    assert [text for text in said if text in reasons] == said
    assert len(said) == len(given) - 1
    assert (await expression.resume(answers=last, **options)).text == "ok"
    assert [len(models.calls[name]) for name in ("desk", "other", "b")] == [3, 3, 1]


@pytest.mark.parametrize("said", ["Oslo", 7, {"city": "Oslo"}, ["Oslo"], {"result": None}, {"result": {}}])
async def test_an_answer_arrives_as_it_was_given(workers: Workers, said: Any) -> None:
    """On its way to the workers an answer keeps its form."""
    tool = LongRunningFunctionTool(adk_request_input)
    expression = Agent("desk").tool(tool)
    models = mock_backend({"desk": [call_tool("adk_request_input", message="Which city?"), "Thanks."]})
    backend = Served(workers, {"models": models})
    result = await expression.run("hi", backend=backend)
    (pending,) = result.pending
    assert (pending.kind, pending.message) == ("input", "Which city?")
    answers = {pending.id: said}
    rest = await expression.resume(session_id=result.session_id, answers=answers, backend=backend)
    assert rest.text == "Thanks."
    (given,) = responses_in(models.calls["desk"][-1])
    assert given.response == (said if isinstance(said, dict) else {"result": said})


async def test_a_run_tells_how_far_it_is(workers: Workers) -> None:
    """Its workflow answers the query `progress`, while it runs and when it has ended."""
    slow = Slow()

    async def wait(state: object) -> None:
        await slow.answer()

    backend = Served(workers, {"models": mock_backend({}, default="ok")})
    run = asyncio.ensure_future((Agent("a") >> wait).run("hi", session_id="far", backend=backend))
    await slow.asked.wait()
    client = await backend.address.client()
    handle = client.get_workflow_handle("adk_fluent_app/user/far")
    assert await handle.query("progress") == {"status": "running", "events": 1}
    slow.let.set()
    await run
    assert await handle.query("progress") == {"status": "done", "events": 1}


async def test_a_worker_names_its_code_by_its_queue(
    workers: Workers, temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine notes it as the build id; no hash of all modules, which takes seconds to read, is made."""
    monkeypatch.setattr("temporalio.worker._worker.load_default_build_id", None)
    agent, models = Agent("a"), mock_backend({}, default="ok")
    workers.work(agent.node, "builds", models=models)
    await agent.run("hi", session_id="b", backend=TemporalBackend(temporal.address, queue="builds"))
    client = await Address(temporal.address).client()
    history = await client.get_workflow_handle("adk_fluent_app/user/b").fetch_history()
    done = [event.workflow_task_completed_event_attributes for event in history.events]
    builds = {task.worker_version.build_id for task in done if task.worker_version.build_id}
    assert builds == {queue_of(agent.node, "builds")}


async def test_newer_code_gets_no_runs_of_older_code(workers: Workers, temporal: DevServer) -> None:
    """A run in flight ends on the graph that it began with; a run of the new one goes to the new worker."""
    slow = Slow()

    async def old(state: object) -> dict[str, str]:
        return {"by": f"old, {await slow.answer()}"}

    async def new(state: object) -> dict[str, str]:
        return {"by": "new"}

    backend = TemporalBackend(temporal.address, queue="versions", worker_timeout=LIMIT)
    before, after = Agent("a") >> old, Agent("a") >> new
    models = mock_backend({}, default="ok")
    workers.work(before.node, "versions", models=models)
    run = asyncio.ensure_future(before.run("hi", backend=backend))
    await slow.asked.wait()
    with pytest.raises(EngineError, match="none that has this very expression") as caught:
        await after.run("hi", backend=TemporalBackend(temporal.address, queue="versions", worker_timeout=0.3))
    assert ".new may be another function, since it has no import path" in str(caught.value)
    workers.work(after.node, "versions", models=models)
    assert (await after.run("hi", backend=backend)).state == {"by": "new"}
    slow.let.set()
    assert (await run).state == {"by": "old, done"}


async def test_who_waits_for_a_decision_waits_for_the_next_one(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided before does not count; where nobody decides in time, the run is named."""
    expression = Agent("a") >> gate(lambda state: True, message="Go?")
    backend = Served(workers, {"models": mock_backend({}, default="ok")})
    asked = await expression.run("hi", session_id="decided", backend=backend)
    client = await backend.address.client()
    handle = client.get_workflow_handle("adk_fluent_app/user/decided")
    monkeypatch.setattr(following, "PATIENCE", 0.3)
    with pytest.raises(EngineError, match="No worker could go on with the run 'adk_fluent_app"):
        await following.decided(handle)
    monkeypatch.setattr(following, "PATIENCE", int(LIMIT))
    seen, old = asyncio.Event(), (await handle.describe()).history_length
    fetch = WorkflowHandle[Any, Any].fetch_history_events

    async def noting(self: WorkflowHandle[Any, Any], **options: Any) -> AsyncIterator[HistoryEvent]:
        async for event in fetch(self, **options):
            yield event
            if event.event_id == old:  # and more is wanted
                seen.set()

    monkeypatch.setattr(WorkflowHandle, "fetch_history_events", noting)
    waiting = asyncio.ensure_future(following.decided(handle))
    await within_limit(seen.wait())
    assert not waiting.done()
    approvals = {asked.pending[0].id: True}
    await expression.resume(session_id="decided", approvals=approvals, backend=backend)
    await within_limit(waiting)
