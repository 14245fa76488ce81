"""Checking a pipeline: everything on, and how it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S
from adk_fluent.contracts import check_all
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, declares, walk
from benchmarks.by_hand import agents
from benchmarks.harness import Figure, compare, in_turn

SIZES = (625, 1250, 2500, 5000)
ROUNDS = 5


@declares(reads=["score"])
def good(state: object) -> bool:
    """Whether to stop."""
    return True


def block(number: int) -> Expr[str]:
    """Ten steps of all shapes around one key per block."""
    key = f"k{number}"
    draft = Agent(f"draft{number}").instruct(f"Go on from {{k{number - 1}?}}.").writes(key)
    branches = FanOut(
        Agent(f"a{number}").instruct(f"{{{key}}}"), Agent(f"b{number}").writes(f"b{number}"), S.set(score=1)
    )
    refine = Loop(Agent(f"judge{number}").instruct(f"Judge {{{key}}}").writes("score"), max_iterations=3)
    return draft >> branches >> Route(key).eq("x", refine.until(good)).otherwise(Agent(f"c{number}"))


def pipeline(nodes: int) -> Node:
    """A pipeline of about this many nodes."""
    size = sum(1 for _ in walk(block(1).node)) - 1
    return Pipeline(*(block(number) for number in range(1, max(nodes // size, 1) + 1))).node


def first_check(root: Node) -> Callable[[], object]:
    """Checks a tree that nobody has looked at yet: what is found out about one is kept with it."""
    return lambda: check_all(root.replace())


def figures() -> Iterator[Figure]:
    """All checks on 100 nodes; then each size against half of it."""
    hundred = pipeline(100)
    by_hand = partial(agents, 100)
    yield compare(
        "check 100 nodes, everything on", first_check(hundred), by_hand, rounds=ROUNDS * 20, target=0.8
    )
    known = partial(check_all, hundred)
    yield compare("check them once more", known, by_hand, rounds=ROUNDS * 20)
    roots = [pipeline(size) for size in SIZES]
    seconds = [median(times) for times in in_turn([first_check(root) for root in roots], ROUNDS)]
    for index, size in enumerate(SIZES[1:], 1):
        yield Figure(
            what=f"check {size} nodes",
            seconds=seconds[index],
            against=f"{SIZES[index - 1]} nodes",
            reference=seconds[index - 1],
            ratio=seconds[index] / seconds[index - 1],
            target=2.2,
        )
