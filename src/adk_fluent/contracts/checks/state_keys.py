"""Checks that each state key is written before a step reads it, and read after a step has written it.

Two branches must not write one key at the same time, and a pause must not lose a `temp:` key that is read
later. The last check names the functions whose keys the analysis does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import isroutine

from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.dead_writes import overwritten
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, first_after
from adk_fluent.analysis.values.fact import LOST, PRESENT
from adk_fluent.contracts.checks.control_flow import unchanging
from adk_fluent.contracts.findings import finding_about, lost_in_pause
from adk_fluent.contracts.issues import DeadState, Overwritten, ParallelWriters, PauseTempKey, UnknownAccess
from adk_fluent.contracts.reasons import names_of, reader_text
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.execution import STEP_BY_STEP, InParallel, PerItem, Repeated
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import TransformNode, agent_of
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.ir.tools import holds_native_agent

# --- reads before a write -------------------------------------------------------------------------


_REPORTED_ELSEWHERE = ("template", "message", "route", "budget", "quality")
"""The kinds of reads that other checks report."""


@check(place=40)
def check_dataflow_contracts(root: object) -> list[ContractIssue]:
    """Check that every key is in state when a step reads it; other checks do so for templates and routes."""
    facts = analyse(root)
    found = (finding_about(read, facts) for read in facts.reads if read.via not in _REPORTED_ELSEWHERE)
    return [issue for issue in found if issue is not None and not _is_endless(issue, facts)]


def _is_endless(issue: ContractIssue, facts: Facts) -> bool:
    """True for the `until` of a loop that can only run to its limit: `check_loops` reports that one."""
    step = facts.plan.by_name[issue.agent]
    return isinstance(step.node.runs, Repeated) and issue.key in unchanging(step, facts)


# --- writes without a read ------------------------------------------------------------------------


@check(place=80)
def check_output_key_contracts(root: object) -> list[ContractIssue]:
    """Check that some step reads each session key after it is written, and before it is written again.

    The caller may read keys of the last steps in the result, so these are not reported.
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
        # A function with unknown reads may run after the writer and read the key.
        if not any(unknown >= first_after(writer) for writer in writers):
            found += [_dead_key(key, writer) for writer in writers if (writer, key) not in in_vain][:1]
    return found


def last_steps(step: Step) -> set[Step]:
    """The steps that no other step follows."""
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
        message=f'{step.name} writes "{key}", and {by.name} writes it again before a step reads it',
        hint="Let one of them write another key, or read the key in between.",
    )


def _dead_key(key: str, writer: Step) -> ContractIssue:
    how = "outputs" if agent_of(writer.node) else "writes"
    return DeadState(
        severity=Severity.INFO,
        agent=writer.name,
        key=key,
        message=f'{writer.name}.{how}("{key}") is never read',
        hint=f'After {writer.name}, no instruction, route or function reads "{key}".\n'
        "That is fine if the caller reads it from the result's state.",
    )


# --- writes at the same time ----------------------------------------------------------------------


@check(place=170)
def check_parallel_writers(root: object) -> list[ContractIssue]:
    """Report each key that two branches write at the same time, unless only one branch's answer is kept.

    Report also each operation in a map that changes a key from its earlier value: the items do not see each
    other's changes.
    """
    facts = analyse(root)
    found: list[ContractIssue] = []
    reported: set[tuple[Step, str]] = set()
    for step in facts.steps:
        if not facts.reaches(step):
            continue
        runs = step.node.runs
        if isinstance(runs, InParallel) and runs.waits:
            found += _parallel_writes(step, facts)
        elif isinstance(runs, PerItem):
            found += _changes_per_item(step, facts, reported)
    return found


