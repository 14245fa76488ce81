"""Workers and callers of a queue, for tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowHandle

from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.policy import StepPolicy
from adk_fluent.backends.temporal.worker import working
from adk_fluent.distributed import DistributedBackend, TransportConfig
from adk_fluent.distributed.durable import hosting, queued, shared_services
from adk_fluent.distributed.queues.brokers import Handler, Message, broker_of
from adk_fluent.distributed.queues.serving import consuming
from adk_fluent.expr.base import Expr
from tests.distributed import served
from tests.distributed.served import Crew
from tests.limits import LIMIT, within_limit


def a_queue(server: str) -> TransportConfig:
    """A queue that nobody has used before."""
    return TransportConfig(endpoint=f"{server}/q{uuid.uuid4().hex[:12]}")


@asynccontextmanager
async def worker(
    pipeline: Expr[Any], address: str, segment: str | None = None, **options: Any
) -> AsyncGenerator[None]:
    """Inside, this process is a worker of the queues of a pipeline; ends as `run_worker` does, but soon."""
    place = Address(address)
    options.setdefault("grace", 0.5)
    given = shared_services(pipeline.node, segment, options.pop("services", {}))
    async with (
        working(pipeline.node, place, host=hosting(segment), services=given, **options),
        consuming(queued(pipeline.node, segment), place),
    ):
        yield


@asynccontextmanager
async def caller(address: str, *given: Any, **options: Any) -> AsyncGenerator[DistributedBackend]:
    """A backend that leaves its queues in the end."""
    backend = DistributedBackend(*given, address=address, **{"patience": LIMIT, **options})
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def crew(
    address: str, server: str, folder: Path, kind: str = "pipeline", **policy: Any
) -> AsyncGenerator[Any]:
    """Worker processes, which count as dead soon, and what calls them, by a queue that is new."""
    endpoint = str(a_queue(server).endpoint)
    made = Crew(address, endpoint, folder, kind)
    pipeline = served.PIPELINES[kind](endpoint)
    try:
        steps = StepPolicy(heartbeat=served.HEARTBEAT, **policy)
        async with caller(address, patience=2 * LIMIT, policy=steps) as backend:

            def run(task: str) -> asyncio.Future[Any]:
                return asyncio.ensure_future(pipeline.run(task, backend=backend))

            yield made, run
    finally:
        made.end()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait for a condition, whose look is async."""
    async with asyncio.timeout(LIMIT):
        while not await condition():
            await asyncio.sleep(0.05)


async def segment_run(address: str, endpoint: str) -> WorkflowHandle[Any, Any]:
    """The workflow of the one piece of work that was ever put into a queue."""
    client, found = await Address(address).client(), list[str]()

    async def is_listed() -> bool:
        async for run in client.list_workflows("WorkflowType = 'adk_fluent.segment'"):
            if run.id.startswith(f"queue/{endpoint.rpartition('/')[2]}/"):
                found.append(run.id)
        return bool(found)

    await until(is_listed)
    assert len({*found}) == 1
    return client.get_workflow_handle(found[0])


async def step_on_its_way(
    handle: WorkflowHandle[Any, Any], condition: Callable[[PendingActivityInfo], object] = bool
) -> None:
    """Wait until a worker is at a step, and what the engine knows of it is as the condition wants it."""

    async def look() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        begun = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        return any(step.state == begun and condition(step) for step in pending)

    await until(look)


async def heard(endpoint: str, count: int) -> list[Message]:
    """So many messages of a queue."""
    found: list[Message] = []
    enough = asyncio.Event()

    async def hear(message: Message) -> None:
        found.append(message)
        if len(found) == count:
            enough.set()

    made = broker_of(endpoint)
    await made.open()
    taking = asyncio.ensure_future(made.take(endpoint.rpartition("/")[2], hear))
    try:
        await within_limit(enough.wait())
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await made.close()
    return found


async def put(endpoint: str, *messages: Message) -> None:
    """Put messages into a queue, as a program does that is not ours."""
    made = broker_of(endpoint)
    await made.open()
    try:
        for message in messages:
            await made.put(endpoint.rpartition("/")[2], message)
    finally:
        await made.close()


@asynccontextmanager
async def consumer(endpoint: str, handler: Handler) -> AsyncGenerator[asyncio.Future[None]]:
    """Inside, a function handles the messages of a queue; what is done when the broker is lost."""
    made = broker_of(endpoint)
    await made.open()
    taking = asyncio.ensure_future(made.take(endpoint.rpartition("/")[2], handler))
    try:
        yield taking
    finally:
        taking.cancel()
        await asyncio.wait([taking], timeout=LIMIT)
        await made.close()
