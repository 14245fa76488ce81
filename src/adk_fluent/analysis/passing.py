"""Which steps of a tree pass their answers on in pieces, and to whom."""

from __future__ import annotations

from collections.abc import Mapping

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.ir.base import STEP_BY_STEP
from adk_fluent.ir.passing import Passage, leaving, passages

NOWHERE: Mapping[int, Passage] = {}


def passages_in(plan: Plan) -> dict[Step, Mapping[int, Passage]]:
    """Sequences and loops in which an answer is to go on in pieces: place of the first of two steps → how."""
    if all(step.node.annotations.edge is None for step in plan.steps):
        return {}  # as in most trees
    found = {step: passages_of(step) for step in plan.steps if step.node.runs in STEP_BY_STEP}
    return {step: here for step, here in found.items() if here}


def passages_of(step: Step) -> Mapping[int, Passage]:
    """The same for one sequence or loop."""
    if all(leaving(child.node) is None for child in step.children):
        return NOWHERE
    return passages([child.node.replace(name=child.name) for child in step.children])
