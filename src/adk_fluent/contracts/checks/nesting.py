"""Check that an expression is not nested too deep."""

from __future__ import annotations

from adk_fluent.analysis.facts import analyse
from adk_fluent.contracts.refusals import too_deep
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue


@check(place=10)
def check_nesting(root: object) -> list[ContractIssue]:
    """Report a tree whose run needs more than Python's stack; compiling refuses it, too."""
    facts = analyse(root)
    return [too_deep(facts.root, facts.depth).finding()] if facts.is_too_deep else []
