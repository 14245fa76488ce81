"""`ExecutionConfig(durable="local")`: durable runs on this machine, with nothing to start or look after.

The engine is Temporal's own server for development, a program of an installed package that keeps everything
in one SQLite file, and a worker in this process: what holds on a cluster holds here, streams, approvals and
parallel branches too. A library that notes steps in SQLite by their order would do with less, but two
branches at the same time have no order, and it streams nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from adk_fluent.backends.adk.running.backend import DEFAULT_USER, ADKBackend
from adk_fluent.backends.adk.running.sqlite import sqlite_sessions
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.protocol import StoredSession
from adk_fluent.backends.temporal.backend import Durable, TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.policy import StepPolicy
from adk_fluent.backends.temporal.sharing import server_of
from adk_fluent.backends.temporal.worker import working
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node

FOLDER: Final = Path(".adk-fluent")
"""Where runs and sessions are kept, in the folder that the program was started in."""


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


@cache
def _backend(folder: Path, models: ADKBackend | None) -> LocalBackend:
    return LocalBackend(folder, models)


class LocalBackend(TemporalBackend):
    """Runs on a server and a worker of its own, as long as something is to be done.

    Args:
        folder: where runs and sessions are kept.
        models: a backend whose models answer.
    """

    def __init__(self, folder: Path, models: ADKBackend | None = None) -> None:
        super().__init__(worker_timeout=60, policy=StepPolicy(heartbeat=2))
        self._folder, self._models = folder, models
        self._nodes: dict[str, Node] = {}

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> Durable:
        """As on Temporal."""
        compiled = super().compile(node, config)
        self._nodes[compiled.queue] = node
        return compiled

    @asynccontextmanager
    async def _working(self, compiled: Durable, services: Mapping[str, Any] | None) -> AsyncGenerator[None]:
        """Inside, the server runs and this process works."""
        self.address: Address = self.address.at(await asyncio.to_thread(server_of, self._folder))
        given = {"session_service": sqlite_sessions(self._folder / "sessions.db"), **(services or {})}
        node = self._nodes[compiled.queue]
        async with working(node, self.address, models=self._models or ADKBackend(), services=given):
            yield

    async def stream(
        self, compiled: Durable, prompt: Any, *, services: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        """Give events as they happen."""
        async with (
            self._working(compiled, services),
            aclosing(super().stream(compiled, prompt, **options)) as events,
        ):
            async for event in events:
                yield event

    async def session(
        self,
        compiled: Durable,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> StoredSession:
        """A session."""
        async with self._working(compiled, services):
            return await super().session(compiled, session_id=session_id, user_id=user_id)

    async def resume(
        self, compiled: Durable, *, services: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer what a paused run waits for, and give the events that follow."""
        async with (
            self._working(compiled, services),
            aclosing(super().resume(compiled, **options)) as events,
        ):
            async for event in events:
                yield event

    async def rewind(
        self, compiled: Durable, *, services: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Undo a run and all after it."""
        async with self._working(compiled, services):
            await super().rewind(compiled, **options)

    async def forget(
        self,
        compiled: Durable,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete a session."""
        async with self._working(compiled, services):
            await self._sessions(compiled, {"do": "forget", "user_id": user_id, "session_id": session_id})
