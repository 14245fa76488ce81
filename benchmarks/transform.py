"""Steps without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adk_fluent import Pipeline, S
from benchmarks.by_hand import Count, InOrder, run, runner
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 60
STEPS = 40


def count(state: Mapping[str, Any]) -> dict[str, int]:
    """What the agent written by hand does."""
    return {"n": state.get("n", 0) + 1}


def figures() -> Iterator[Figure]:
    """A function of the state against the cheapest agent that yields an event, per step."""
    ours = runner(Pipeline(*[S.fn(count) for _ in range(STEPS)]).build())
    hand = runner(InOrder(name="pipeline", sub_agents=[Count(name=f"c{i}") for i in range(STEPS)]))
    with event_loop() as blocking:
        yield compare(
            "a transform step",
            blocking(lambda: run(ours)),
            blocking(lambda: run(hand)),
            rounds=ROUNDS,
            per=STEPS,
            target=1.2,
        )
