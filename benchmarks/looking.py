"""Looking at a pipeline without running it: what each model is sent, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from adk_fluent.inspection import llm_anatomy
from adk_fluent.ir import Node
from adk_fluent.viz import to_mermaid
from benchmarks.by_hand import agents, expression
from benchmarks.checking import pipeline
from benchmarks.harness import Figure, compare

ROUNDS = 21
COUNT = 100
MANY = 1000


def told(root: Node) -> list[str]:
    """Everything that there is to say about what each model is sent."""
    return [str(anatomy) for anatomy in llm_anatomy(root).values()]


def at_first(look: Callable[[Node], object], root: Node) -> object:
    """Look at a tree that nobody has looked at yet: what is found out about one is kept with it."""
    return look(root.replace())


def figures() -> Iterator[Figure]:
    """Each against making 100 native agents by hand: the same pipeline, a longer one, one of all kinds."""
    by_hand = partial(agents, COUNT)
    same, longer, shapes = expression(COUNT).to_ir(), expression(MANY).to_ir(), pipeline(COUNT)
    looks: list[tuple[str, Callable[[Node], object], Node, float | None]] = [
        (f"llm_anatomy() of {COUNT} agents", llm_anatomy, same, 1.0),
        (f"llm_anatomy() of {MANY} agents", llm_anatomy, longer, 15.0),
        (f"llm_anatomy() of {COUNT} agents, all of it as text", told, same, None),
        (f"llm_anatomy() of {COUNT} steps of all shapes", llm_anatomy, shapes, None),
        (f"Mermaid of {COUNT} agents", to_mermaid, same, 0.7),
        (f"Mermaid of {MANY} agents", to_mermaid, longer, None),
        (f"Mermaid of {COUNT} steps of all shapes", to_mermaid, shapes, None),
    ]
    for what, look, root, target in looks:
        yield compare(what, partial(at_first, look, root), by_hand, rounds=ROUNDS, target=target)
    known = partial(to_mermaid, same)
    yield compare(f"Mermaid of {COUNT} agents that were checked", known, by_hand, rounds=ROUNDS)
