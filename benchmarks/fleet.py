"""One, two and four worker processes on a model that takes its time; what a step costs, on paper and here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.worker import working
from benchmarks.harness import Figure

ROUNDS = 4
"""Runs for each place of a worker."""

PLACES = 2
"""Steps that one worker does at the same time."""

SECONDS = 1.0
WORKERS = (1, 2, 4)


class SleepingLlm(BaseLlm):
    """A model that takes its time."""

    seconds: float

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Sleep, and say `ok`."""
        await asyncio.sleep(self.seconds)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="ok")]))


def pipeline(seconds: float) -> Any:
    """One model call."""
    return Agent("sleeper", SleepingLlm(model="sleeping", seconds=seconds))


def work(address: str, queue: str, ready: Path, seconds: float) -> None:
    """A worker process."""

    async def main() -> None:
        async with working(pipeline(seconds).node, Address(address), queue=queue, concurrency=PLACES):
            (ready / str(os.getpid())).touch()
            await asyncio.Event().wait()

    asyncio.run(main())


def figures() -> Iterator[Figure]:
    """Seconds for each model call of a fleet that has as much to do as it can."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.fleet"])
    alone: float | None = None
    with DevServer() as server:
        for count in WORKERS:
            each = measured(server.address, count, context)
            yield Figure(
                what=f"{count} workers with {PLACES} places, a model of {SECONDS:g} s, per call",
                seconds=each,
                against="one worker",
                reference=alone,
                ratio=None if alone is None else each / alone,
                target=None if alone is None else 1.3 / count,
                note=f"{1 / each:.1f} calls a second, of {count * PLACES / SECONDS:g} at most",
            )
            alone = alone or each


def measured(address: str, count: int, context: Any) -> float:
    """Seconds for a call."""
    queue = f"fleet-{count}"
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for _ in range(count):
            process = context.Process(target=work, args=(address, queue, Path(folder), SECONDS))
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
        return asyncio.run(_measured(address, queue, count, Path(folder)))


async def _measured(address: str, queue: str, count: int, ready: Path) -> float:
    while len(list(ready.iterdir())) < count:
        await asyncio.sleep(0.05)
    backend, expression = TemporalBackend(address, queue=queue, worker_timeout=60), pipeline(SECONDS)
    calls = ROUNDS * PLACES * count
    start = perf_counter()
    await asyncio.gather(*(expression.run("go", backend=backend) for _ in range(calls)))
    return (perf_counter() - start) / calls
