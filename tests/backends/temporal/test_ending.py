"""What is left of a run when it is cancelled, or when its worker ends: nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent import Agent, FanOut, gate
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.worker import working
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.limits import LIMIT, within_limit

pytestmark = pytest.mark.newest


@contextmanager
def nothing_left() -> Generator[None]:
    """Fail if the garbage collector has to destroy what has not ended."""
    left: list[str] = []

    def note(what: Any) -> None:
        left.append(f"{what.object!r}: {what.exc_value!r}")

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert not left


class Hanging:
    """A tool and a model that never end.

    Attributes:
        begun: set when one of them has begun.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def look(self) -> str:
        """Look."""
        self.begun.set()
        await asyncio.Event().wait()
        return ""

    async def say(self, request: Any) -> AsyncGenerator[str]:
        """Begin to answer."""
        yield "one "
        yield await self.look()


def _expression(kind: str, hanging: Hanging) -> tuple[Expr[Any], dict[str, Any]]:
    a, b = Agent("a"), Agent("b")
    kinds: dict[str, tuple[Expr[Any], dict[str, Any]]] = {
        "model": (a, {"a": hanging.say}),
        "tool": (b >> a.tool(hanging.look), {"a": [call_tool("look"), "done"]}),
        "branch": (FanOut(a, b), {"a": hanging.say}),
        "gate": (b >> gate(lambda state: True, message="Go?") >> a, {}),
    }
    return kinds[kind]


@pytest.mark.parametrize("kind", ["model", "tool", "branch", "gate"])
async def test_a_worker_that_ends_lets_its_runs_go(temporal: DevServer, kind: str) -> None:
    """The runs it holds are for other workers; none is left for the garbage collector to destroy."""
    hanging = Hanging()
    expression, script = _expression(kind, hanging)
    queue = f"ends-{kind}"
    backend = TemporalBackend(temporal.address, queue=queue, worker_timeout=LIMIT)
    models = mock_backend(script, default="ok")
    with nothing_left():
        async with working(expression.node, Address(temporal.address), queue=queue, models=models, grace=0):
            run = asyncio.ensure_future(expression.run("hi", backend=backend))
            await (asyncio.wait([run]) if kind == "gate" else hanging.begun.wait())
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        del run


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
@pytest.mark.parametrize("kind", ["model", "tool", "branch"])
async def test_a_run_that_is_cancelled_ends(
    temporal: DevServer, kind: str, caplog: pytest.LogCaptureFixture, *, streamed: bool
) -> None:
    """Its workflow is closed, whatever it was about; it leaves nothing behind, nor a complaint."""
    hanging = Hanging()
    expression, script = _expression(kind, hanging)
    queue = f"cancelled-{kind}-{streamed}"
    backend = TemporalBackend(temporal.address, queue=queue, worker_timeout=LIMIT)
    models = mock_backend(script, default="ok")
    client = await backend.address.client()
    handle = client.get_workflow_handle(f"adk_fluent_app/user/{queue}")

    async def read() -> None:
        if streamed:
            async for _ in expression.stream("hi", session_id=queue, backend=backend):
                pass
        else:
            await expression.run("hi", session_id=queue, backend=backend)

    with nothing_left():
        async with working(expression.node, Address(temporal.address), queue=queue, models=models):
            reader = asyncio.ensure_future(read())
            await hanging.begun.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            with pytest.raises(WorkflowFailureError) as ended:
                await within_limit(handle.result())
            assert isinstance(ended.value.cause, CancelledError | TerminatedError)
    complaints = (record for record in caplog.records if record.levelno > logging.INFO)
    assert [one.message for one in complaints if one.name.startswith(("temporalio", "asyncio"))] == []


async def test_who_reads_a_run_that_is_stopped_is_told(temporal: DevServer) -> None:
    """Somebody cancels its workflow, as in Temporal's own interface: its caller hears so, in one line."""
    hanging = Hanging()
    expression, script = _expression("tool", hanging)
    backend = TemporalBackend(temporal.address, queue="stopped", worker_timeout=LIMIT)
    models = mock_backend(script, default="ok")
    async with working(expression.node, Address(temporal.address), queue="stopped", models=models):
        run = asyncio.ensure_future(expression.run("hi", session_id="stopped", backend=backend))
        await hanging.begun.wait()
        client = await backend.address.client()
        await client.get_workflow_handle("adk_fluent_app/user/stopped").cancel()
        with pytest.raises(RunError, match="was stopped from outside"):
            await run


async def test_a_caller_that_is_cancelled_at_once_starts_nothing(temporal: DevServer) -> None:
    """The run that its call has just begun ends, also before anything came back from it."""
    hanging = Hanging()
    expression, _ = _expression("model", hanging)
    backend = TemporalBackend(temporal.address, queue="at-once", worker_timeout=LIMIT)
    client = await backend.address.client()
    handle = client.get_workflow_handle("adk_fluent_app/user/at-once")
    run = asyncio.ensure_future(expression.run("hi", session_id="at-once", backend=backend))
    async with asyncio.timeout(LIMIT):
        while not await _is_there(handle):
            await asyncio.sleep(0.02)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    with pytest.raises(WorkflowFailureError):
        await handle.result()


async def _is_there(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        return (await handle.describe()).status is not None
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
