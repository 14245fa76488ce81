"""Loops can end before their limit."""

from __future__ import annotations

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import LoopRunsToLimit
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.nodes import AgentNode, LoopNode
from adk_fluent.ir.tools import ends_loops


@check(place=180)
def check_loops(root: object) -> list[ContractIssue]:
    """Every `until` reads something that the loop's body changes."""
    facts = analyse(root)
    loops = [step for step in facts.steps if isinstance(step.node, LoopNode)]
    return [_endless(step, keys) for step in loops if (keys := unchanging(step, facts))]


def unchanging(step: Step, facts: Facts) -> frozenset[str]:
    """The keys that a loop's `until` reads, if nothing in its body can change the answer."""
    node: LoopNode = step.node
    nothing: frozenset[str] = frozenset()
    if node.until is None:
        return nothing
    touched = access(node.until)
    effects = facts.effects_of(step)
    if said(node.until) is None and not shown_by(node.until).by_state:
        return nothing  # a clock, or anything else outside the state, may change the answer
    if not touched.reads_known or effects.unknown or effects.clears:
        return nothing
    if touched.reads & (effects.writes.keys() | effects.removes.keys()):
        return nothing
    inside = facts.steps[step.index : step.end]
    if any(isinstance(inner.node, AgentNode) and ends_loops(inner.node.tools) for inner in inside):
        return nothing
    return touched.reads


def _endless(step: Step, keys: frozenset[str]) -> ContractIssue:
    read = ", ".join(f'"{name}"' for name in sorted(keys))
    return LoopRunsToLimit(
        agent=step.name,
        key=min(keys),
        message=f"{step.name} can only run to its limit of {step.node.max_iterations}",
        hint=f"Its until reads {read}, which nothing in its body writes, so the answer never changes.\n"
        f'Write "{min(keys)}" in the body.',
    )
