"""Check that runs with gates and confirmations can wait for a person."""

from __future__ import annotations

from adk_fluent.analysis.facts import analyse
from adk_fluent.contracts.issues import NotResumable
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.tools import confirms


@check(place=210)
def check_resumable(root: object) -> list[ContractIssue]:
    """Report each gate and confirmation if `resumable=False` forbids a run to wait."""
    facts = analyse(root)
    if getattr(facts.config, "resumable", None) is not False:
        return []
    return [
        NotResumable(
            severity=Severity.ERROR,
            agent=step.name,
            message=f"{step.name} waits for a person, and resumable=False forbids it",
            hint="Leave ExecutionConfig(resumable=) out, or set it to True.",
        )
        for step in facts.steps
        if step.node.asks or ((agent := step.node.agent) is not None and any(map(confirms, agent.tools)))
    ]
