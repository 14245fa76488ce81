"""Workers and callers of a queue, for tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.worker import working
from adk_fluent.distributed import DistributedBackend, TransportConfig
from adk_fluent.distributed.durable import hosting, queued, shared_services
from adk_fluent.distributed.queues.brokers import Message, broker_of
from adk_fluent.distributed.queues.serving import consuming
from adk_fluent.expr.base import Expr
from tests.distributed import served
from tests.distributed.served import Crew


def a_queue(server: str) -> TransportConfig:
    """A queue that nobody has used before."""
    return TransportConfig(endpoint=f"{server}/q{uuid.uuid4().hex[:12]}")


@asynccontextmanager
async def worker(
    pipeline: Expr[Any], address: str, segment: str | None = None, **options: Any
) -> AsyncGenerator[None]:
    """Inside, this process is a worker of the queues of a pipeline; ends as `run_worker` does."""
    place = Address(address)
    given = shared_services(pipeline.node, segment, options.pop("services", {}))
    async with (
        working(pipeline.node, place, host=hosting(segment), services=given, **options),
        consuming(queued(pipeline.node, segment), place),
    ):
        yield


@asynccontextmanager
async def caller(address: str, *given: Any, **options: Any) -> AsyncGenerator[DistributedBackend]:
    """A backend that leaves its queues in the end."""
    backend = DistributedBackend(*given, address=address, **options)
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def crew(address: str, server: str, folder: Path, kind: str = "pipeline") -> AsyncGenerator[Any]:
    """Worker processes, and what calls them; a pipeline whose queue nobody has used before."""
    endpoint = str(a_queue(server).endpoint)
    made = Crew(address, endpoint, folder, kind)
    pipeline = served.PIPELINES[kind](endpoint)
    try:
        async with caller(address, patience=100) as backend:

            def run(task: str) -> asyncio.Future[Any]:
                return asyncio.ensure_future(pipeline.run(task, backend=backend))

            yield made, run
    finally:
        made.end()


async def until(condition: Any) -> None:
    """Wait for a condition, which is a function, async or not."""
    while True:
        found = condition()
        if await found if asyncio.iscoroutine(found) else found:
            return
        await asyncio.sleep(0.05)


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
        await enough.wait()
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await made.close()
    return found
