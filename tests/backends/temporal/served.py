"""What a worker process runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from adk_fluent.backends.adk.running.native import sqlite_sessions
from adk_fluent.backends.temporal import sizes
from adk_fluent.backends.temporal.worker import working  # imported before any worker is forked
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import run_worker
from tests.backends.temporal import steps

__all__ = ["serve", "working"]


def serve(address: str, expression: str, queue: str, folder: str, segment: str | None) -> None:
    """Work until killed."""
    os.environ[steps.FOLDER] = folder
    if (given := Path(folder) / "long-events").exists():
        sizes.LONG_EVENTS = int(given.read_text())
    sessions = sqlite_sessions(Path(folder) / "sessions.db")
    asyncio.run(
        run_worker(
            getattr(steps, expression),
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
