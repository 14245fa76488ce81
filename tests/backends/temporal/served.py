"""What a worker process runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.adk.running.sqlite import sqlite_sessions
from adk_fluent.backends.temporal import sizes
from adk_fluent.backends.temporal.worker import working  # imported before any worker is forked
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import run_worker
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer
from tests.backends.temporal import steps
from tests.limits import LIMIT

__all__ = ["serve", "working"]


def serve(address: str, expression: str, queue: str, folder: str, segment: str | None) -> None:
    """Work until killed."""
    os.environ[steps.FOLDER] = folder
    if (short := Path(folder) / "long-events").exists():
        sizes.LONG_EVENTS = int(short.read_text())
    sessions = sqlite_sessions(Path(folder) / "sessions.db")
    given: Expr[Any] | Callable[[], Expr[Any]] = getattr(steps, expression)
    asyncio.run(
        run_worker(
            cast("Expr[Any]", given) if isinstance(given, Expr) else given(),
            address=address,
            segment=segment,
            queue=queue,
            session_service=sessions,
        )
    )


def run_alone(prompt: str, session_id: str, folder: str) -> None:
    """Run the pipeline, durable on this machine."""
    os.chdir(folder)
    os.environ[steps.FOLDER] = folder
    config = ExecutionConfig(durable="local")
    asyncio.run(steps.pipeline.run(prompt, session_id=session_id, config=config))


def serve_tasks(address: str, expression: str, queue: str, folder: str, port: int) -> None:
    """Serve an expression over A2A; on this machine alone where there is no address."""
    os.chdir(folder)
    os.environ[steps.FOLDER] = folder

    async def serving() -> None:
        options: dict[str, Any] = {"config": ExecutionConfig(durable="local")}
        if address:
            options = {"backend": TemporalBackend(address, queue=queue, worker_timeout=LIMIT)}
        server = A2AServer(getattr(steps, expression), store=Path(folder) / "tasks.db", **options)
        await server.start(port=port)
        await asyncio.Event().wait()

    asyncio.run(serving())
