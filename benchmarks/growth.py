"""How the time of everything up to a native tree grows with the number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from adk_fluent import Pipeline
from adk_fluent.backends.adk.compiler import compile_tree
from adk_fluent.ir import Node, resolve_names, walk
from benchmarks.by_hand import steps
from benchmarks.harness import Figure, in_turn, timed

SIZES = (625, 1250, 2500, 5000)
ROUNDS = 3


def chain(count: int) -> Node:
    """`a >> b >> c ...`"""
    joined, *rest = steps(count)
    for step in rest:
        joined = joined >> step
    return joined.to_ir()


def at_once(count: int) -> Node:
    """`Pipeline(a, b, c, ...)`"""
    return Pipeline(*steps(count)).to_ir()


def everything(build: Callable[[int], Node], count: int) -> None:
    """Expression, data-flow facts, unique names, native agents."""
    root = build(count)
    for node in walk(root):
        assert node.access
    compile_tree(resolve_names(root))


def phases(build: Callable[[int], Node], count: int) -> str:
    """Microseconds per node of each phase."""
    root = build(count)
    named = resolve_names(root)
    runs = {
        "expression": lambda: build(count),
        "facts": lambda: [node.access for node in walk(root)],
        "names": lambda: resolve_names(root),
        "compile": lambda: compile_tree(named),
    }
    return ", ".join(f"{name} {timed(run) / count * 1e6:.1f}" for name, run in runs.items()) + " us per node"


def figures() -> Iterator[Figure]:
    """Each size against half of it: twice the nodes should take twice the time."""
    for what, build in (("a >> b >> ...", chain), ("Pipeline(a, b, ...)", at_once)):
        runs = [partial(everything, build, size) for size in SIZES]
        seconds = [median(times) for times in in_turn(runs, ROUNDS)]
        for index, size in enumerate(SIZES[1:], 1):
            yield Figure(
                what=f"{what} of {size} nodes",
                seconds=seconds[index],
                against=f"{SIZES[index - 1]} nodes",
                reference=seconds[index - 1],
                ratio=seconds[index] / seconds[index - 1],
                target=2.2,
                note=phases(build, size) if size == SIZES[-1] else "",
            )
