"""Branches that run at the same time keep out of each other's way."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import ParallelWriters
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.nodes import ParallelNode


@check(place=170)
def check_parallel_writers(root: object) -> list[ContractIssue]:
    """No two branches that run at the same time write one key, unless only one of them is kept."""
    facts = analyse(root)
    return [
        issue
        for step in facts.steps
        if isinstance(step.node, ParallelNode) and step.node.merge != "first_complete" and facts.reaches(step)
        for issue in _clashes(step, facts)
    ]


def _clashes(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    first: dict[str, Step] = {}
    told: set[str] = set()
    for child in step.children:
        for key, writer in facts.effects_of(child).writes.items():
            other = first.setdefault(key, writer)
            if other is not writer and key not in told:
                told.add(key)
                yield ParallelWriters(
                    agent=writer.name,
                    key=key,
                    message=f'{other.name} and {writer.name} both write "{key}" at the same time',
                    hint=f"They are branches of {step.name}: whichever is slower wins.\n"
                    "Give each a key of its own and join them with S.merge(..., into=...).",
                )
