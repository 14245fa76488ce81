"""Steps do not stand too deep inside each other."""

from __future__ import annotations

from adk_fluent.contracts.facts import facts_of
from adk_fluent.contracts.issues import NestedTooDeep
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.nesting import NEST_LESS, too_deep


def check_nesting(root: object) -> list[ContractIssue]:
    """Python's stack is deep enough for a run; building refuses what it is not."""
    facts = facts_of(root)
    if not facts.is_too_deep:
        return []
    name = facts.plan.root.name
    message = too_deep(name, facts.depth)
    return [NestedTooDeep(severity=Severity.ERROR, agent=name, message=message, hint=NEST_LESS)]
