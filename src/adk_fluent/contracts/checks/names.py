"""Names are unique."""

from __future__ import annotations

from adk_fluent.contracts.facts import Facts, facts_of
from adk_fluent.contracts.issues import DuplicateName, UnknownAgent
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.contracts.spelling import Spelling
from adk_fluent.ir.nodes import TransferNode


def check_names(root: object) -> list[ContractIssue]:
    """No two different nodes have one name, and every transfer leads somewhere."""
    facts = facts_of(root)
    transfers = [step for step in facts.steps if isinstance(step.node, TransferNode)]
    return [
        *(_clash(name) for name in facts.plan.clashes),
        *(_lost(step, facts) for step in transfers if step.target is None),
    ]


def _clash(name: str) -> ContractIssue:
    return DuplicateName(
        severity=Severity.ERROR,
        agent=name,
        message=f'Two different nodes are called "{name}"',
        hint=f"Nothing could tell them apart. Rename one: .named('{name}_b').",
    )


def _lost(step: Step, facts: Facts) -> ContractIssue:
    """A transfer to nobody; building refuses it as well."""
    target = step.node.target
    like = Spelling(other.name for other in facts.steps if other is not step).like(target)
    return UnknownAgent(
        severity=Severity.ERROR,
        agent=step.name,
        message=f'{step.name} hands over to "{target}", and nothing has that name',
        hint=f'Did you mean "{like}"?' if like else "Give the agent that is meant this name.",
    )
