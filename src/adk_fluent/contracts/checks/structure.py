"""The tree can be compiled, as far as that is known without ADK."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import MixedOperators
from adk_fluent.contracts.refusals import Refusal, endless, of_node, unfed
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.base import walk
from adk_fluent.ir.naming import resolve_names
from adk_fluent.ir.nodes import TransferNode
from adk_fluent.ir.source import is_bare, used_in


@check(place=30)
def check_structure(root: object) -> list[ContractIssue]:
    """Nothing makes compiling refuse the tree; names and lost transfers have a check of their own."""
    facts = analyse(root)
    found = [refusal.finding() for step in facts.steps for refusal in of_node(step.node, step.name)]
    found += [refusal.finding() for refusal in unfed((step.node, step.name) for step in facts.steps)]
    return found + [refusal.finding() for refusal in _endless(facts)]


def _endless(facts: Facts) -> Iterator[Refusal]:
    if facts.plan.clashes or not any(isinstance(step.node, TransferNode) for step in facts.steps):
        return
    by_name = {node.name: node for node in walk(resolve_names(facts.root).root)}
    transfers = [node for node in by_name.values() if isinstance(node, TransferNode)]
    yield from endless(transfers, by_name)


@check(place=240)
def check_operators(root: object) -> list[ContractIssue]:
    """The source of a pipeline in a fan-out shows by parentheses that it is one branch."""
    steps = analyse(root).steps
    found = (_mixed(step) for step in steps if step.node.runs == "in_order" and step.parent is not None)
    return [issue for issue in found if issue is not None]


def _mixed(step: Step) -> ContractIssue | None:
    """The note on a branch such as `b >> c` in `a | b >> c`, if its source can be read."""
    if step.parent is None or step.parent.node.runs != "at_once" or (used := used_in(step.node)) is None:
        return None
    file, line, operation = used
    for operand in (operation.left, operation.right):
        is_chain = isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.RShift)
        if isinstance(operation.op, ast.BitOr) and is_chain and is_bare(operand, operation):
            shown = " >> ".join(child.name for child in step.children)
            return MixedOperators(
                severity=Severity.INFO,
                agent=step.parent.name,
                message=f"{shown} is one branch of {step.parent.name}: >> binds tighter than | "
                f"({Path(file).name}, line {line})",
                hint=f"Write ({shown}), or put the branches of | into parentheses, if that is meant.",
            )
    return None
