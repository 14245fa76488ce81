"""What crosses an execution boundary survives it; `temp:` keys are looked at where they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, facts_of
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import BoundaryType
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.scopes import is_temporary
from adk_fluent.state.effects import effects_of


def check_boundary_contracts(root: object) -> list[ContractIssue]:
    """Values written before a boundary can be written as its serialization says."""
    facts = facts_of(root)
    cuts = [step for step in facts.steps if step.node.annotations.boundary is not None]
    return list(_unserializable(facts, cuts)) if cuts else []


def _unserializable(facts: Facts, cuts: list[Step]) -> Iterator[ContractIssue]:
    for step in facts.steps:
        after = next((cut for cut in cuts if cut.index > step.index), None)
        if after is None:
            return
        for key, value in _constants(step.node):
            if not is_temporary(key) and not _is_data(value):
                boundary = after.node.annotations.boundary
                yield BoundaryType(
                    severity=Severity.WARN,
                    agent=step.name,
                    key=key,
                    message=f'{step.name} writes "{key}", a {type(value).__name__}, before the execution '
                    f"boundary of {after.name}",
                    hint=f"State crosses that boundary as {boundary.serialization}, which has no "
                    f"{type(value).__name__}.\nWrite plain data: text, numbers, lists and dicts.",
                )


def _constants(node: Node) -> list[tuple[str, object]]:
    """The values that a step is known to write."""
    if not isinstance(node, TransformNode):
        return []
    return [constant for effect in effects_of(node) for constant in effect.constants]


def _is_data(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
