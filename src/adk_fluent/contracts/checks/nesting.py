"""Steps do not stand too deep inside each other."""

from __future__ import annotations

from adk_fluent.analysis.facts import facts_of
from adk_fluent.contracts.refusals import too_deep
from adk_fluent.contracts.report import ContractIssue


def check_nesting(root: object) -> list[ContractIssue]:
    """Python's stack is deep enough for a run; building refuses what it is not."""
    facts = facts_of(root)
    return [too_deep(facts.root, facts.depth).finding()] if facts.is_too_deep else []
