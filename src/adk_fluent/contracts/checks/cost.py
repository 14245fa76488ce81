"""Check that an agent which chooses its model by a budget has one."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import BudgetWithoutFallback, MissingBudget
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.nodes import AgentNode


@check(place=140)
def check_cost_contracts(root: object) -> list[ContractIssue]:
    """Check that every `budget_bounded` selector has a budget and a fallback model."""
    facts = analyse(root)
    return [issue for step in facts.steps if "selector" in step.node.given for issue in _bounded(step, facts)]


def _bounded(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    node: AgentNode = step.node
    selector = node.selector
    if selector is None or selector.strategy != "budget_bounded":
        return
    key = selector.budget_key
    if key is None:
        yield _missing(step, None, "it has no budget_key.\nAdd budget_key=, and set that key before it runs.")
    elif any(
        read.via == "budget" and read.reached and read.status == "never" for read in facts.reads_of(step)
    ):
        like = facts.spelling.like(key)
        hint = f'no step writes "{key}", and it is not in the initial state.\n'
        hint += (
            f'Did you mean "{like}"?'
            if like
            else f'Set it before: S.set({key}=...), or state={{"{key}": ...}}.'
            if key.isidentifier()
            else f'Set it before: state={{"{key}": ...}}.'
        )
        yield _missing(step, key, hint)
    if selector.fallback_model is None:
        yield BudgetWithoutFallback(
            severity=Severity.INFO,
            agent=step.name,
            key=key,
            message=f"{step.name} chooses its model by a budget"
            + f' ("{key}")' * bool(key)
            + ", without a fallback_model",
            hint="When the budget is used up, its calls are refused. Add fallback_model= to avoid this.",
        )


def _missing(step: Step, key: str | None, why: str) -> ContractIssue:
    return MissingBudget(
        agent=step.name,
        key=key,
        message=f"{step.name} chooses its model by a budget that no step sets",
        hint=why[0].upper() + why[1:],
    )
