"""A pipeline cut at its execution boundaries against the same pipeline in one piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, Pipeline
from adk_fluent.backends import ADKBackend
from adk_fluent.distributed import DistributedBackend
from adk_fluent.expr.base import Expr
from benchmarks.by_hand import MODEL
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 51
SEGMENTS = 3
AGAINST = "the same pipeline in one piece"


def pipeline(serialization: Literal["json", "protobuf", "arrow"] | None) -> Expr[str]:
    """Three agents, each reading what the one before wrote; cut before each but the first, if at all."""
    steps: list[Expr[str]] = []
    for number in range(SEGMENTS):
        step = Agent(f"a{number}", MODEL).instruct(f"Go on from {{k{number}?}}.").writes(f"k{number + 1}")
        cut = number and serialization is not None
        steps.append(step.execution_boundary(serialization=serialization or "json") if cut else step)
    return Pipeline(*steps)


def figures() -> Iterator[Figure]:
    """Per segment: boundaries that a run in one process keeps to, then segments as apps behind bytes."""
    service = InMemorySessionService()
    with event_loop() as blocking:

        def run(expression: Expr[str], backend: ADKBackend) -> Callable[[], object]:
            return blocking(partial(expression.run, "go", backend=backend, session_service=service))

        whole = run(pipeline(None), ADKBackend())
        cuts: list[tuple[str, Callable[[], object]]] = [
            ("boundaries in one process", run(pipeline("json"), ADKBackend())),
            ("segments over JSON", run(pipeline("json"), DistributedBackend())),
            ("segments over protobuf", run(pipeline("protobuf"), DistributedBackend())),
            ("segments over Arrow", run(pipeline("arrow"), DistributedBackend())),
        ]
        for what, ours in cuts:
            yield compare(
                f"{SEGMENTS} {what}, each", ours, whole, rounds=ROUNDS, per=SEGMENTS, against=AGAINST
            )
