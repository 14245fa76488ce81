"""Check that the user sees an answer."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, branch_names
from adk_fluent.contracts.issues import BranchNotVisible, NobodyVisible
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import ONE_COUNTS


@check(place=150)
def check_visibility_contracts(root: object) -> list[ContractIssue]:
    """Check that the user sees an answer, for every branch of a route."""
    facts = analyse(root)
    speaking = (step for step in facts.steps if step.is_model or step.node.says is not None)
    speakers = [step for step in speaking if facts.reaches(step)]
    if not speakers:
        return []
    if not any(facts.visibility[step.name] == "user" for step in speakers):
        last = speakers[-1]
        return [
            NobodyVisible(
                agent=last.name,
                message="No agent is visible to the user",
                hint=f"All answers are internal. Remove a .hide(), or add .show() to {last.name}.",
            )
        ]
    return list(_silent_branches(facts, {step.index for step in speakers}))


def _silent_branches(facts: Facts, speakers: set[int]) -> Iterator[ContractIssue]:
    """Report branches whose agents all stay internal, if the user sees an agent of another branch."""
    visible, speaking = _counts(facts, speakers)
    for step in facts.steps:
        if step.node.runs.apart or not isinstance(step.node.runs, ONE_COUNTS):
            continue
        seen = {child: visible[child.end] - visible[child.index] for child in step.children}
        for child in step.children if any(seen.values()) else ():
            if not seen[child] and speaking[child.end] - speaking[child.index]:
                yield _silent(step, child)


def _counts(facts: Facts, speakers: set[int]) -> tuple[list[int], list[int]]:
    """The number of visible steps before each index, and the number of speaking ones."""
    visible, speaking = [0], [0]
    for step in facts.steps:
        speaks = step.index in speakers
        visible.append(visible[-1] + (speaks and facts.visibility[step.name] == "user"))
        speaking.append(speaking[-1] + speaks)
    return visible, speaking


def _silent(step: Step, child: Step) -> ContractIssue:
    return BranchNotVisible(
        severity=Severity.INFO,
        agent=child.name,
        message=f"No agent is visible to the user when {branch_names(step, [child])} runs",
        hint=f"All answers in this branch of {step.name} are internal. Remove a .hide(), or add .show().",
    )
