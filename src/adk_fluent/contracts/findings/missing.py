"""The finding about one read: the key is there, may be missing, or never is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, STATUS, Fact
from adk_fluent.analysis.values.read import Read
from adk_fluent.contracts.findings.wording import listed, who_reads, why_first_turn, why_may, why_never
from adk_fluent.contracts.issues import BoundaryTempKey, ReadBeforeWrite, ScopeMismatch
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.state_keys import SCOPES, is_shared
from adk_fluent.ir.tools import gives_value
from adk_fluent.state.effects import Needs, all_effects

MOST_NAMED = 12
"""How many writers of a key a finding names."""


def about(read: Read, facts: Facts, kind: type[ContractIssue] = ReadBeforeWrite) -> ContractIssue | None:
    """What is wrong with a read, or `None` if nothing is, as far as that is known."""
    status = read.status
    if status == "must":
        return None
    if read.level != "optional" and (other := elsewhere(read, facts)) is not None:
        return _other_scope(read, other, facts)
    if status == "never" and read.level != "optional":
        if earlier := left_by_turns(read, facts):
            return _finding(read, kind, Severity.WARN, why_first_turn(read, earlier))
        severity = Severity.WARN if read.level == "lenient" else Severity.ERROR
        return _finding(read, kind, severity, why_never(read, facts))
    if read.level != "optional" and _starts_as_none(read, facts) and _needs_value(read):
        return _finding(read, kind, Severity.ERROR, why_may(read, facts))
    if status == "may" and read.level == "required" and not taken(read):
        if read.doubt is not None and read.doubt.why is not None and read.doubt.why.reason == "boundary":
            kind = BoundaryTempKey
        return _finding(read, kind, Severity.WARN, why_may(read, facts))
    return None


def _starts_as_none(read: Read, facts: Facts) -> bool:
    """Whether the key still holds the `None` of the initial state when the step first runs."""
    fact, known = read.first, facts.state
    if fact is None or read.key not in known or known[read.key] is not None:
        return False
    return fact.mask & STATUS == PRESENT | ABSENT and fact.why is None and not fact.writers


def _needs_value(read: Read) -> bool:
    """Whether the step raises without a value, and takes `None` for none; functions may read a `None`."""
    if read.via == "list":
        return True
    node = read.step.node
    # An operation on artifacts says itself what it misses.
    effects = all_effects(node) if isinstance(node, TransformNode) else ()
    return any(isinstance(effect, Needs) and effect.key == read.key for effect in effects)


def left_by_turns(read: Read, facts: Facts) -> list[Step]:
    """The steps by which an earlier turn of the session may have left the key.

    These are steps that a turn can come to without the reader, which would end it for want of the key.
    """
    around = (read.step, *read.step.above())
    is_plain = any(step.node.annotations.adopted is not None for step in around)  # made with ADK alone
    if not is_plain or read.key.startswith("temp:") or cast(Fact, read.first).removed_by is not None:
        return []
    return [writer for writer in facts.writers.get(read.key, ()) if _comes_without(writer, read.step)]


def _comes_without(writer: Step, reader: Step) -> bool:
    """Whether a turn can come to one step without another that stands before it."""
    around = [writer, *writer.above()]
    at = reader
    while at not in around:
        if _may_skip(at.node):
            return True
        if at.parent is None:
            return False
        at, inner = at.parent, at
        if isinstance(at.node.runs, _CHOOSE) and (
            at is not writer or isinstance(at.node.runs, execution.ByModel)
        ):
            first = isinstance(at.node.runs, execution.UNTIL_SUCCESS) and inner is at.children[0]
            return not first
    return False


def _may_skip(node: Node) -> bool:
    """Whether a callback may answer in place of an agent."""
    return any(gives_value(function) for function in node.given.get("before_agent_callback", ()))


_CHOOSE: Final = (*execution.ONE_COUNTS, execution.ByModel, execution.PerItem)
"""How nodes run their children of which one may have no turn."""


def taken(read: Read) -> bool:
    """Whether a pause may take what is read: a `temp:` key; that is told by a check of its own.

    A placeholder with a `?` means that the key may be missing, and what removes a key needs no value.
    """
    optional = read.level == "optional" and read.via in ("template", "message", "prompt", "context")
    expected = optional or read.via == "removal"
    return read.lost is not None and read.status == "may" and not expected


def _finding(read: Read, kind: type[ContractIssue], severity: Severity, hint: str) -> ContractIssue:
    return kind(severity=severity, agent=read.step.name, key=read.key, message=who_reads(read), hint=hint)


def elsewhere(read: Read, facts: Facts) -> str | None:
    """The same key in the scope in which it is written, if it is written in another scope only."""
    if read.key in facts.writers or read.key in facts.state or read.status not in ("never", "unknown"):
        return None
    if read.status == "unknown" and not is_shared(read.key):
        return None
    bare = read.key.rpartition(":")[2]
    for candidate in (bare, *(f"{scope}:{bare}" for scope in SCOPES)):
        if candidate != read.key and (candidate in facts.writers or candidate in facts.state):
            return candidate
    return None


def _other_scope(read: Read, other: str, facts: Facts) -> ContractIssue:
    writers = facts.writers.get(other, ())[:3]
    where = f"{listed(writers)} write{'s' * (len(writers) == 1)}" if writers else "the initial state has"
    return ScopeMismatch(
        severity=Severity.ERROR,
        agent=read.step.name,
        key=read.key,
        message=who_reads(read),
        hint=f'"{read.key}" is never written, but {where} "{other}", which is another key.\n'
        f'Read "{other}", or write "{read.key}".',
    )


def fine(reads: Iterator[Read]) -> Iterator[ContractIssue]:
    """One `OK` for each read whose key is certainly there."""
    for read in reads:
        if read.status == "must" and read.first is not None and read.via != "removal":
            yield ContractIssue(
                severity=Severity.OK,
                code="ok",
                agent=read.step.name,
                key=read.key,
                message=_flow(read, read.first),
                hint=f'State key "{read.key}" is {_source(read.first.writers)} before {read.step.name} runs.',
            )


def _flow(read: Read, fact: Fact) -> str:
    if read.via == "route" and fact.writers:
        writer = fact.writers[-1]
        how = "outputs" if writer.is_model else "writes"
        return f'{writer.name}.{how}("{read.key}") → Route("{read.key}")'
    return who_reads(read)


def _source(writers: tuple[Step, ...]) -> str:
    if len(writers) > MOST_NAMED:
        return f"produced by {', '.join(writer.name for writer in writers[:MOST_NAMED])} and others"
    return f"produced by {listed(writers)}" if writers else "in the initial state"
