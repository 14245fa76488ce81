"""Keys are written before they are read."""

from __future__ import annotations

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts.checks.loops import unchanging
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.execution import Repeated

_ELSEWHERE = ("template", "message", "route", "budget", "quality")
"""What other checks look at."""


@check(place=40)
def check_dataflow_contracts(root: object) -> list[ContractIssue]:
    """Every key that a step reads is in state by then; instructions and routes have checks of their own."""
    facts = analyse(root)
    found = (about(read, facts) for read in facts.reads if read.via not in _ELSEWHERE)
    return [issue for issue in found if issue is not None and not _is_endless(issue, facts)]


def _is_endless(issue: ContractIssue, facts: Facts) -> bool:
    """Whether it is about the `until` of a loop that can only run to its limit, which is told elsewhere."""
    step = facts.plan.by_name[issue.agent]
    return isinstance(step.node.runs, Repeated) and issue.key in unchanging(step, facts)
