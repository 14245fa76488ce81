"""Checks of the state that goes to other processes: across execution boundaries, and to remote agents."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.cuts import Stretch, boundaries, obstacle, schema_fields, stretches
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts import issues
from adk_fluent.contracts.findings import finding_about, obstacle_message
from adk_fluent.contracts.report import ContractIssue, check
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.ir.tools import agents_inside
from adk_fluent.spelling import Spelling
from adk_fluent.state.delta import is_plain
from adk_fluent.state.effects import effects_of

# --- execution boundaries -------------------------------------------------------------------------


@check(place=120)
def check_boundary_contracts(root: object) -> list[ContractIssue]:
    """Check that a run can be cut at each boundary, and that the state there is declared and plain data."""
    facts = analyse(root)
    lost = [*_boundaries_in_tools(facts)]
    if not boundaries(facts):
        return lost
    lost += _lost_temporary_keys(facts)
    parts = stretches(facts)
    cuts = [part.cut for part in parts[1:] if part.cut is not None]
    return [*lost, *_uncuttable(facts), *_unserializable(facts, cuts), *_undeclared(facts, parts)]


def _lost_temporary_keys(facts: Facts) -> Iterator[ContractIssue]:
    """Report reads of `temp:` keys that are lost at a boundary; the reader's check may report them, too."""
    for read in facts.reads:
        if is_temporary(read.key):
            found = finding_about(read, facts)
            if isinstance(found, issues.BoundaryTempKey):
                yield found


def _boundaries_in_tools(facts: Facts) -> Iterator[ContractIssue]:
    for step in facts.steps:
        for body in agents_inside(agent.tools if (agent := agent_of(step.node)) is not None else ()):
            for node in walk(body):
                if node.annotations.boundary is not None:
                    yield issues.BoundaryUncuttable(
                        agent=step.name,
                        message=f"the execution boundary of {node.name!r} stands inside a tool of "
                        f"{step.name}, which runs as a whole",
                        hint="A run is not cut there: a tool runs in the process of its agent.\n"
                        f"Put the boundary on {step.name!r}, or on a step of the pipeline around it.",
                    )


def _uncuttable(facts: Facts) -> Iterator[ContractIssue]:
    for step in boundaries(facts):
        problem = obstacle(facts, step)
        if problem is not None:
            message, hint = obstacle_message(problem)
            yield issues.BoundaryUncuttable(
                agent=step.name,
                message=message,
                hint=f"A run in one process ignores this boundary; split() refuses it.\n{hint}",
            )


def _unserializable(facts: Facts, cuts: list[Step]) -> Iterator[ContractIssue]:
    typed = schema_fields(facts)
    for step in facts.steps:
        after = next((cut for cut in cuts if cut.index > step.index), None)
        if after is None:
            return
        for key, value in _constants(step.node):
            if not is_temporary(key) and key not in typed and not is_plain(value):
                yield issues.BoundaryType(
                    agent=step.name,
                    key=key,
                    message=f'{step.name} writes "{key}", a {type(value).__name__}, before the execution '
                    f"boundary of {after.name}",
                    hint=f"State crosses that boundary as data, which cannot hold a {type(value).__name__}.\n"
                    "Write text, numbers, bytes, lists and dicts, or declare the key in a StateSchema.",
                )


def _constants(node: Node) -> list[tuple[str, object]]:
    """The keys and values that a step certainly writes."""
    return [constant for effect in effects_of(node) for constant in effect.constants]


def _undeclared(facts: Facts, parts: list[Stretch]) -> Iterator[ContractIssue]:
    readers, _ = facts.unknown
    for part in parts:
        if part.cut is None:
            continue
        for step in part.open_reads:
            if step in readers:
                yield issues.BoundaryUndeclared(
                    agent=step.name,
                    message=f"{step.name} runs behind the execution boundary of {part.cut.name} and "
                    "does not say which keys it reads",
                    hint="So the whole state is sent over that boundary, and all of it must be data.\n"
                    "Declare what it reads: @declares(reads=[...], writes=[...]).",
                )


# --- remote agents --------------------------------------------------------------------------------


@check(place=130)
def check_a2a_contracts(root: object) -> list[ContractIssue]:
    """Check that the keys sent to a remote agent are in state, and include every field that it requires."""
    facts = analyse(root)
    unmet = [
        issue
        for read in facts.reads
        if read.via == "remote" and (issue := finding_about(read, facts)) is not None
    ]
    return unmet + [_missing_input(step, name) for step in facts.steps for name in step.node.unsent_inputs]


def _missing_input(step: Step, name: str) -> ContractIssue:
    like = Spelling(step.node.sent_names).like(name)
    return issues.RemoteInputMissing(
        agent=step.name,
        key=name,
        message=f'{step.name} needs "{name}" as input, and it is not sent',
        hint=f'Only the keys of .reads() are sent to a remote agent. Add .reads("{name}").'
        + (f' Did you mean it by "{like}"?' if like else ""),
    )
