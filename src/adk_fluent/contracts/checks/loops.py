"""Check that loops can end before their limit."""

from __future__ import annotations

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import LoopRunsToLimit
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import Repeated
from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.nodes import (
    CALLBACK_FIELDS,
    NO_LIMIT,
)
from adk_fluent.ir.tools import ends_loops, may_leave_loops, pauses


@check(place=180)
def check_loops(root: object) -> list[ContractIssue]:
    """Check that each body changes a key that `until` reads, and that a loop without a limit can end."""
    facts = analyse(root)
    loops = [step for step in facts.steps if isinstance(step.node.runs, Repeated)]
    found = [_endless(step, keys) for step in loops if (keys := unchanging(step, facts))]
    return [*found, *(_without_way_out(step) for step in loops if _never_ends(step, facts))]


def _never_ends(step: Step, facts: Facts) -> bool:
    """True if a `LoopAgent` has no limit, and no agent, tool, callback or plugin can end it."""
    runs: Repeated = step.node.runs
    of_a_graph = not step.node.name
    if runs.until is not None or runs.max_rounds < NO_LIMIT or of_a_graph:
        return False
    plugins = [plugin for outer in (step, *step.above()) for plugin in outer.node.annotations.middleware]
    inside = facts.steps[step.index + 1 : step.end]
    return not any(map(may_leave_loops, plugins)) and not any(_may_leave(inner.node) for inner in inside)


def _may_leave(node: Node) -> bool:
    if node.as_given is not None and may_leave_loops(node.as_given.value):
        return True
    callbacks = [fn for name in CALLBACK_FIELDS for fn in node.given.get(name, ())]
    tools = node.agent.tools if node.agent else ()
    return ends_loops(tools) or any(map(pauses, tools)) or any(map(may_leave_loops, (*callbacks, *tools)))


def _without_way_out(step: Step) -> ContractIssue:
    return LoopRunsToLimit(
        agent=step.name,
        message=f"{step.name} never ends: it has no limit and no way out",
        hint="No tool, callback or agent in it sets escalate.\n"
        "Give it max_iterations=, or an agent in it the tool exit_loop.",
    )


def unchanging(step: Step, facts: Facts) -> frozenset[str]:
    """The keys that a loop's `until` reads if its body cannot change the result; otherwise no keys."""
    until = step.node.runs.until
    nothing: frozenset[str] = frozenset()
    if until is None:
        return nothing
    touched = access(until)
    effects = facts.effects_of(step)
    if said(until) is None and not shown_by(until).by_state:
        return nothing  # a clock, or anything else outside the state, may change the answer
    if not touched.reads_known or effects.unknown or effects.clears:
        return nothing
    if touched.reads & (effects.writes.keys() | effects.removes.keys()):
        return nothing
    agents = (inner.node.agent for inner in facts.steps[step.index : step.end])
    if any(agent is not None and ends_loops(agent.tools) for agent in agents):
        return nothing
    return touched.reads


def _endless(step: Step, keys: frozenset[str]) -> ContractIssue:
    read = ", ".join(f'"{name}"' for name in sorted(keys))
    return LoopRunsToLimit(
        agent=step.name,
        key=min(keys),
        message=f"{step.name} can only run to its limit of {step.node.runs.max_rounds}",
        hint=f"Its until reads {read}, which nothing in its body writes, so the answer never changes.\n"
        f'Write "{min(keys)}" in the body.',
    )
