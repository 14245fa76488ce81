"""Runs that wait, and callers that wait for them: found again, answered in time, refused exactly."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from adk_fluent import Agent, gate
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.adk.durable.steps import Json
from adk_fluent.backends.temporal import backend as temporal_backend
from adk_fluent.backends.temporal import local
from adk_fluent.backends.temporal import workflow as temporal_workflow
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.listing import queues
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.sharing import leave_servers
from adk_fluent.backends.temporal.starting import Durable
from adk_fluent.backends.temporal.worker import working
from adk_fluent.cli.main import main
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import EngineError, SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import mock_backend
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import gated
from tests.clock import Clock
from tests.dev_server import new_namespace
from tests.limits import LIMIT, in_thread, within_limit

pytestmark = pytest.mark.newest

MODELS = mock_backend({"first": "one", "last": "two"})


def always(state: object) -> bool:
    """Ask."""
    return True


OLD = Agent("first") >> gate(always, message="Go on?") >> Agent("last")
NEW = Agent("first").instruct("Else.") >> gate(always, message="Go on?") >> Agent("last")


@pytest.fixture
async def place(temporal: DevServer) -> Address:
    """A namespace of the test's own, that has no other runs."""
    return Address(temporal.address, await new_namespace(temporal.address))


def _backend(place: Address, worker_timeout: float = LIMIT, **options: Any) -> TemporalBackend:
    """What runs there."""
    return TemporalBackend(place.host, namespace=place.namespace, worker_timeout=worker_timeout, **options)


async def _asked(expression: Expr[Any], place: Address, session_id: str) -> dict[str, bool]:
    """The approvals for which a run waits that no worker works on any more."""
    async with working(expression.node, place, models=MODELS, grace=0):
        asked = await expression.run("hi", session_id=session_id, backend=_backend(place))
    return {asked.pending[0].id: True}


