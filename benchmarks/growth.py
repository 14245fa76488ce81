"""How the time of everything up to a native tree grows with the number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from adk_fluent import Pipeline
from adk_fluent.backends.adk.compile.compiler import compile_tree
from adk_fluent.ir import Node, resolve_names, walk
from benchmarks.by_hand import agents, steps
from benchmarks.harness import Figure, in_turn, timed

SIZES = (625, 1250, 2500, 5000)
ROUNDS = 5


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
    """Each size against half of it: twice the nodes should take twice the time.

    Plain ADK is there to compare with: more objects fit a processor's caches less well, whoever makes them.
    """
    for what, build in (("a >> b >> ...", chain), ("Pipeline(a, b, ...)", at_once)):
        note = phases(build, SIZES[-1])
        yield from doublings(what, partial(everything, build), target=2.25, note=note)
    yield from doublings("plain ADK", agents)


def doublings(
    what: str, run: Callable[[int], object], target: float | None = None, note: str = ""
) -> Iterator[Figure]:
    """A figure for each size but the smallest; the largest gets the note."""
    times = in_turn([partial(run, size) for size in SIZES], ROUNDS)
    for half, size, before, after in zip(SIZES, SIZES[1:], times, times[1:], strict=False):
        yield Figure(
            what=f"{what} of {size} nodes",
            seconds=median(after),
            against=f"{half} nodes",
            reference=median(before),
            ratio=median(b / a for a, b in zip(before, after, strict=True)),
            target=target,
            note=note if size == SIZES[-1] else "",
        )
