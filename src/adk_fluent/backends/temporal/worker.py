"""Workers: processes that do what runs ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from temporalio.client import Client
from temporalio.worker import Worker

from adk_fluent.backends.adk.api import ADKBackend, ids
from adk_fluent.backends.adk.durable.compiling import DurableBackend, Models
from adk_fluent.backends.adk.durable.steps import Table
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.temporal.activities import session_activity, steps
from adk_fluent.backends.temporal.connecting import Address, queue_of
from adk_fluent.backends.temporal.hands import ALONE, Hands, apart
from adk_fluent.backends.temporal.instances import Instances
from adk_fluent.backends.temporal.telling import set_up
from adk_fluent.backends.temporal.turns import Turns
from adk_fluent.backends.temporal.workflow import Run, SegmentRun, SessionWorkflow, leave, serve
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.errors import BackendError
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import resolve_names
from adk_fluent.ir.nodes import AgentNode, SequenceNode

DECIDING: Final = 4
"""How many runs a worker decides on at the same time: deciding is Python, which does one thing at a time."""

Host = Callable[[Node, str, DurableBackend], Sequence[str]]
"""Lets this process run an expression, whose own queue is named; gives the queues to work on."""

_NONE: Models = MappingProxyType({})


@asynccontextmanager
async def working(
    node: Node,
    address: Address,
    *,
    queue: str | None = None,
    on: str | None = None,
    models: Models | ADKBackend = _NONE,
    services: Mapping[str, Any] = MappingProxyType({}),
    concurrency: int = 100,
    cached: int = 1000,
    grace: float = 10.0,
    telemetry: TelemetryConfig | None = None,
    host: Host | None = None,
) -> AsyncGenerator[None]:
    """Inside, this process works on the runs of an expression.

    Args:
        queue: the name of the task queue; by default that of the expression.
        on: the very task queue, in place of `queue` and the hash of the expression.
        models: agent → the model that it gets in place of its own.
        services: the services of the runs, by name.
        concurrency: how many steps are done at the same time.
        cached: how many runs are kept in memory between their steps; others are run again from their history.
        grace: seconds that steps which are on their way have to end, when this ends; then others do them.
        telemetry: where spans and metrics go; what a run only repeats from its history is not told again.
        host: what says on which queues which parts of the expression run; by default all on its own.

    Raises:
        BackendError: the installed ADK cannot be run again from a history.
        EngineError: no server answers.
    """
    if not ids.can_repeat():
        raise BackendError(
            "TemporalBackend needs an ADK that can be run again from a history: google-adk>=2.8. Upgrade it."
        )
    await _warm()
    set_up(telemetry)
    table, plain = Table(), ADKBackend(**services)
    backend = DurableBackend(table, plain.services, models, telemetry)
    backend.compile(node)  # fills the table, and fails here rather than in a run
    compiled, home = plain.compile(node), asyncio.get_running_loop()
    queues = (host or _whole)(node, on or queue_of(node, queue), backend)

    @asynccontextmanager
    async def workers() -> AsyncGenerator[None]:
        client, hands = await address.connect(), Hands(home)
        activities = [*steps(table, client, hands), session_activity(compiled, plain.services, hands)]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(hands.close)
            for name in queues:
                await stack.enter_async_context(_worker(client, name, activities, concurrency, cached, grace))
            yield

    with ExitStack() as served:
        for name in queues:
            served.callback(leave, name)
        async with apart(workers):
            yield


def _whole(node: Node, queue: str, backend: DurableBackend) -> Sequence[str]:
    """The whole expression on one queue."""
    serve(queue, node, backend)
    return [queue]


_warmed: list[bool] = []


async def _warm() -> None:
    """Run something once: what ADK imports and prepares only then takes longer than a decision may."""
    if not _warmed:
        _warmed.append(True)
        backend = MockBackend(default="ok")
        first = resolve_names(SequenceNode(children=(AgentNode(name="a"), AgentNode(name="b")))).root
        for node in (first, first.children[0]):
            await backend.run(backend.compile(node, ExecutionConfig(contracts="off")), "go")


@asynccontextmanager
async def _worker(
    client: Client,
    queue: str,
    activities: Sequence[Callable[..., Any]],
    concurrency: int,
    cached: int,
    grace: float,
) -> AsyncGenerator[None]:
    # Temporal's own build id is a hash of all imported modules, which takes seconds to read.
    runs = Instances()
    deciding = ThreadPoolExecutor(DECIDING, "adk_fluent_deciding")
    worker = Worker(
        client,
        task_queue=queue,
        build_id=queue,
        workflows=[Run, SegmentRun, SessionWorkflow, Turns],
        activities=activities,
        workflow_runner=runs,
        unsandboxed_workflow_runner=runs,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_concurrent_activities=concurrency,
        max_cached_workflows=cached,
        max_concurrent_workflow_tasks=DECIDING,
        workflow_task_executor=deciding,
        graceful_shutdown_timeout=timedelta(seconds=grace),
        # Temporal's own, 80 % of what the policy allows, leaves a busy machine too little.
        max_heartbeat_throttle_interval=timedelta(seconds=0.25),
    )
    suspects = Worker(
        client,
        task_queue=queue + ALONE,
        build_id=queue,
        activities=activities,
        max_concurrent_activities=1,
        graceful_shutdown_timeout=timedelta(seconds=grace),
        max_heartbeat_throttle_interval=timedelta(seconds=0.25),
    )
    try:
        async with worker, suspects:
            yield
    finally:
        await asyncio.to_thread(_ended, deciding, runs)


def _ended(deciding: ThreadPoolExecutor, runs: Instances) -> None:
    """End the threads in which runs are decided, then the runs."""
    deciding.shutdown()
    runs.let_go()


async def work(node: Node, address: Address, **options: Any) -> None:
    """Work on the runs of an expression until cancelled; takes what `working` takes."""
    async with working(node, address, **options):
        await asyncio.Event().wait()