async def test_versions_that_have_runs(
    place: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`adk-fluent worker --versions` lists the queues whose runs are in flight or wait, and their workers."""
    command = ["worker", "--versions", "--address", place.host, "--namespace", place.namespace]
    assert await in_thread(main, command) == 0
    assert capsys.readouterr().out == f"No runs are in flight or waiting at {place.host}.\n"
    await _asked(OLD, place, "one")
    begun = asyncio.Event()

    async def hangs(state: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    busy, backend = Agent("first") >> hangs, _backend(place)
    old, new = (backend.compile(each.node).queue for each in (OLD, busy))
    async with working(busy.node, place, models=MODELS, grace=0):
        run = asyncio.ensure_future(busy.run("hi", backend=backend))
        await begun.wait()
        async with asyncio.timeout(LIMIT):  # the server lists a little later
            while len(found := await queues(place)) < 2 or not found[0].waiting + found[1].waiting:
                await asyncio.sleep(0.02)
        listed = {queue.name: (queue.in_flight, queue.waiting, queue.workers > 0) for queue in found}
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    assert listed[old][:2] == (0, 1)
    assert listed[new] == (1, 0, True)
    assert await in_thread(main, command) == 0
    assert f"{old}  0 in flight, 1 waiting, since 20" in capsys.readouterr().out
    assert main(["worker"]) == 2
    assert "needs a TARGET" in capsys.readouterr().err


async def test_resume_without_a_worker(place: Address) -> None:
    """It ends in time and says so, as `session` does; the run waits on."""
    approvals = await _asked(OLD, place, "one")
    backend = _backend(place, 1)
    with pytest.raises(EngineError, match=r"No worker listens on the task queue 'sequence@.* waits on"):
        await OLD.resume(session_id="one", approvals=approvals, backend=backend)
    with pytest.raises(EngineError, match="No worker listens"):
        await backend.session(backend.compile(OLD.node), session_id="one")
    async with working(OLD.node, place, models=MODELS):
        handle = (await place.client()).get_workflow_handle("adk_fluent_app/user/one")
        assert (await handle.query("progress"))["status"] == "waiting"


async def test_a_streamed_run_is_resumed(place: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader, who is gone, is not waited for: `resume` reads the rest at once."""
    monkeypatch.setattr(temporal_workflow, "READER", timedelta(hours=1))
    backend = _backend(place)
    async with working(OLD.node, place, models=MODELS):
        events = [event async for event in OLD.stream("hi", session_id="one", backend=backend)]
        approvals = {pending.id: True for event in events for pending in event.pending}
        done = await OLD.resume(session_id="one", approvals=approvals, backend=backend)
    assert done.text == "two"


async def test_resume_from_other_code(place: Address) -> None:
    """It is refused at once, with both versions named; so is a new run of the prompt in the session."""
    approvals = await _asked(OLD, place, "one")
    backend = _backend(place)
    for call in (
        lambda: NEW.resume(session_id="one", approvals=approvals, backend=backend),
        lambda: NEW.run("hi", session_id="one", backend=backend),
    ):
        with pytest.raises(
            EngineError, match="begun by another version of the expression: it is on"
        ) as found:
            await call()
        assert backend.compile(OLD.node).queue in str(found.value)
        assert backend.compile(NEW.node).queue in str(found.value)


async def test_resume_that_takes_too_long(
    temporal: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that listens and then does not take the answer is waited for in time, and said to be late."""
    monkeypatch.setattr(temporal_backend, "READER", timedelta(seconds=0.5))
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    worker = crew.start("gated")
    paused: list[bool] = []

    class Pausing(TemporalBackend):
        async def _loaded(self, compiled: Durable, user_id: str, session_id: str) -> Json:
            loaded = await super()._loaded(compiled, user_id, session_id)
            os.kill(worker.pid, signal.SIGSTOP)
            paused.append(True)
            self._worker_timeout = timedelta(seconds=1)  # until now it had all the time that it wants
            return loaded

    backend = TemporalBackend(temporal.address, queue=crew.queue, worker_timeout=LIMIT)
    impatient = Pausing(temporal.address, queue=crew.queue, worker_timeout=LIMIT)
    session_id, said = crew.queue, rf"'{crew.queue}' took longer than 1\.5 s to take the answers\. They may"
    try:
        asked = await gated.run("hi", session_id=session_id, backend=backend)
        approvals = {asked.pending[0].id: True}
        with pytest.raises(EngineError, match=said):
            await gated.resume(session_id=session_id, approvals=approvals, backend=impatient)
    finally:
        crew.end()
    assert paused


async def test_resume_without_a_run(place: Address) -> None:
    """A run that was cancelled while it waited waits no more, and later runs of the session end."""
    backend = _backend(place)
    async with working(OLD.node, place, models=MODELS):
        asked = await OLD.run("hi", session_id="one", backend=backend)
        handle = (await place.client()).get_workflow_handle("adk_fluent_app/user/one")
        await handle.cancel()
        await asyncio.gather(handle.result(), return_exceptions=True)
        with pytest.raises(SessionError, match="waits no more"):
            await OLD.resume(session_id="one", approvals={asked.pending[0].id: True}, backend=backend)
        for prompt in ("again", "and again"):  # each would be refused where the last one waits for ever
            asked = await OLD.run(prompt, session_id="one", backend=backend)
            (pending,) = asked.pending
            done = await OLD.resume(session_id="one", approvals={pending.id: True}, backend=backend)
            assert (done.text, done.pending) == ("two", [])


@pytest.mark.parametrize("calling", ["resume", "session"])
async def test_a_cancellation_is_not_swallowed(
    place: Address, monkeypatch: pytest.MonkeyPatch, calling: str
) -> None:
    """Who cancels `resume` or `session` that waits for a worker gets the cancellation."""
    approvals = await _asked(OLD, place, "one")
    backend = _backend(place)
    waits, name = asyncio.Event(), {"resume": "query", "session": "result"}[calling]
    ask = getattr(WorkflowHandle, name)

    async def asks(self: Any, *given: Any, **options: Any) -> Any:
        waits.set()  # the test hears it when what follows waits for an answer of a worker
        return await ask(self, *given, **options)

    monkeypatch.setattr(WorkflowHandle, name, asks)
    compiled = backend.compile(OLD.node)
    call: Coroutine[Any, Any, Any] = (
        OLD.resume(session_id="one", approvals=approvals, backend=backend)
        if calling == "resume"
        else backend.session(compiled, session_id="one")
    )
    waiting = asyncio.ensure_future(call)
    await within_limit(waits.wait())
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_limit(waiting)


async def test_a_local_run_of_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `durable="local"` the same: a run that older code left is not continued by newer code."""
    monkeypatch.chdir(tmp_path)
    config = ExecutionConfig(durable="local")
    try:
        asked = await OLD.run("hi", session_id="one", config=config, backend=MODELS)
        approvals = {asked.pending[0].id: True}
        with pytest.raises(EngineError, match="begun by another version"):
            await NEW.resume(session_id="one", approvals=approvals, config=config, backend=MODELS)
        done = await OLD.resume(session_id="one", approvals=approvals, config=config, backend=MODELS)
        assert done.text == "two"
    finally:
        leave_servers()
    assert local.FOLDER.is_dir()


async def _waited_for(said: str) -> None:
    """Wait until callers log something from now on."""
    logger, heard = logging.getLogger("adk_fluent.durable"), asyncio.Event()

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if re.match(said, record.getMessage()):
                heard.set()

    logger.addHandler(hears := Hears())
    try:
        await within_limit(heard.wait())
    finally:
        logger.removeHandler(hears)


@pytest.mark.faults
async def test_a_caller_that_starts_while_the_server_is_away(tmp_path: Path, patience: Clock) -> None:
    """It waits for the server, longer than for a worker, and finds its run; nothing is done twice."""
    with DevServer(tmp_path / "runs.db") as server:
        backend = TemporalBackend(server.address, worker_timeout=4)
        expression = Agent("first") >> Agent("last")
        models = mock_backend({"first": "one", "last": "two"})
        async with working(expression.node, Address(server.address), models=models):
            await expression.run("hi", backend=backend)
            server.stop()
            run = asyncio.ensure_future(expression.run("hi", backend=backend))
            await _waited_for("The Temporal server at .* does not answer")
            patience.now += 20  # longer than a worker is waited for
            for _ in range(2):  # and still the server is
                await _waited_for("The Temporal server at .* does not answer")
            await in_thread(server.start)
            assert (await run).text == "two"
        assert [len(calls) for calls in models.calls.values()] == [2, 2]
