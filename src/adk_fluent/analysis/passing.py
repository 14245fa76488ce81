"""Which steps of a tree pass their answers on in pieces, and to whom."""

from __future__ import annotations

from collections.abc import Mapping

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.ir.base import STEP_BY_STEP
from adk_fluent.ir.passing import Passage, passages

NOWHERE: Mapping[int, Passage] = {}


def passages_in(plan: Plan) -> dict[Step, Mapping[int, Passage]]:
    """Sequences and loops in which an answer is to go on in pieces: place of the first of two steps → how."""
    if all(step.node.annotations.edge is None for step in plan.steps):
        return {}  # as in most trees
    found: dict[Step, Mapping[int, Passage]] = {}
    for step in plan.steps:
        if step.node.runs in STEP_BY_STEP:
            named = [child.node.replace(name=child.name) for child in step.children]
            if here := passages(named):
                found[step] = here
    return found
