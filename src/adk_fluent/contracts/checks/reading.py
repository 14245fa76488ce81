"""Check that keys are in state when a step reads them."""

from __future__ import annotations

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts.checks.loops import unchanging
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.execution import Repeated

_REPORTED_ELSEWHERE = ("template", "message", "route", "budget", "quality")
"""The kinds of reads that other checks report."""


@check(place=40)
def check_dataflow_contracts(root: object) -> list[ContractIssue]:
    """Check that every key is in state when a step reads it; other checks do so for templates and routes."""
    facts = analyse(root)
    found = (about(read, facts) for read in facts.reads if read.via not in _REPORTED_ELSEWHERE)
    return [issue for issue in found if issue is not None and not _is_endless(issue, facts)]


def _is_endless(issue: ContractIssue, facts: Facts) -> bool:
    """True for the `until` of a loop that can only run to its limit: `check_loops` reports that one."""
    step = facts.plan.by_name[issue.agent]
    return isinstance(step.node.runs, Repeated) and issue.key in unchanging(step, facts)
