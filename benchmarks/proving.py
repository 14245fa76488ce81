"""Testing, recording and replaying: what a test suite pays for them, beside what ADK takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adk_fluent import Agent, C, Loop, Pipeline, S
from adk_fluent.debug import Recorder, Recording, diff_recordings
from adk_fluent.testing import AgentHarness, mock_backend
from benchmarks.by_hand import agents, run, runner
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 31
EVENTS = 1000
STEPS = 3


def figures() -> Iterator[Figure]:
    """A turn in a harness, a replay, loading a file and a comparison, each against its peer."""
    pipeline = Pipeline(*(Agent(f"a{n}") for n in range(STEPS)))
    backend = mock_backend(default="An answer.")
    hand = runner(agents(STEPS))

    async def by_hand() -> object:
        return await run(hand)

    async def in_harness() -> object:
        response = await AgentHarness(pipeline, backend=backend).send("go")
        assert not response.errors
        return response

    with event_loop() as blocking:
        yield compare(
            "a turn of 3 agents in AgentHarness (1,000 in 10 s: 10 ms)",
            blocking(in_harness),
            blocking(by_hand),
            rounds=ROUNDS,
        )
        yield from _replays(blocking)


def _replays(blocking: Any) -> Iterator[Figure]:
    looping = Loop(Agent("a").context(C.none()), S.counter("n"), max_iterations=EVENTS // 2)
    tape = Recorder()
    blocking(lambda: looping.run("go", backend=mock_backend(default="An answer."), middleware=[tape]))()
    recording = tape.get_recording()
    text = recording.to_json()
    again: list[Recording] = []

    async def replay() -> object:
        again[:] = [await recording.replay(looping)]
        return again

    yield compare(
        f"replaying {EVENTS} events (1 s more at most)",
        blocking(replay),
        blocking(lambda: looping.run("go", backend=mock_backend(default="An answer."))),
        rounds=1,
        against="the same run on a mock",
    )
    yield compare(
        "comparing the two recordings",
        lambda: diff_recordings(recording, again[0]),
        lambda: Recording.from_json(text),
        rounds=3,
        against=f"loading one of {len(text) // 1000} kB",
    )
