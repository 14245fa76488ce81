"""Estimating what a pipeline will cost, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

from adk_fluent.cost import Price, estimate_cost
from adk_fluent.ir import AgentNode, Node, rewrite
from benchmarks.by_hand import agents, expression
from benchmarks.checking import pipeline
from benchmarks.harness import Figure, compare, in_turn

ROUNDS = 21
COUNT = 100
PRICES = {"m": Price.per_million(input=1, output=4)}


def on_a_model(node: Node) -> Node:
    """The tree, whose agents have a model with a price."""
    return rewrite(node, lambda one: one.replace(model="m") if isinstance(one, AgentNode) else one)


def figures() -> Iterator[Figure]:
    """100 agents and 100 steps of all kinds: by the clock, and against making 100 native agents by hand."""
    by_hand = partial(agents, COUNT)
    for what, root, target in (
        ("agents", on_a_model(expression(COUNT).to_ir()), 1.5),
        ("steps of all shapes", on_a_model(pipeline(COUNT)), None),
    ):
        estimate = partial(estimate_cost, root, prices=PRICES)
        (alone,) = in_turn([estimate], ROUNDS)
        yield Figure(
            what=f"estimate_cost() of {COUNT} {what}", seconds=median(alone), target=0.005, of="seconds"
        )
        yield compare(
            f"estimate_cost() of {COUNT} {what}, beside", estimate, by_hand, rounds=ROUNDS, target=target
        )
