"""A pipeline with a queue, and a worker of it that a test starts as a process and kills."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from adk_fluent import S
from adk_fluent.distributed import QueueWorker, TransportConfig
from adk_fluent.distributed.queues import journal
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


async def serve(server: str, where: str) -> None:
    """Serve the queue for ever."""
    await QueueWorker(pipeline(server), journal=where, redeliver_after=0.5).start()
    await asyncio.Event().wait()


def _note(state: Mapping[str, Any], step: str) -> dict[str, str]:
    with Path(state["task"]).open("a") as log:
        log.write(f"{step}\n")
    return {step: "done"}


@declares(reads=["task"], writes=["one"])
def one(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that leaves a line in a file."""
    return _note(state, "one")


@declares(reads=["task"], writes=["two"])
def two(state: Mapping[str, Any]) -> dict[str, str]:
    """Another."""
    return _note(state, "two")


def noting(endpoint: str) -> Expr[Any]:
    """A pipeline with two such steps behind a queue; the prompt says which file."""
    queue = TransportConfig(endpoint=endpoint)
    return S.capture("task") >> S.fn(one).execution_boundary(transport=queue) >> S.fn(two)


def die(endpoint: str, at: int) -> None:
    """Serve a queue until this process kills itself before the effect of that number."""
    asyncio.run(_serve_until(endpoint, at))


async def _serve_until(endpoint: str, at: int) -> None:
    journal.LEASE = 0.5
    worker = QueueWorker(noting(endpoint), redeliver_after=60)
    done = 0

    def counting(effect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*given: Any) -> Any:
            nonlocal done
            done += 1
            if done == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return await effect(*given)

        return counted

    inside: Any = worker
    for owner, names in ((inside._journal, ("attempt", "add", "finish")), (inside._broker, ("publish",))):
        for name in names:
            setattr(owner, name, counting(getattr(owner, name)))
    await worker.start()
    await asyncio.Event().wait()
