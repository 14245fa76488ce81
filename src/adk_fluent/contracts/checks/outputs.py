"""What is written is read."""

from __future__ import annotations

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.overwriting import overwritten
from adk_fluent.analysis.plan import Step, first_after
from adk_fluent.contracts.issues import DeadState, Overwritten
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import STEP_BY_STEP
from adk_fluent.ir.state_keys import is_session_scoped


@check(place=80)
def check_output_key_contracts(root: object) -> list[ContractIssue]:
    """Every session key that a step writes is read by some step, before it is written again.

    What the last step writes need not be read.
    """
    facts = analyse(root)
    lost = overwritten(facts)
    in_vain = {(step, key) for step, key, _ in lost}
    read = {read.key for read in facts.reads if read.via != "removal"}
    last = last_steps(facts.plan.root)
    unknown = max((reader.index for reader in facts.unknown[0]), default=-1)
    found = [_overwritten(step, key, by) for step, key, by in lost]
    for key, writers in facts.writers.items():
        if key in read or not is_session_scoped(key) or any(writer in last for writer in writers):
            continue
        # a function that says nothing about what it reads may run after a writer
        if not any(unknown >= first_after(writer) for writer in writers):
            found += [_dead(key, writer) for writer in writers if (writer, key) not in in_vain][:1]
    return found


def last_steps(step: Step) -> set[Step]:
    """The steps after which nothing runs."""
    found: set[Step] = set()
    pending = [step]
    while pending:
        current = pending.pop()
        found.add(current)
        if current.children:
            in_order = isinstance(current.node.runs, STEP_BY_STEP)
            pending += current.children[-1:] if in_order else current.children
    return found


def _overwritten(step: Step, key: str, by: Step) -> ContractIssue:
    return Overwritten(
        severity=Severity.INFO,
        agent=step.name,
        key=key,
        message=f'{step.name} writes "{key}", and {by.name} writes it again before anybody reads it',
        hint="Give one of them a key of its own, or read it in between.",
    )


def _dead(key: str, writer: Step) -> ContractIssue:
    how = "outputs" if writer.node.agent else "writes"
    return DeadState(
        severity=Severity.INFO,
        agent=writer.name,
        key=key,
        message=f'{writer.name}.{how}("{key}") is never read',
        hint=f'No instruction, route or function that is known to read "{key}" runs after {writer.name}.\n'
        "That is fine if the caller reads it from the result's state.",
    )
