"""A pipeline with a queue, and a worker of it that a test starts as a process and kills."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from adk_fluent import S
from adk_fluent.distributed import QueueWorker, TransportConfig
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares


@declares(reads=["task"], writes=["began"])
def begin(state: Mapping[str, Any]) -> dict[str, int]:
    """A step that says in which process it ran."""
    return {"began": os.getpid()}


@declares(reads=["began"], writes=["ended"])
def end(state: Mapping[str, Any]) -> dict[str, int]:
    """A step that never comes to an end in the process that is to be killed."""
    if sys.argv[-1] == "to be killed":
        print("ready to be killed", flush=True)
        time.sleep(3600)
    return {"ended": os.getpid()}


def pipeline(server: str) -> Expr[Any]:
    """The pipeline with its queue at a server."""
    queue = TransportConfig(endpoint=f"{server}/steps")
    return S.capture("task") >> S.fn(begin).execution_boundary(transport=queue) >> S.fn(end)


async def serve(server: str, journal: str) -> None:
    """Serve the queue for ever."""
    await QueueWorker(pipeline(server), journal=journal, redeliver_after=0.5).start()
    await asyncio.Event().wait()
