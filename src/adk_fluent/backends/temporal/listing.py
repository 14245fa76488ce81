"""The task queues that have runs: which versions of expressions still need workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.starting import unreachable
from adk_fluent.backends.temporal.workflow import WAITING

_RUNS: Final = "ExecutionStatus = 'Running' AND WorkflowType IN ('adk_fluent.run', 'adk_fluent.segment')"
LISTENING: Final = timedelta(seconds=70)
"""How long ago a worker may have asked for work and still count; it asks at least once a minute."""


@dataclass(slots=True)
class Queue:
    """A task queue that has runs.

    Attributes:
        name: its name: that of the expression, and its version.
        since: when the oldest of its runs began.
        in_flight: how many runs, or segments of runs, are being worked on.
        waiting: how many wait for a person.
        workers: how many workers listen.
    """

    name: str
    since: datetime
    in_flight: int = 0
    waiting: int = 0
    workers: int = 0


async def queues(address: Address) -> list[Queue]:
    """The task queues that have runs in flight or waiting, by name; those of all versions.

    Raises:
        EngineError: no server answers.
    """
    client = await address.client()
    found: dict[str, Queue] = {}
    try:
        async for name, waits, began in _runs(client):
            queue = found.setdefault(name, Queue(name, began))
            queue.waiting += waits
            queue.in_flight += not waits
            queue.since = min(queue.since, began)
        for queue in found.values():
            queue.workers = await _workers(client, queue.name)
    except RPCError as error:
        raise unreachable(address.host, error) from error
    return sorted(found.values(), key=lambda queue: queue.name)


async def _runs(client: Client) -> AsyncGenerator[tuple[str, bool, datetime], None]:
    async for run in client.list_workflows(_RUNS):
        yield run.task_queue, bool(await run.memo_value(WAITING, False)), run.start_time


async def _workers(client: Client, name: str) -> int:
    """How many workers have asked for work on a queue lately."""
    told = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=name),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    since = datetime.now(UTC) - LISTENING
    asked = {each.identity for each in told.pollers if each.last_access_time.ToDatetime(UTC) > since}
    return len(asked)
