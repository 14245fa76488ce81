"""Check that remote agents get the input that they need."""

from __future__ import annotations

from typing import Any

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.issues import RemoteInputMissing
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.nodes import RemoteAgentNode
from adk_fluent.spelling import Spelling


@check(place=130)
def check_a2a_contracts(root: object) -> list[ContractIssue]:
    """Check that the keys sent to a remote agent are in state, and include every field that it requires."""
    facts = analyse(root)
    unmet = [
        issue for read in facts.reads if read.via == "remote" and (issue := about(read, facts)) is not None
    ]
    return unmet + [
        _missing(step, name)
        for step in facts.steps
        if isinstance(step.node, RemoteAgentNode)  # only these send a part of the state
        for name, field in _fields(step.node).items()
        if field.is_required() and name not in _sent(step.node)
    ]


def _fields(node: RemoteAgentNode) -> dict[str, Any]:
    return getattr(node.input_schema, "model_fields", {})


def _sent(node: RemoteAgentNode) -> set[str]:
    return {key.rpartition(":")[2] for key in node.declared_reads}


def _missing(step: Step, name: str) -> ContractIssue:
    like = Spelling(_sent(step.node)).like(name)
    return RemoteInputMissing(
        agent=step.name,
        key=name,
        message=f'{step.name} needs "{name}" as input, and it is not sent',
        hint=f'Only the keys of .reads() are sent to a remote agent. Add .reads("{name}").'
        + (f' Did you mean it by "{like}"?' if like else ""),
    )
