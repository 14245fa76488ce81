"""The tree can be compiled, as far as that is known without ADK."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts.refusals import Refusal, endless, of_node, unfed
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.base import walk
from adk_fluent.ir.graph import transfers
from adk_fluent.ir.node_names import resolve_names


@check(place=30)
def check_structure(root: object) -> list[ContractIssue]:
    """Nothing makes compiling refuse the tree; names and lost transfers have a check of their own."""
    facts = analyse(root)
    found = [refusal.finding() for step in facts.steps for refusal in of_node(step.node, step.name)]
    found += [refusal.finding() for refusal in unfed((step.node, step.name) for step in facts.steps)]
    return found + [refusal.finding() for refusal in _endless(facts)]


def _endless(facts: Facts) -> Iterator[Refusal]:
    if facts.plan.clashes or not any(True for _ in transfers(step.node for step in facts.steps)):
        return
    by_name = {node.name: node for node in walk(resolve_names(facts.root).root)}
    yield from endless((node for node, _ in transfers(by_name.values())), by_name)
