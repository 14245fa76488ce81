"""What our events cost beside ADK's own."""

from __future__ import annotations

from collections.abc import Iterator

from google.adk.sessions import InMemorySessionService

from adk_fluent import Pipeline, S
from adk_fluent.config import ExecutionConfig
from benchmarks.by_hand import run, runner
from benchmarks.harness import Figure, compare, event_loop
from benchmarks.transform import count

ROUNDS = 60
EVENTS = 40


def figures() -> Iterator[Figure]:
    """`stream` against ADK's runner on the same native agents, per event."""
    pipeline = Pipeline(*[S.fn(count) for _ in range(EVENTS)])
    native = runner(pipeline.build())
    service, config = InMemorySessionService(), ExecutionConfig(streaming_mode="none")

    async def stream() -> object:
        return [e async for e in pipeline.stream("go", session_service=service, config=config)]

    with event_loop() as blocking:
        by_hand = blocking(lambda: run(native))
        yield compare("an event of stream()", blocking(stream), by_hand, rounds=ROUNDS, per=EVENTS)
