"""What every run of a tree comes to, and the missing keys by which every run in a new session ends."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.read import Read
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir import execution
from adk_fluent.ir.nodes import (
    templates_in,
)
from adk_fluent.ir.template import about_braces, required_keys
from adk_fluent.ir.tools import ends_loops, gives_value, innermost, may_leave_loops
from adk_fluent.state.effects import Needs, effects_of


def must_fail(facts: Facts) -> str:
    """Why every run that begins with the state of the facts fails, in one line.

    It tells of the first step that every run comes to and that fails without a key which is never there. It
    is empty if a run may succeed.
    """
    found = list(_unfilled(facts))
    if not found:
        return ""
    read, issue = found[0]
    known = read.key in facts.writers
    braces = about_braces(read.key, read.step.node.templates, known=known) if read.via == "template" else ""
    others = f"The check finds {len(found) - 1} more." if found[1:] else ""
    why = " ".join(filter(None, [*issue.hint.splitlines(), braces, others]))
    return (
        f"{issue.message} and never finds it, so this run must fail. {why} "
        'No model was asked: ExecutionConfig(contracts="log") runs it anyway.'
    )


def _unfilled(facts: Facts) -> Iterator[tuple[Read, ContractIssue]]:
    """The reads by which each run ends, each with the error that the check reports, in order of the steps."""
    ending = [read for read in facts.reads if read.status == "never" and _fails_without(read)]
    if not ending:
        return
    certain = set[Step]()
    _passes(facts.plan.root, facts, certain)
    for read in ending:
        issue = about(read, facts) if read.step in certain else None
        if issue is not None and issue.severity is Severity.ERROR:
            yield read, issue


def _fails_without(read: Read) -> bool:
    """Whether the step of a read fails, whenever it runs, without the key."""
    node = read.step.node
    if read.level != "required":  # such as what `S.require` asks for, which is there to raise
        return False
    if (agent := node.agent) is not None:
        return read.via == "template" and any(
            read.key in required_keys(text) for text in templates_in(agent.instruction)
        )
    if read.where:  # the source of a function reads it in each call
        return not _chooses(read.step)
    if isinstance(node.runs, execution.PerItem) and read.via == "list":
        return True
    return Needs(read.key) in effects_of(node)


def _chooses(step: Step) -> bool:
    """Whether a step may call only some of its functions."""
    node = step.node
    if isinstance(node.runs, execution.FirstMatch):
        return len(node.runs.tests) > 1
    return any(effect.parts for effect in effects_of(node))


def _passes(step: Step, facts: Facts, certain: set[Step]) -> bool:
    """Add the steps inside that every run comes to; whether every run that does not fail goes on after it."""
    node = step.node
    if not facts.reaches(step) or facts.flow.pieces_for(step) is not None or _is_replaceable(step):
        return False
    certain.add(step)
    if (
        not isinstance(node.runs, execution.SILENT_FRAMES)
        or isinstance(node.runs, execution.ONE_COUNTS)
        or _takes_the_first(step)
    ):
        return not any(map(_may_end, step.walk(facts.steps)))
    if isinstance(node.runs, execution.InParallel):
        passed = [_passes(child, facts, certain) for child in step.children]  # all of them, whatever one does
        return all(passed)
    return all(_passes(child, facts, certain) for child in step.children)


def _takes_the_first(step: Step) -> bool:
    """Whether a step ends with the first of its branches that does."""
    return isinstance(runs := step.node.runs, execution.InParallel) and not runs.waits


def _is_replaceable(step: Step) -> bool:
    """Whether something of the user's may answer in place of a step, or write what it reads."""
    node = step.node
    if node.as_given is not None:
        return True
    callbacks = node.given.get("before_agent_callback", ())
    return any(map(gives_value, callbacks)) or any(map(_decides, node.annotations.middleware))


def _decides(middleware: object) -> bool:
    """Whether a middleware may skip a step, write state or ask a person; of ours, only the last of these."""
    ours = type(middleware).__module__.startswith("adk_fluent.")
    return not ours or bool(getattr(middleware, "may_pause", False))


def _may_end(step: Step) -> bool:
    """Whether a run may not come to what follows a step: it waits, hands over, or leaves a loop or a run."""
    node = step.node
    if node.asks or node.may_pause or node.may_turn_to_ask or _is_replaceable(step):
        return True
    if not (agent := node.agent):
        return isinstance(node.runs, execution.HandOver)
    tools = [part for tool in agent.tools for part in innermost(tool)]
    return ends_loops(agent.tools) or any(map(may_leave_loops, (*tools, *agent.callbacks)))
