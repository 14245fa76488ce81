"""The pipeline of a hundred agents in `examples/hundred_agents.py`, step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from adk_fluent.backends import TraceBackend
from adk_fluent.contracts import check_all
from adk_fluent.cost import TrafficAssumptions, estimate_cost
from adk_fluent.debug import Recorder, Recording, ReplayerBackend
from benchmarks.by_hand import agents, run, runner
from benchmarks.harness import Figure, compare, event_loop
from examples.hundred_agents import CLAIM, pipeline, script

ROUNDS = 21
CALLS = 16
"""Agents that a motor claim passes."""


def figures() -> Iterator[Figure]:
    """Each step against one run of plain ADK that makes as many model calls."""
    root, hand = pipeline.to_ir(), runner(agents(CALLS))
    with event_loop() as blocking, tempfile.TemporaryDirectory() as folder:
        by_hand = blocking(lambda: run(hand))
        file = Path(folder) / "claim.json"

        async def record() -> None:
            recorder = Recorder()
            await pipeline.run(CLAIM, backend=script(), middleware=[recorder])
            recorder.save(file)

        steps = {
            "check": lambda: check_all(root.replace()),
            "estimate": lambda: estimate_cost(root.replace(), TrafficAssumptions()),
            "test with a mock": blocking(lambda: pipeline.run(CLAIM, backend=script())),
            "trace": blocking(lambda: pipeline.run(CLAIM, backend=TraceBackend(script()))),
            "record, and save": blocking(record),
            "replay": blocking(lambda: pipeline.run(CLAIM, backend=ReplayerBackend(Recording.load(file)))),
        }
        for what, step in steps.items():
            yield compare(f"100 agents: {what}", step, by_hand, rounds=ROUNDS)
