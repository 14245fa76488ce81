"""Context specs name agents that exist."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.talk.sight import EVERYTHING, sight_of
from adk_fluent.contracts.issues import UnknownAgent
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.spelling import Spelling


@check(place=60)
def check_context_contracts(root: object) -> list[ContractIssue]:
    """Every agent that a context spec names is one of the tree."""
    facts = analyse(root)
    choosy = [step for step in facts.steps if sight_of(step.node) is not EVERYTHING]
    if not choosy:
        return []
    names = {"user", *(name for step in facts.steps for name in (step.name, step.origin))}
    return [issue for step in choosy for issue in _unknown(step, names, facts)]


def _unknown(step: Step, names: set[str], facts: Facts) -> Iterator[ContractIssue]:
    sight = sight_of(step.node)
    for name in sorted({*(sight.authors or ()), *sight.excluded} - names):
        agents = [other.name for other in facts.steps if other.is_model and other is not step]
        like = Spelling(agents).like(name)
        yield UnknownAgent(
            agent=step.name,
            message=f'{step.name} has {sight.shown}, and no agent is called "{name}"',
            hint=f'Did you mean "{like}"?' if like else f"The agents here are {', '.join(agents) or 'none'}.",
        )
