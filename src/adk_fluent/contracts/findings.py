"""Findings that several checks make: about a read, a type, or a boundary at which a run cannot be cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from adk_fluent.analysis.cuts import Obstacle
from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Facts, KnownType
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, STATUS, Fact
from adk_fluent.analysis.values.kinds import named, values_of
from adk_fluent.contracts.issues import BoundaryTempKey, ReadBeforeWrite, ScopeMismatch, TypeMismatch
from adk_fluent.contracts.reasons import names_of, reader_text, why_first_turn, why_may, why_never
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.state_keys import SCOPES, is_shared
from adk_fluent.ir.tools import gives_value
from adk_fluent.spelling import Spelling
from adk_fluent.state.effects import Needs, all_effects

# --- reads ----------------------------------------------------------------------------------------


MOST_NAMED = 12
"""The most writers of a key that a finding names."""


def finding_about(
    read: Read, facts: Facts, kind: type[ContractIssue] = ReadBeforeWrite
) -> ContractIssue | None:
    """The finding about a read; `None` if its key is there, or if the analysis does not know.

    Args:
        kind: the class of the finding, if it is not about a scope or a boundary.
    """
    status = read.status
    if status == "must":
        return None
    if read.level != "optional" and (other := key_in_other_scope(read, facts)) is not None:
        return _other_scope(read, other, facts)
    if status == "never" and read.level != "optional":
        if earlier := writers_of_earlier_turns(read, facts):
            return _finding(read, kind, Severity.WARN, why_first_turn(read, earlier))
        severity = Severity.WARN if read.level == "lenient" else Severity.ERROR
        return _finding(read, kind, severity, why_never(read, facts))
    if read.level != "optional" and _starts_as_none(read, facts) and _needs_value(read):
        return _finding(read, kind, Severity.ERROR, why_may(read, facts))
    if status == "may" and read.level == "required" and not lost_in_pause(read):
        if read.doubt is not None and read.doubt.why is not None and read.doubt.why.reason == "boundary":
            kind = BoundaryTempKey
        return _finding(read, kind, Severity.WARN, why_may(read, facts))
    return None


def _starts_as_none(read: Read, facts: Facts) -> bool:
    """True if the key still holds the `None` of the initial state when the step first runs."""
    fact, known = read.first, facts.state
    if fact is None or read.key not in known or known[read.key] is not None:
        return False
    return fact.mask & STATUS == PRESENT | ABSENT and fact.why is None and not fact.writers


def _needs_value(read: Read) -> bool:
    """True if the step raises an error for `None` as for a missing key; functions may accept `None`."""
    if read.via in ("list", "artifact"):  # a missing artifact has its own finding
        return read.via == "list"
    needs = (effect for effect in all_effects(read.step.node) if isinstance(effect, Needs))
    return any(effect.key == read.key for effect in needs)


def writers_of_earlier_turns(read: Read, facts: Facts) -> list[Step]:
    """The steps that may have written the key in an earlier turn of the session.

    A turn must be able to reach them without the reader, which would end the turn: the key is missing.
    """
    around = (read.step, *read.step.above())
    is_plain = any(step.node.annotations.adopted is not None for step in around)  # built with ADK's classes
    if not is_plain or read.key.startswith("temp:") or cast(Fact, read.first).removed_by is not None:
        return []
    return [writer for writer in facts.writers.get(read.key, ()) if _comes_without(writer, read.step)]


def _comes_without(writer: Step, reader: Step) -> bool:
    """True if a turn can reach the writer without running the reader before it."""
    around = [writer, *writer.above()]
    place = reader
    while place not in around:
        if _may_skip(place.node):
            return True
        if place.parent is None:
            return False
        place, inner = place.parent, place
        if isinstance(place.node.runs, _CHOOSE) and (
            place is not writer or isinstance(place.node.runs, execution.ByModel)
        ):
            first = isinstance(place.node.runs, execution.UNTIL_SUCCESS) and inner is place.children[0]
            return not first
    return False


def _may_skip(node: Node) -> bool:
    """True if a callback may answer instead of the agent."""
    return any(gives_value(function) for function in node.given.get("before_agent_callback", ()))


_CHOOSE: Final = (*execution.ONE_COUNTS, execution.ByModel, execution.PerItem)
"""The ways to run children in which some child may not run."""


def lost_in_pause(read: Read) -> bool:
    """True if a pause may lose the key, a `temp:` key, before this read; `check_pauses` reports those.

    Not for a placeholder with a `?`, whose key may be missing, and not for a step that removes the key.
    """
    optional = read.level == "optional" and read.via in ("template", "message", "prompt", "context")
    expected = optional or read.via == "removal"
    return read.lost is not None and read.status == "may" and not expected


def _finding(read: Read, kind: type[ContractIssue], severity: Severity, hint: str) -> ContractIssue:
    return kind(severity=severity, agent=read.step.name, key=read.key, message=reader_text(read), hint=hint)


def key_in_other_scope(read: Read, facts: Facts) -> str | None:
    """The same key with the scope in which steps write it, if they write it in another scope only."""
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
    where = f"{names_of(writers)} write{'s' * (len(writers) == 1)}" if writers else "the initial state has"
    return ScopeMismatch(
        severity=Severity.ERROR,
        agent=read.step.name,
        key=read.key,
        message=reader_text(read),
        hint=f'"{read.key}" is never written, but {where} "{other}", which is another key.\n'
        f'Read "{other}", or write "{read.key}".',
    )


def confirmations(reads: Iterator[Read]) -> Iterator[ContractIssue]:
    """One `OK` for each read whose key is certainly in state."""
    for read in reads:
        if read.status == "must" and read.first is not None and read.via != "removal":
            source = _source_text(read.first.writers)
            reader = "the callback" if read.via == "ending" else read.step.name
            yield ContractIssue(
                severity=Severity.OK,
                code="ok",
                agent=read.step.name,
                key=read.key,
                message=_path_text(read, read.first),
                hint=f'State key "{read.key}" is {source} before {reader} runs.',
            )


def _path_text(read: Read, fact: Fact) -> str:
    if read.via == "route" and fact.writers:
        writer = fact.writers[-1]
        how = "outputs" if writer.is_model else "writes"
        return f'{writer.name}.{how}("{read.key}") → Route("{read.key}")'
    return reader_text(read)


def _source_text(writers: tuple[Step, ...]) -> str:
    if len(writers) > MOST_NAMED:
        return f"produced by {', '.join(writer.name for writer in writers[:MOST_NAMED])} and others"
    return f"produced by {names_of(writers)}" if writers else "in the initial state"


# --- types ----------------------------------------------------------------------------------------


_SHOWN: Final = 6
"""The most values that a message names."""


def type_source(known: KnownType) -> str:
    """The step or schema that gives a value its type, and the type: `a gives text`."""
    if known.field is not None:
        who = f"{known.field.schema.__name__ if known.field.schema else 'the route'} declares"
    else:
        writers = known.read.facts[-1].writers
        who = f"{writers[-1].name if writers else 'the initial state'} gives"
    return f"{who} {shown_type(known.types[-1])}"


def shown_type(kind: object) -> str:
    """A value of a type, as messages name it: `text`, `an int`, `one of 'a', 'b'`."""
    if kind is str:
        return "text"
    if (values := values_of(kind)) is not None and kind is not bool:
        return one_of(values)
    name = named(kind)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name} as a dict" if hasattr(kind, "model_fields") else f"{article} {name}"


def one_of(values: Sequence[object]) -> str:
    """Some values in words: `one of 'a', 'b'`."""
    more = ", ..." if len(values) > _SHOWN else ""
    return f"one of {', '.join(map(repr, values[:_SHOWN]))}{more}"


def mismatch(step: Step, key: str, why: str, hint: str = "") -> ContractIssue:
    """The finding that a value has a type which its reader cannot use."""
    return TypeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} cannot use "{key}": {why}',
        hint=hint
        or f'Convert it in between: S.transform("{key}", fn), or make its writer give the right type.',
    )


def nearest(value: object, known: Sequence[object]) -> str:
    """A hint at the value that was probably meant, or at all that are possible."""
    like = Spelling(map(str, known)).like(str(value))
    meant = next((one for one in known if str(one) == like), None)
    return f"It can be {one_of(known)}." if meant is None else f"Did you mean {meant!r}?"


# --- boundaries -----------------------------------------------------------------------------------


def obstacle_message(problem: Obstacle) -> tuple[str, str]:
    """The problem in one line, and what to do.

    Args:
        problem: the obstacle that the analysis found.
    """
    cut, by = problem.cut.name, problem.by
    match problem.reason:
        case "construct":
            why = f"stands inside the {by.node.kind} {by.name!r}, which runs as a whole"
            can = f"Put the boundary on {by.name!r} itself, or on a step of the pipeline around it."
        case "options":
            own = ", ".join(sorted(by.node.given.keys() - {"name", "description", "children", "annotations"}))
            why = f"would cut the sequence {by.name!r}, whose {own} would then run for each part"
            can = f"Put the boundary on {by.name!r} itself, or {own} on one step."
        case "pieces":
            why = f"would cut the answer of {by.name!r}, which is streamed"
            can = f"Let {by.name!r} pass on its whole answer, without .stream_to(), or put both on one side."
        case "transfer":
            why = f"would cut between the transfer {by.name!r} and steps that it leads to, or skips"
            can = "Put the boundary before the transfer, or on what runs the transfer and these steps."
    return f"the execution boundary of {cut!r} {why}", can
