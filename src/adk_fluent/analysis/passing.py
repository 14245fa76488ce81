"""Which steps of a tree pass their answers on in pieces, and to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.ir.execution import STEP_BY_STEP
from adk_fluent.ir.passage import Passage, changing_hooks, leaving, passages

NOWHERE: Mapping[int, Passage] = {}


def passages_in(plan: Plan) -> dict[Step, Mapping[int, Passage]]:
    """Sequences and loops in which an answer is to go on in pieces: place of the first of two steps → how."""
    if all(step.node.annotations.edge is None for step in plan.steps):
        return {}  # as in most trees
    found = {step: passages_of(step) for step in plan.steps if isinstance(step.node.runs, STEP_BY_STEP)}
    return {step: here for step, here in found.items() if here}


def passages_of(step: Step) -> Mapping[int, Passage]:
    """The same for one sequence or loop."""
    if all(leaving(child.node) is None for child in step.children):
        return NOWHERE
    found = passages([child.node.replace(name=child.name) for child in step.children])
    return {place: _with_middleware(passage, step.children[place]) for place, passage in found.items()}


def _with_middleware(passage: Passage, giver: Step) -> Passage:
    """A passage that waits for the answer where a middleware may change it."""
    if not passage.live:
        return passage
    for step in _below(giver):
        if step is not giver and passage.speakers.isdisjoint((step.name, step.node.name)):
            continue
        for middleware in (
            one for place in (step, *step.above()) for one in place.node.annotations.middleware
        ):
            if hooks := changing_hooks(middleware):
                why = f"the {hooks[0]} of {type(middleware).__name__} may change the answer"
                return passage.replace(live=False, why=why)
    return passage


def _below(step: Step) -> Iterator[Step]:
    """A step and all inside it."""
    yield step
    for child in step.children:
        yield from _below(child)
