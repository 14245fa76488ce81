"""Workers in a thread, while a test does something else, and the expressions that they run."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any

from google.adk.sessions import BaseSessionService
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle

from adk_fluent.backends.adk.running.runner import fresh_services
from adk_fluent.backends.temporal.backend import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.starting import Durable
from adk_fluent.backends.temporal.worker import working
from adk_fluent.ir import Node
from tests.limits import LIMIT


class Workers:
    """An event loop in a thread, in which workers work until the test is over."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.address = address
        self._loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for some work in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def work(self, node: Node, queue: str, **options: Any) -> None:
        """Work on the runs of an expression from now on."""
        self.run(
            self._stack.enter_async_context(working(node, Address(self.address), queue=queue, **options))
        )

    def rest(self) -> None:
        """End all workers."""
        self.run(self._stack.aclose())

    def close(self) -> None:
        """End the thread."""
        self.rest()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self._loop.close()


class Served(TemporalBackend):
    """A backend that has a worker for each expression which is compiled for it, and a queue of its own."""

    def __init__(
        self,
        workers: Workers,
        working: Mapping[str, Any] = MappingProxyType({}),
        sessions: BaseSessionService | None = None,
        worker_timeout: float = LIMIT,
        **options: Any,
    ) -> None:
        self._work_options = working
        self._workers, self._name = workers, str(uuid.uuid4())
        self._served = dict[str, Node]()
        self._services = {"session_service": sessions or fresh_services().session_service}
        super().__init__(workers.address, queue=self._name, worker_timeout=worker_timeout, **options)

    def compile(self, node: Node, config: Any = None, **options: Any) -> Durable:
        """As the backend itself, and with a worker."""
        compiled = super().compile(node, config, **options)
        if compiled.queue not in self._served:
            self._served[compiled.queue] = node
            self._work(node)
        return compiled

    def replace_workers(self) -> None:
        """End all workers, and start others, which know a run by its history alone."""
        self._workers.rest()
        for node in self._served.values():
            self._work(node)

    def _work(self, node: Node) -> None:
        self._workers.work(node, self._name, services=self._services, **self._work_options)


async def happened(handle: WorkflowHandle[Any, Any], kind: EventType.ValueType) -> HistoryEvent:
    """Wait until something is in the history of a run: the first event of this kind."""
    async with asyncio.timeout(LIMIT):
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.event_type == kind:
                return event
    raise AssertionError(f"{handle.id!r} ended without {EventType.Name(kind)}")
