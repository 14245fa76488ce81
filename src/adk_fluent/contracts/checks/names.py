"""Names are unique."""

from __future__ import annotations

from adk_fluent.contracts.facts import facts_of
from adk_fluent.contracts.issues import DuplicateName
from adk_fluent.contracts.report import ContractIssue, Severity


def check_names(root: object) -> list[ContractIssue]:
    """No two different nodes have one name."""
    facts = facts_of(root)
    return [
        DuplicateName(
            severity=Severity.ERROR,
            agent=name,
            message=f'Two different nodes are called "{name}"',
            hint=f"Nothing could tell them apart. Rename one: .named('{name}_b').",
        )
        for name in facts.plan.clashes
    ]
