"""Check that the body of a map reads its item."""

from __future__ import annotations

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import UnreadItem
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import PerItem


@check(place=190)
def check_maps(root: object) -> list[ContractIssue]:
    """Report each map whose body asks a model but does not read the item."""
    facts = analyse(root)
    maps = [step for step in facts.steps if isinstance(step.node.runs, PerItem) and facts.reaches(step)]
    return [_unread(step, facts) for step in maps if not _reads_item(step, facts)]


def _reads_item(step: Step, facts: Facts) -> bool:
    """True if a step inside may read the item, or if the body asks no model and so need not read it."""
    inside = facts.steps[step.index + 1 : step.end]
    if not any(inner.is_model for inner in inside) or any(inner in facts.unknown[0] for inner in inside):
        return True
    key = step.node.runs.item_key
    agents = (inner.node for inner in inside if inner.node.agent is not None)
    return _has_reader(key, inside, facts) or any(key in text for node in agents for text in node.templates)


def _has_reader(key: str, steps: list[Step], facts: Facts) -> bool:
    return any(read.key == key for step in steps for read in facts.reads_of(step))


def _unread(step: Step, facts: Facts) -> ContractIssue:
    runs: PerItem = step.node.runs
    body, whole = (
        step.children[0].name,
        _has_reader(runs.items, facts.steps[step.index + 1 : step.end], facts),
    )
    return UnreadItem(
        severity=Severity.INFO,
        agent=step.name,
        key=runs.item_key,
        message=f'{step.name} runs {body} once per item of "{runs.items}", and nothing in it reads '
        f"{{{runs.item_key}}}",
        hint="So every item gets the same request. "
        + (f"{{{runs.items}}} is the whole list; for" if whole else "For")
        + f" one item write {{{runs.item_key}}}.",
    )