def _parallel_writes(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    first: dict[str, Step] = {}
    reported: set[str] = set()
    for child in step.children:
        for key, writer in facts.effects_of(child).writes.items():
            other = first.setdefault(key, writer)
            if other is not writer and key not in reported:
                reported.add(key)
                yield ParallelWriters(
                    agent=writer.name,
                    key=key,
                    message=f'{other.name} and {writer.name} both write "{key}" at the same time',
                    hint=f"They are branches of {step.name}: the slower one overwrites the other.\n"
                    "Give each branch its own key, and join them with S.merge(..., into=...).",
                )


def _changes_per_item(step: Step, facts: Facts, reported: set[tuple[Step, str]]) -> Iterator[ContractIssue]:
    """Report operations in a map that change a key from its value before the map, for each item again."""
    inside = tuple(step.walk(facts.steps))
    runs: PerItem = step.node.runs
    answers = runs.output_key
    for writer in inside:
        # Only the operations of a transform show from which keys a value is made.
        if not isinstance(writer.node, TransformNode) or not facts.reaches(writer):
            continue
        for key in sorted(_changed_keys(writer, inside, facts) - {runs.item_key}):
            if (writer, key) in reported:
                continue
            reported.add((writer, key))
            yield ParallelWriters(
                agent=writer.name,
                key=key,
                message=f'{writer.name} changes "{key}" in each item of {step.name}, from what it was before',
                hint="Items do not see each other's changes, so one change is left, not one for each item.\n"
                f'Let each item answer, and work on the list "{answers}" after the map, such as '
                f'S.compute({key.rpartition(":")[2]}=lambda s: len(s["{answers}"])). Or use a Loop.',
            )


def _changed_keys(writer: Step, inside: Sequence[Step], facts: Facts) -> set[str]:
    """The keys whose new value depends on their old one, unless the same item wrote the old one."""
    own = facts.effects_of(writer).writes.keys()
    earlier = {key for each in inside if each.index < writer.index for key in facts.writes_of(each)}
    kept = {read.key for read in getattr(writer.node.fn, "reads", ()) if read.via == "own"} - earlier
    found = {
        read.key
        for read in facts.reads_of(writer)
        if read.mask != PRESENT or not all({*fact.writers} <= {*inside} for fact in read.facts)
    }
    return (kept | found) & own


# --- keys that a pause loses ----------------------------------------------------------------------


@check(place=220)
def check_pauses(root: object) -> list[ContractIssue]:
    """Report each read of a `temp:` key that was written before the run may have stopped for a person."""
    return [
        _lost_key(read, read.lost)
        for read in analyse(root).reads
        if read.lost is not None and lost_in_pause(read)
    ]


def _lost_key(read: Read, stop: Step) -> ContractIssue:
    writers = next(fact.writers for fact in read.facts if fact.mask & LOST)
    written = f"written by {names_of(writers)}" if writers else "in the initial state"
    own = stop is read.step
    remedy = "Use a key" if own else f"Write it again after {stop.name}, or use a key"
    return PauseTempKey(
        agent=read.step.name,
        key=read.key,
        message=reader_text(read),
        hint=f'"{read.key}" is {written}, and temp: keys do not outlive a pause: it is gone once '
        f'{"it" if own else stop.name} asks a person.\n{remedy} without "temp:".',
    )


# --- functions with unknown keys ------------------------------------------------------------------


@check(place=230)
def check_unknown_functions(root: object) -> list[ContractIssue]:
    """One note that names all functions which neither declare their keys nor show them in their source."""
    facts = analyse(root)
    readers, writers = facts.unknown
    if not readers and not writers:
        return []
    steps = sorted({**readers, **writers}, key=lambda step: step.index)
    hidden = sorted({read.key for read in facts.reads if read.status == "unknown" and ":" not in read.key})
    first = steps[0]
    names = [
        f"{_function_text([*readers.get(step, []), *writers.get(step, [])])} in {step.name}"
        for step in steps[:5]
    ]
    more = f" and {len(steps) - 5} more" if len(steps) > 5 else ""
    affected = f" So it is unknown whether {', '.join(map(repr, hidden))} will be in state." if hidden else ""
    what = "reads or writes" if writers else "reads"
    return [
        UnknownAccess(
            severity=Severity.INFO,
            agent=first.name,
            key=hidden[0] if hidden else None,
            message=f"What {', '.join(names)}{more} {what} is unknown",
            hint=f"{_reason(readers, writers)}{affected}\n{_remedy(readers, writers)}",
        )
    ]


def _reason(*found: Mapping[Step, list[object]]) -> str:
    tools, others = _native_agents(*found)
    if tools and not others:
        return "The check does not read an agent inside ADK's AgentTool."
    return f"The source of {_kind_of_code(*found)} does not show it."


def _remedy(*found: Mapping[Step, list[object]]) -> str:
    """The advice: declare the keys of code, and give an agent inside a tool of ADK's to `T.agent`."""
    tools, others = _native_agents(*found)
    declare = 'Declare it: @declares(reads=["..."], writes=["..."]) from adk_fluent.state.'
    adopt = "Give the agent of {} to T, and the check reads it: .tools(T.agent(agent))."
    named = at_most_three(list(dict.fromkeys(_function_text([tool]) for tool in tools)))
    return " ".join([declare] * bool(others) + [adopt.format(named)] * bool(tools))


def _native_agents(*found: Mapping[Step, list[object]]) -> tuple[list[object], list[object]]:
    """The functions that are ADK's `AgentTool`, and the others."""
    every = [function for steps in found for held in steps.values() for function in held]
    tools = [function for function in every if holds_native_agent(function)]
    return tools, [function for function in every if not holds_native_agent(function)]


def _kind_of_code(*found: Mapping[Step, list[object]]) -> str:
    agents = [is_native(function) for steps in found for each in steps.values() for function in each]
    if all(agents):
        return "such classes"
    return "these functions and such classes" if any(agents) else "these functions"


def _function_text(functions: list[object]) -> str:
    function = functions[0]
    if is_native(function):
        return f"{type(function).__name__}, a class derived from ADK's,"
    name = function_name(function, "") or getattr(function, "name", "") or getattr(function, "called", "")
    if isinstance(name, str) and name:
        return name
    return "a function" if isroutine(function) or isinstance(function, partial) else type(function).__name__
