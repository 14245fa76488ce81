"""What our events cost beside ADK's own, and what a streaming edge saves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from statistics import median
from time import perf_counter

from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, Pipeline, S
from adk_fluent.config import ExecutionConfig
from adk_fluent.testing import mock_backend
from benchmarks.by_hand import run, runner
from benchmarks.harness import Figure, compare, event_loop, in_turn
from benchmarks.transform import count

ROUNDS = 60
EVENTS = 40
EDGES = 5
"""Rounds of what waits, so that it takes a second whatever the machine does."""
TOKENS = 60
"""What the first model says, and in all the second; a token each time."""
PIECES = 6
SECONDS = 0.02
"""How long a model takes for a token."""


def figures() -> Iterator[Figure]:
    """`stream` against ADK's runner on the same native agents, per event; two agents joined by an edge."""
    pipeline = Pipeline(*[S.fn(count) for _ in range(EVENTS)])
    native = runner(pipeline.build())
    service, config = InMemorySessionService(), ExecutionConfig(streaming_mode="none")

    async def stream() -> object:
        return [e async for e in pipeline.stream("go", session_service=service, config=config)]

    with event_loop() as blocking:
        by_hand = blocking(lambda: run(native))
        yield compare("an event of stream()", blocking(stream), by_hand, rounds=ROUNDS, per=EVENTS)
        yield _edge()


def _edge() -> Figure:
    """Two agents, each of which takes a second, joined by a chunked edge."""
    size = TOKENS // PIECES
    up = Agent("up").stream_to("chunked", chunk_size=size)
    down = Agent("down")

    async def first(request: LlmRequest) -> AsyncIterator[str]:
        for _ in range(TOKENS):
            await asyncio.sleep(SECONDS)
            yield "abc "  # a token by our estimate, too

    async def second(request: LlmRequest) -> AsyncIterator[str]:
        for _ in range(size):
            await asyncio.sleep(SECONDS)
            yield "done "

    async def alone() -> object:
        return await up.run("go", backend=mock_backend({"up": first}))

    async def together() -> object:
        return await (up >> down).run("go", backend=mock_backend({"up": first, "down": second}))

    with event_loop() as blocking:
        runs = (blocking(together), blocking(alone))
        mine, slower = in_turn(runs, min(EDGES, ROUNDS), perf_counter)
    return Figure(
        what=f"two agents over a chunked edge, {SECONDS * 1000:g} ms a token",
        seconds=median(mine),
        against="the slower of the two alone",
        reference=median(slower),
        ratio=median(a / b for a, b in zip(mine, slower, strict=True)),
        note=f"one after the other they would take {2 * median(slower):.2f} s; the last of {PIECES} pieces "
        "can only begin when the answer stands",
    )
