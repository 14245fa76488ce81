"""What a user does wrong with a durable engine, said in one line; nothing is lost, nothing is run twice."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent import Agent, Route, S
from adk_fluent.backends import StepPolicy, TemporalBackend
from adk_fluent.backends.temporal import following
from adk_fluent.backends.temporal.server import DevServer, free_port
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    BackendError,
    EngineError,
    RunError,
    SessionConflictError,
    StepError,
)
from tests.backends.every_backend import with_models
from tests.backends.temporal.engine import Served, Workers, happened
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import blocked, blocked_later
from tests.clock import Clock
from tests.limits import LIMIT, happens, in_thread, within_limit

pytestmark = pytest.mark.newest

A = Agent("a")


def _is_one_line(error: BaseException) -> bool:
    return isinstance(error, ADKFluentError) and "\n" not in str(error)


async def test_an_engine_that_is_not_there() -> None:
    """The address is named, and what to start."""
    with pytest.raises(
        EngineError, match=r"No Temporal server answers at 127.0.0.1:9: nobody .*--dev"
    ) as found:
        await A.run("hi", backend=TemporalBackend("127.0.0.1:9"))
    assert _is_one_line(found.value)


def test_a_server_at_the_port_that_is_not_temporals() -> None:
    """A server that was not started is not taken for one that was: what Temporal's says is told."""
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(EngineError, match=r"did not start: .*address already in use") as found,
    ):
        DevServer(port=other.getsockname()[1]).start()
    assert _is_one_line(found.value)


def test_a_temporal_server_at_the_port(temporal: DevServer) -> None:
    """Another one is not taken for the one that was asked for."""
    with pytest.raises(EngineError, match=f"At port {temporal.port} is another server already") as found:
        DevServer(port=temporal.port).start()
    assert _is_one_line(found.value)


def test_a_server_that_cannot_keep_its_runs(tmp_path: Path) -> None:
    """Its own words say why it did not start."""
    with pytest.raises(EngineError, match=r"did not start: .*nowhere: no such file") as found:
        DevServer(tmp_path / "nowhere" / "runs.db").start()
    assert _is_one_line(found.value)


