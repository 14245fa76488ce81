"""What an agent's model is sent fits into what it may get."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import TokenLimit
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.execution import ByModel


@check(place=145)
def check_token_limits(root: object) -> list[ContractIssue]:
    """No request is longer, as far as can be foreseen, than its agent accepts or its models may get."""
    facts = analyse(root)
    agents = [step for step in facts.steps if isinstance(step.node.runs, ByModel)]
    noted = [step for step in facts.steps if step.node.annotations is not NO_ANNOTATIONS]
    beside = [step for step in noted if step.node.annotations.middleware]
    if not beside and not any("selector" in one.node.given or one.node.annotations.content for one in agents):
        return []  # as in most pipelines, which need not load what foresees requests
    limited = [step for step in agents if _limits(step) != (None, None)]
    budgets = _budgets(beside)
    if not limited and not budgets:
        return []
    from adk_fluent.cost.turn_walk import least_request_tokens

    requests = least_request_tokens(facts.plan)
    return [
        *(issue for step in limited for issue in _exceeded(step, requests.get(step, 0.0))),
        *(
            _refused(step, int(requests.get(step, 0.0)), budget)
            for outer, budget in budgets
            for step in agents
            if outer.index <= step.index < outer.end and requests.get(step, 0.0) > budget
        ),
    ]


def _budgets(steps: list[Step]) -> list[tuple[Step, int]]:
    """The steps around which a `token_budget` holds, with what it allows."""
    if not steps:
        return []
    from adk_fluent.middleware.budgets import TokenBudget  # which most pipelines do not have

    return [
        (step, one.most)
        for step in steps
        for one in step.node.annotations.middleware
        if isinstance(one, TokenBudget)
    ]


def _refused(step: Step, tokens: int, budget: int) -> ContractIssue:
    message = f"{step.name} is sent about {tokens:,} tokens or more, and its token_budget allows {budget:,}"
    return _issue(step, f"{message}: each of its calls is refused")


def _limits(step: Step) -> tuple[int | None, int | None]:
    """What an agent accepts, and what its models may get; `None` where there is no limit."""
    from adk_fluent.cost.model_selection import chosen_by

    content = step.node.annotations.content
    accepted = content.max_input_tokens if content is not None else None
    selector, _ = chosen_by(step)
    if selector is None or selector.fallback_model is not None:
        return accepted, None
    most = [one.max_tokens for one in selector.candidates if one.max_tokens is not None]
    return accepted, max(most) if len(most) == len(selector.candidates) else None


def _exceeded(step: Step, request: float) -> Iterator[ContractIssue]:
    accepted, most = _limits(step)
    tokens = int(request)
    if accepted is not None and tokens > accepted:
        yield _issue(step, f"{step.name} is sent about {tokens:,} tokens or more, and accepts {accepted:,}")
    if most is not None and tokens > most:
        yield _issue(
            step,
            f"{step.name} is sent about {tokens:,} tokens or more, and none of its models may get more than "
            f"{most:,}",
        )
    if most is not None and accepted is not None and accepted > most:
        yield _issue(
            step,
            f"{step.name} accepts {accepted:,} tokens, and none of its models may get more than {most:,}",
        )


def _issue(step: Step, message: str) -> ContractIssue:
    return TokenLimit(
        severity=Severity.WARN,
        agent=step.name,
        message=message,
        hint="Show it less (.reads, C.window), limit the answers before it "
        "(.generate(max_output_tokens=)), or raise the limit.",
    )
