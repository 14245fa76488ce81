"""Check that names are unique and that transfers name an agent of the tree."""

from __future__ import annotations

from adk_fluent.analysis.facts import analyse
from adk_fluent.contracts.issues import DuplicateName
from adk_fluent.contracts.refusals import lost
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import HandOver


@check(place=20)
def check_names(root: object) -> list[ContractIssue]:
    """Report different nodes with the same name, and transfers to an unknown agent."""
    facts = analyse(root)
    transfers = [step for step in facts.steps if isinstance(step.node.runs, HandOver)]
    names = [step.name for step in facts.steps] if transfers else []
    return [
        *(_clash(name) for name in facts.plan.clashes),
        *(
            lost(step.node.runs.target, step.name, names).finding()
            for step in transfers
            if step.target is None
        ),
    ]


def _clash(name: str) -> ContractIssue:
    return DuplicateName(
        severity=Severity.ERROR,
        agent=name,
        message=f'Two different nodes are called "{name}"',
        hint=f"A name must identify one node. Rename one: .named('{name}_b').",
    )