def test_a_free_port_is_given_to_nobody_else() -> None:
    """Between being chosen and being listened at, a port goes to nobody that takes any port."""
    port = free_port()
    with socket.socket() as any_other, pytest.raises(OSError, match="in use"):
        any_other.bind(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()


async def test_a_worker_that_is_not_there(temporal: DevServer) -> None:
    """The caller is told within the time given, and the run is stopped, so that no later worker does it."""
    backend = TemporalBackend(temporal.address, worker_timeout=0.2)
    with pytest.raises(EngineError, match=r"No worker took up the run within 0.2 s: .*'a@\w{12}'") as found:
        await A.run("hi", session_id="nobody", backend=backend)
    assert _is_one_line(found.value)
    client = await backend.address.client()
    try:
        described = await client.get_workflow_handle("adk_fluent_app/user/nobody").describe()
    except RPCError as error:  # it came too late to be taken at all
        assert error.status is RPCStatusCode.NOT_FOUND  # noqa: PT017
    else:
        assert described.status is WorkflowExecutionStatus.TERMINATED


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_a_predicate_that_blocks(
    temporal: DevServer, tmp_path: Path, patience: Clock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is named with its place, and the run is stopped, instead of being decided again for ever."""
    monkeypatch.setattr(following, "LOOK", 1.0)
    crew = Crew(temporal.address, tmp_path, f"blocks {when}")
    expression = blocked if when == "at once" else blocked_later
    backend = TemporalBackend(temporal.address, queue=crew.queue, worker_timeout=4)
    client = await backend.address.client()
    handle = client.get_workflow_handle(f"adk_fluent_app/user/{crew.queue}")
    try:
        crew.start("blocked" if when == "at once" else "blocked_later")
        run = asyncio.ensure_future(expression.run("hi", session_id=crew.queue, backend=backend))
        await crew.until("blocks begins")
        await happened(handle, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED)
        patience.now += 4  # in which the worker did not take the run up, if it is about its first decision
        with pytest.raises(EngineError, match=r"'blocks' \(steps.py, line \d+\) blocks for") as found:
            await within_limit(run)
    finally:
        crew.end()
    assert _is_one_line(found.value)
    described = await handle.describe()
    assert described.status is WorkflowExecutionStatus.TERMINATED


async def test_a_worker_whose_predicate_blocked_ends(workers: Workers) -> None:
    """As soon as the predicate has come back: the run is let go of only then."""
    begun, goes_on, back = threading.Event(), threading.Event(), threading.Event()

    def blocks(state: object) -> bool:
        begun.set()
        goes_on.wait(LIMIT)
        back.set()
        return True

    expression, backend = Route("x").when(blocks, with_models(A, {})).otherwise(Agent("b")), Served(workers)
    run = asyncio.ensure_future(expression.run("hi", session_id="blocks", backend=backend))
    await happens(begun)
    handle = (await backend.address.client()).get_workflow_handle("adk_fluent_app/user/blocks")
    # Temporal's library gives the predicate up, and takes the run away from it.
    await happened(handle, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED)
    assert not back.is_set()
    goes_on.set()
    await happens(back)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await in_thread(workers.rest, limit=LIMIT + 1)


@pytest.mark.parametrize("address", ["", "here", 7233, "host:", None, "host:99999", ":7233", "host:0"])
def test_a_wrong_address(address: Any) -> None:
    """It is HOST:PORT."""
    with pytest.raises(ArgumentError, match="HOST:PORT"):
        TemporalBackend(address)


@pytest.mark.parametrize("policy", [{"timeout": 0}, {"heartbeat": -1}, {"attempts": 0}, {"attempts": True}])
def test_a_wrong_policy(policy: dict[str, Any]) -> None:
    """Times are positive, and so is the number of attempts."""
    with pytest.raises(ArgumentError, match=next(iter(policy))):
        StepPolicy(**policy)


async def test_state_that_json_cannot_hold(workers: Workers) -> None:
    """The key is named: before the run if the caller gives it, in the run if a step writes it."""
    backend = Served(workers)
    expression = with_models(A, {"a": "one"})
    with pytest.raises(RunError, match="JSON cannot hold the state key 'lock'") as found:
        await expression.run("hi", state={"lock": asyncio.Lock()}, backend=backend)
    assert _is_one_line(found.value)
    writes = S.compute(lock=lambda state: object()) >> expression
    with pytest.raises(
        RunError, match="JSON cannot hold what is returned by the function of 'compute'"
    ) as found:
        await writes.run("hi", backend=backend)
    assert _is_one_line(found.value)


async def test_a_step_that_raises(workers: Workers) -> None:
    """Its error is what it is on any backend, and the step is not tried again."""
    tried: list[str] = []

    def fails(state: object) -> dict[str, Any]:
        tried.append("once")
        raise ValueError("no")

    with pytest.raises(StepError, match=r"'fails'.*no") as found:
        await (fails >> with_models(A, {})).run("hi", backend=Served(workers))
    assert isinstance(found.value.__cause__, ValueError)
    assert tried == ["once"]


async def test_telemetry_stays_where_it_is() -> None:
    """Exporters are live objects, which no worker could be sent."""
    config = ExecutionConfig(telemetry=TelemetryConfig())
    with pytest.raises(BackendError, match=r"Give it to run_worker\(telemetry=\)"):
        await A.run("hi", config=config, backend=TemporalBackend())


async def test_one_run_at_a_time_in_a_session(workers: Workers) -> None:
    """A second run in a session that has not ended is refused."""
    asked, answer = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(heard: str) -> str:
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(answer.wait(), loop).result(LIMIT)
        return "done"

    expression, backend = with_models(A, {"a": slow}), Served(workers)
    first = asyncio.ensure_future(expression.run("hi", session_id="one", backend=backend))
    await asked.wait()
    with pytest.raises(SessionConflictError, match="'one' has a run that has not ended"):
        await expression.run("again", session_id="one", backend=backend)
    answer.set()
    assert (await first).text == "done"


ENDING = """
import atexit, os, threading
import adk_fluent.backends.temporal.connecting

ending = threading.Event()

def answer():
    ending.wait()
    os.write(1, b"There was time.")

threading.Thread(target=answer, daemon=True).start()
atexit.register(ending.set)
"""


def test_a_program_may_end_right_after_an_answer() -> None:
    """A thread of Temporal's client may still be at it, and would abort a Python that has begun to end."""
    told = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, check=True, timeout=LIMIT)
    assert told.stdout == b"There was time."
