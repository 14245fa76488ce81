"""From nothing to a native tree of 100 agents."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.by_hand import agents, expression
from benchmarks.harness import Figure, compare, in_turn

ROUNDS = 101
COUNT = 100


def figures() -> Iterator[Figure]:
    """Expression and compilation against the constructors of the same ADK objects; the expression alone."""
    ours, by_hand = lambda: expression(COUNT).build(), lambda: agents(COUNT)
    yield compare("build and compile 100 agents", ours, by_hand, rounds=ROUNDS, target=1.5)
    (alone,) = in_turn((lambda: expression(COUNT).to_ir(),), ROUNDS)
    yield Figure(what="the expression alone", seconds=median(alone), target=0.002, of="seconds")
