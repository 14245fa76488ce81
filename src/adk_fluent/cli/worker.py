"""`adk-fluent worker`: a process that works on durable runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from adk_fluent.cli.look import inside
from adk_fluent.ir.base import Node


def worker(
    target: str,
    *,
    segment: str | None,
    address: str | None,
    queue: str | None,
    sessions: Path | None,
    dev: Path | None,
) -> int:
    """Work on the runs of TARGET until interrupted.

    Args:
        segment: of a pipeline that is cut, the one to work on; by default all.
        address: of the Temporal server; by default that of one on this machine.
        dev: the folder for a server of its own, started on this machine, and for the sessions.

    Raises:
        UsageError: TARGET cannot be loaded.
        CompileError: something in it has no place on the engine.
        EngineError: no server answers.
    """
    node = inside(target).node
    if dev is not None:
        dev.mkdir(parents=True, exist_ok=True)
        sessions = sessions or dev / "sessions.db"
    with asyncio.Runner() as loop:
        loop.run(_work(node, segment, address, queue, sessions, dev))
    return 0


async def _work(
    node: Node,
    segment: str | None,
    address: str | None,
    queue: str | None,
    sessions: Path | None,
    dev: Path | None,
) -> None:
    from adk_fluent.backends.temporal.connecting import LOCAL, Address, queue_of
    from adk_fluent.backends.temporal.worker import working
    from adk_fluent.distributed.durable import hosting

    services: dict[str, Any] = {}
    if sessions is not None:
        from adk_fluent.backends.adk.running.native import sqlite_sessions

        services["session_service"] = sqlite_sessions(sessions)
    stopping = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stopping.set)
    async with (
        _server(address or LOCAL, dev) as server,
        working(node, Address(server), queue=queue, services=services, host=hosting(segment)),
    ):
        print(f"Working on {queue_of(node, queue)} at {server}. Ctrl-C ends it.", flush=True)
        await stopping.wait()
        print("Finishing what is begun.", file=sys.stderr, flush=True)


@asynccontextmanager
async def _server(address: str, dev: Path | None) -> AsyncGenerator[str]:
    """The address of the server; with `dev`, of one that is started here."""
    if dev is None:
        yield address
        return
    from adk_fluent.backends.temporal.connecting import Address
    from adk_fluent.backends.temporal.server import DevServer

    server = DevServer(dev / "temporal.db", Address(address).port)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()
