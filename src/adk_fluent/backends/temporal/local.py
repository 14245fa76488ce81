"""`ExecutionConfig(durable="local")`: durable runs on this machine, with nothing to start or look after.

The engine is Temporal's own server for development, a program of an installed package that keeps everything
in one SQLite file, and a worker in this process: what holds on a cluster holds here, streams, approvals and
parallel branches too. A library that notes steps in SQLite by their order would do with less, but two
branches at the same time have no order, and it streams nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from adk_fluent.backends.adk.api import DEFAULT_USER, ADKBackend, sqlite
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.temporal.backend import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.policy import StepPolicy
from adk_fluent.backends.temporal.sharing import server_of, shared
from adk_fluent.backends.temporal.starting import Durable
from adk_fluent.backends.temporal.worker import working
from adk_fluent.errors import ArgumentError

FOLDER: Final = Path(".adk-fluent")
"""Where runs and sessions are kept, in the folder that the program was started in."""

_PROCESS: Final = uuid.uuid4().hex


def local_backend(given: object) -> LocalBackend:
    """The backend for runs that are durable on this machine.

    Args:
        given: the caller's backend, whose models answer: `None`, an `ADKBackend`, or a `MockBackend`.

    Raises:
        ArgumentError: it is no such backend.
    """
    if given is not None and type(given) not in (ADKBackend, MockBackend):
        raise ArgumentError(
            f'ExecutionConfig(durable="local") runs on ADK, not on {type(given).__name__}; leave backend or '
            "durable out."
        )
    return _backend(FOLDER.absolute(), cast("ADKBackend | None", given))


@lru_cache(32)
def _backend(folder: Path, models: ADKBackend | None) -> LocalBackend:
    return LocalBackend(folder, models)


class LocalBackend(TemporalBackend):
    """Runs on a server and a worker of its own, as long as something is to be done.

    The runs of one event loop that have the same expression, models and services share a worker. It has a
    task queue of its own, so no step is done with the models of others, or ends with them. A run that another
    process left is taken up on the queue that it has.

    Args:
        folder: where runs and sessions are kept.
        models: a backend whose models answer.
    """

    def __init__(self, folder: Path, models: ADKBackend | None = None) -> None:
        super().__init__(worker_timeout=60, policy=StepPolicy(heartbeat=2))
        self._folder, self._models = folder, models or ADKBackend()

    def _check_services(self, services: Mapping[str, Any] | None) -> None:
        """Take any: the worker of this process uses them."""

    @asynccontextmanager
    async def _working(
        self, compiled: Durable, services: Mapping[str, Any] | None, user_id: str, session_id: str
    ) -> AsyncGenerator[Durable]:
        """What runs, on the queue on which this process works inside."""
        queue = await self._left(compiled, user_id, session_id) or self._own_queue(compiled, services or {})
        given = {"session_service": sqlite.sqlite_sessions(self._folder / "sessions.db"), **(services or {})}

        def opens() -> AbstractAsyncContextManager[None]:
            return working(compiled.node, self.address, on=queue, models=self._models, services=given)

        async with shared((self.address, queue), opens):
            yield replace(compiled, queue=queue)

    async def _queue_of_run(self, compiled: Durable, user_id: str, session_id: str) -> str | None:
        """The same on the server of the folder, which is started unless it runs."""
        self.address: Address = self.address.at(await asyncio.to_thread(server_of, self._folder))
        return await super()._queue_of_run(compiled, user_id, session_id)

    async def _left(self, compiled: Durable, user_id: str, session_id: str) -> str | None:
        """The queue of the run that is on its way in a session, if it is one of this expression."""
        queue = await self._queue_of_run(compiled, user_id, session_id)
        return queue if queue is not None and queue.startswith(f"{compiled.queue}/") else None

    def _own_queue(self, compiled: Durable, services: Mapping[str, Any]) -> str:
        """The queue of those runs of this event loop that have the same models and services."""
        same = (asyncio.get_running_loop(), self._models, *services.values())
        told = f"{_PROCESS} {os.getpid()} {[*map(id, same)]} {[*services]}"
        return f"{compiled.queue}/{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    async def forget(
        self,
        compiled: Durable,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete a session."""
        self._just_ended(compiled, user_id, session_id)
        whose: dict[str, Any] = {"user_id": user_id, "session_id": session_id}
        async with self._working(compiled, services, **whose) as here:
            await self._sessions(here, {"do": "forget", **whose})
