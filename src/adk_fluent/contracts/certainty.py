"""Predict that every run in a new session must fail because a key is missing.

The prediction needs two proofs: the key is never in state when a step reads it, and every run reaches that
step. `_add_certain` collects the steps that every run reaches. It stops at each step after which a run may
end: one that may wait for a person, hand over, leave a loop, or be replaced by a callback. Without this
second proof, a run that works only because such a step ends it early would be refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.findings import finding_about
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir import execution
from adk_fluent.ir.nodes import agent_of, templates_in
from adk_fluent.ir.template import about_braces, required_keys
from adk_fluent.ir.tools import ends_loops, gives_value, innermost, may_leave_loops
from adk_fluent.state.effects import Needs, effects_of


def must_fail(facts: Facts) -> str:
    """The reason, in one line, why every run with the initial state of these facts fails.

    It names the first step that every run reaches and that fails because its key is never there. The text is
    empty if a run may succeed.
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
    """The reads at which every run fails, in order of the steps, each with the error of the check."""
    ending = [read for read in facts.reads if read.status == "never" and _fails_without(read)]
    if not ending:
        return
    certain = set[Step]()
    _add_certain(facts.plan.root, facts, certain)
    for read in ending:
        issue = finding_about(read, facts) if read.step in certain else None
        if issue is not None and issue.severity is Severity.ERROR:
            yield read, issue


def _fails_without(read: Read) -> bool:
    """True if the step of a read always fails without the key."""
    node = read.step.node
    if read.level != "required":  # for example `S.require`: its purpose is to raise
        return False
    if (agent := agent_of(node)) is not None:
        return read.via == "template" and any(
            read.key in required_keys(text) for text in templates_in(agent.instruction)
        )
    if read.where:  # the function's source reads the key in each call
        return not _chooses(read.step)
    if isinstance(node.runs, execution.PerItem) and read.via == "list":
        return True
    return Needs(read.key) in effects_of(node)


def _chooses(step: Step) -> bool:
    """True if a step may call only some of its functions."""
    node = step.node
    if isinstance(node.runs, execution.FirstMatch):
        return len(node.runs.tests) > 1
    return any(effect.parts for effect in effects_of(node))


def _add_certain(step: Step, facts: Facts, certain: set[Step]) -> bool:
    """Add the steps inside that every run reaches; true if every successful run reaches the end of `step`."""
    node = step.node
    if not facts.reaches(step) or facts.flow.chunk_passage(step) is not None or _is_replaceable(step):
        return False
    certain.add(step)
    if (
        not isinstance(node.runs, execution.SILENT_FRAMES)
        or isinstance(node.runs, execution.ONE_COUNTS)
        or _takes_the_first(step)
    ):
        return not any(map(_may_end, step.walk(facts.steps)))
    if isinstance(node.runs, execution.InParallel):
        passed = [_add_certain(child, facts, certain) for child in step.children]  # a list: every branch runs
        return all(passed)
    return all(_add_certain(child, facts, certain) for child in step.children)


def _takes_the_first(step: Step) -> bool:
    """True if a parallel step ends when its first branch ends."""
    return isinstance(runs := step.node.runs, execution.InParallel) and not runs.waits


def _is_replaceable(step: Step) -> bool:
    """True if a user's code may answer instead of a step, or write the key that it reads."""
    node = step.node
    if node.as_given is not None:
        return True
    callbacks = node.given.get("before_agent_callback", ())
    return any(map(gives_value, callbacks)) or any(map(_decides, node.annotations.middleware))


def _decides(middleware: object) -> bool:
    """True if a middleware may skip a step, write state or ask a person; the library's may only ask."""
    ours = type(middleware).__module__.startswith("adk_fluent.")
    return not ours or bool(getattr(middleware, "may_pause", False))


def _may_end(step: Step) -> bool:
    """True if a run may end at this step, before the next one: it waits, hands over or leaves a loop."""
    node = step.node
    if node.asks or node.may_pause or node.may_turn_to_ask or _is_replaceable(step):
        return True
    if not (agent := agent_of(node)):
        return isinstance(node.runs, execution.HandOver)
    tools = [part for tool in agent.tools for part in innermost(tool)]
    return ends_loops(agent.tools) or any(map(may_leave_loops, (*tools, *agent.callbacks)))
