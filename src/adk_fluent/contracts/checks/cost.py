"""Checks that agents have the budgets they need, and that requests are not longer than their limits."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import BudgetWithoutFallback, MissingBudget, TokenLimit
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.nodes import AgentNode

# --- budgets --------------------------------------------------------------------------------------


@check(place=140)
def check_cost_contracts(root: object) -> list[ContractIssue]:
    """Check that every `budget_bounded` selector has a budget and a fallback model."""
    facts = analyse(root)
    return [
        issue
        for step in facts.steps
        if "selector" in step.node.given
        for issue in _budget_issues(step, facts)
    ]


def _budget_issues(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    node: AgentNode = step.node
    selector = node.selector
    if selector is None or selector.strategy != "budget_bounded":
        return
    key = selector.budget_key
    if key is None:
        yield _missing_budget(
            step, None, "it has no budget_key.\nAdd budget_key=, and set that key before it runs."
        )
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
        yield _missing_budget(step, key, hint)
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


def _missing_budget(step: Step, key: str | None, why: str) -> ContractIssue:
    return MissingBudget(
        agent=step.name,
        key=key,
        message=f"{step.name} chooses its model by a budget that no step sets",
        hint=why[0].upper() + why[1:],
    )


# --- token limits ---------------------------------------------------------------------------------


@check(place=145)
def check_token_limits(root: object) -> list[ContractIssue]:
    """Estimate each request, and report those that are longer than their agent, models or budget allow."""
    facts = analyse(root)
    agents = [step for step in facts.steps if isinstance(step.node.runs, ByModel)]
    noted = [step for step in facts.steps if step.node.annotations is not NO_ANNOTATIONS]
    beside = [step for step in noted if step.node.annotations.middleware]
    if not beside and not any("selector" in one.node.given or one.node.annotations.content for one in agents):
        return []  # most pipelines have no limit, so they do not load the estimate of requests
    limited = [step for step in agents if _limits(step) != (None, None)]
    budgets = _token_budgets(beside)
    if not limited and not budgets:
        return []
    from adk_fluent.cost.turn_walk import least_request_tokens

    requests = least_request_tokens(facts.plan)
    return [
        *(issue for step in limited for issue in _over_limit(step, requests.get(step, 0.0))),
        *(
            _over_budget(step, int(requests.get(step, 0.0)), budget)
            for outer, budget in budgets
            for step in agents
            if outer.index <= step.index < outer.end and requests.get(step, 0.0) > budget
        ),
    ]


def _token_budgets(steps: list[Step]) -> list[tuple[Step, int]]:
    """The steps with a `token_budget` middleware, each with the tokens that it allows."""
    if not steps:
        return []
    from adk_fluent.middleware.budgets import TokenBudget  # imported late: most pipelines have none

    return [
        (step, one.most)
        for step in steps
        for one in step.node.annotations.middleware
        if isinstance(one, TokenBudget)
    ]


def _over_budget(step: Step, tokens: int, budget: int) -> ContractIssue:
    message = f"{step.name} is sent about {tokens:,} tokens or more, and its token_budget allows {budget:,}"
    return _token_limit(step, f"{message}: each of its calls is refused")


def _limits(step: Step) -> tuple[int | None, int | None]:
    """The most tokens that an agent accepts, and that its models may get; `None` where there is no limit."""
    from adk_fluent.cost.model_selection import chosen_by

    content = step.node.annotations.content
    accepted = content.max_input_tokens if content is not None else None
    selector, _ = chosen_by(step)
    if selector is None or selector.fallback_model is not None:
        return accepted, None
    most = [one.max_tokens for one in selector.candidates if one.max_tokens is not None]
    return accepted, max(most) if len(most) == len(selector.candidates) else None


def _over_limit(step: Step, request: float) -> Iterator[ContractIssue]:
    accepted, most = _limits(step)
    tokens = int(request)
    if accepted is not None and tokens > accepted:
        yield _token_limit(
            step, f"{step.name} is sent about {tokens:,} tokens or more, and accepts {accepted:,}"
        )
    if most is not None and tokens > most:
        yield _token_limit(
            step,
            f"{step.name} is sent about {tokens:,} tokens or more, and none of its models may get more than "
            f"{most:,}",
        )
    if most is not None and accepted is not None and accepted > most:
        yield _token_limit(
            step,
            f"{step.name} accepts {accepted:,} tokens, and none of its models may get more than {most:,}",
        )


def _token_limit(step: Step, message: str) -> ContractIssue:
    return TokenLimit(
        severity=Severity.WARN,
        agent=step.name,
        message=message,
        hint="Show it less (.reads, C.window), limit the answers before it "
        "(.generate(max_output_tokens=)), or raise the limit.",
    )
