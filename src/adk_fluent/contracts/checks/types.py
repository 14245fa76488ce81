"""Checks that values have the types that their readers and the state schemas expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from adk_fluent.analysis.audience import message_reaches
from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Bound, Facts, KnownType, analyse, known_type
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.analysis.values.kinds import (
    NUMBERS,
    always_raises,
    can_hold,
    fits,
    kinds,
    named,
    shortfall,
    values_of,
)
from adk_fluent.contracts.findings import mismatch, nearest, shown_type, type_source
from adk_fluent.contracts.issues import SchemaViolation, ScopeMismatch, TypeMismatch, UnmetConsumes
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir import execution
from adk_fluent.ir.base import UNSET, walk
from adk_fluent.ir.nodes import RouteNode, agent_of
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.state_keys import StateFieldRef, is_session_scoped
from adk_fluent.ir.tools import agents_inside
from adk_fluent.spelling import Spelling
from adk_fluent.state.answers import answer_type, asked_schema
from adk_fluent.state.effects import effects_of


@check(place=50)
def check_type_contracts(root: object) -> list[ContractIssue]:
    """Check the types of values, of answers and `.accepts`, and of `.produces` and `.consumes`."""
    facts = analyse(root)
    return [
        *_mistyped_reads(facts),
        *_unaccepted_inputs(facts),
        *_unmet_types(facts),
        *against_schemas(facts),
        *_untyped_delegates(facts),
    ]


# --- values and their readers ---------------------------------------------------------------------


def _mistyped_reads(facts: Facts) -> Iterator[ContractIssue]:
    for read in facts.reads:
        if read.via in _CHECKS and read.status in ("must", "may"):
            known = known_type(read, facts)
            if known is not None:
                yield from _CHECKS[read.via](read, known)


def _over_list(read: Read, known: KnownType) -> Iterator[ContractIssue]:
    found = [kinds(kind) for kind in known.types]
    if all(kind and "list" not in kind for kind in found):
        yield mismatch(read.step, read.key, f"map_over needs a list, and {type_source(known)}")


def _as_field(read: Read, known: KnownType) -> Iterator[ContractIssue]:
    """Report keys that are read as a field of a schema and written with another type."""
    for field in read.step.node.given.get("read_fields", ()):
        if field.key == read.key and not any(fits(kind, field.type) for kind in known.types):
            why = f"it is read as {named(field.type)}, and {type_source(known)}"
            yield mismatch(read.step, read.key, why)


def _compared(read: Read, known: KnownType) -> Iterator[ContractIssue]:
    """Report tests of a route that raise, or never hold, for values of this type."""
    node: RouteNode = read.step.node
    for test, _ in node.rules:
        if not isinstance(test, Match) or test.key != read.key:
            continue
        if all(always_raises(test, kind) for kind in known.types):
            why = f"the test {test} raises, and {type_source(known)}"
            yield mismatch(read.step, read.key, why, _as_number(test, known))
        elif not any(can_hold(test, kind) for kind in known.types):
            yield _never_holds(read, test, known)
        elif test.op == "contains" and all(_is_number(kind) for kind in known.types):
            why = f"the test {test} looks for text in its digits, and {type_source(known)}"
            found = mismatch(read.step, read.key, why, "Compare the number: .gt(...), .lt(...) or .eq(...).")
            yield found.replace(severity=Severity.WARN)


def _is_number(kind: object) -> bool:
    found = kinds(kind)
    return bool(found) and found <= NUMBERS


def _never_holds(read: Read, test: Match, known: KnownType) -> ContractIssue:
    few = known.values is not None and bool not in known.types
    wanted = named(cast("type[object]", type(test.value)))
    how = "never holds" if few else f"compares {wanted}"
    hint = nearest(test.value, known.values or ()) if few else _as_number(test, known)
    return mismatch(read.step, read.key, f"the test {test} {how}, and {type_source(known)}", hint)


def _as_number(test: Match, known: KnownType) -> str:
    """The hint to compare with a number instead of a text that holds one."""
    numeric = all((found := kinds(kind)) is not None and found <= NUMBERS for kind in known.types)
    if not numeric or not isinstance(test.value, str):
        return ""
    try:
        number = float(test.value)
    except ValueError:
        return ""
    return f"Compare with the number: {test.op}({number:g}, ...)."


_CHECKS = {"route": _compared, "list": _over_list, "context": _as_field}
"""The kinds of reads that expect a type, and the check of each."""


# --- accepts --------------------------------------------------------------------------------------


def _unaccepted_inputs(facts: Facts) -> Iterator[ContractIssue]:
    """Report agents that accept a type which no earlier step gives them."""
    for listener, before in facts.flow.upstream.items():
        wanted = agent.given.get("input_schema") if (agent := agent_of(listener.node)) else None
        around = [outer.node.runs for outer in listener.above()]
        if wanted is None or any(isinstance(runs, (execution.ByModel, execution.PerItem)) for runs in around):
            continue  # a model or a map decides what this agent gets
        speakers = [
            one
            for one in before
            if one is not listener and message_reaches(facts.flow, one, listener) != "no"
        ]
        reasons = [_no_input(speaker, wanted) for speaker in speakers]
        reads = [read for read in facts.flow.reads_of(listener) if read.status != "never"]
        known = [known_type(read, facts) for read in reads]
        if None in reasons or _read_instead(reads, known, wanted):
            continue
        if reasons:
            yield _unaccepted(listener, speakers[-1], wanted, reasons[-1] or "")
        else:
            yield from _unaccepted_in_state(listener, known, wanted)


def _no_input(speaker: Step, wanted: object) -> str | None:
    """The reason why an answer does not fit the next agent: empty for text, `None` if the answer may fit."""
    agent = agent_of(speaker.node)
    if not agent or "produces_type" in agent.given:
        return None
    schema = asked_schema(agent)
    return "" if schema is None else shortfall(schema, wanted)


def _read_instead(reads: Sequence[Read], known: Sequence[KnownType | None], wanted: Any) -> bool:
    """True if an agent may read the value that it accepts from state: as a whole, or every field."""
    fields = getattr(wanted, "model_fields", {})
    if fields and {read.key.rpartition(":")[2] for read in reads}.issuperset(fields):
        return True
    return any(
        one is None or any(kind is not str and shortfall(kind, wanted) is None for kind in one.types)
        for one in known
    )


def _unaccepted_in_state(
    listener: Step, known: Sequence[KnownType | None], wanted: Any
) -> Iterator[ContractIssue]:
    """Report models that an agent reads from state instead of an answer, and that lack a field."""
    for one in known:
        if one is not None and all(hasattr(kind, "model_fields") for kind in one.types):
            type_name, key = answer_type(wanted).name, one.read.key
            yield TypeMismatch(
                agent=listener.name,
                key=key,
                message=f'{listener.name} accepts {type_name}, and {type_source(one)} in "{key}"',
                hint=f"{shortfall(one.types[-1], wanted)}. Let its writer give {type_name}, "
                f"or leave out .accepts({type_name}).",
            )


def _unaccepted(listener: Step, speaker: Step, wanted: Any, reason: str) -> ContractIssue:
    type_name = answer_type(wanted).name  # works for generic types, too
    gives = answer_type(asked_schema(speaker.node)).name if reason else "text"
    return TypeMismatch(
        severity=Severity.WARN if reason else Severity.INFO,
        agent=listener.name,
        message=f"{listener.name} accepts {type_name}, and {speaker.name} before it gives {gives}",
        hint=f"{reason[:1].upper()}{reason[1:]}. "
        * bool(reason)
        + f"Let {speaker.name} answer with it: .returns({type_name}); or "
        f"leave out .accepts({type_name}), if {listener.name} is not called as a tool as well.",
    )


# --- produces and consumes ------------------------------------------------------------------------


def _unmet_types(facts: Facts) -> Iterator[ContractIssue]:
    """Report types that an agent consumes and that no earlier agent produces."""
    produced: dict[str, tuple[Step, Any]] = {}
    for step in facts.steps:
        given = step.node.given
        if produced and (wanted := given.get("consumes_type")) is not None:
            yield from _consumed(step, wanted, produced)
        for name, field in getattr(given.get("produces_type"), "model_fields", {}).items():
            produced[name] = (step, field.annotation)


def _consumed(step: Step, wanted: Any, produced: Mapping[str, tuple[Step, Any]]) -> Iterator[ContractIssue]:
    for name, field in getattr(wanted, "model_fields", {}).items():
        if name not in produced:
            if field.is_required():
                yield _unmet(step, name, wanted, produced)
            continue
        producer, kind = produced[name]
        if kind != field.annotation and not fits(kind, field.annotation):
            wants = named(field.annotation)
            why = f"{producer.name} produces {named(kind)}, and {step.name} consumes {wants}"
            yield mismatch(step, name, why, "Let both models declare the field with one type.")


def _unmet(step: Step, name: str, wanted: Any, produced: Mapping[str, object]) -> ContractIssue:
    like = Spelling(produced).like(name)
    return UnmetConsumes(
        severity=Severity.ERROR,
        agent=step.name,
        key=name,
        message=f'{step.name} consumes "{name}" of {wanted.__name__}',
        hint=f'No agent before it produces "{name}".'
        + (f' Did you mean "{like}"?' if like else " Add it to the model of an earlier .produces()."),
    )


# --- agents that answer instead of others ---------------------------------------------------------


def _untyped_delegates(facts: Facts) -> Iterator[ContractIssue]:
    """Report agents that return a type and can hand over to one that returns another: such a run raises."""
    for step in facts.steps:
        for body in agents_inside(step.node.given.get("tools", ())):
            if any(isinstance(node.runs, execution.ByModel) and node.children for node in walk(body)):
                yield from _untyped_delegates(analyse(body))
        promised = (
            step.node.given.get("output_schema") if isinstance(step.node.runs, execution.ByModel) else None
        )
        if not promised or not step.children or not facts.reaches(step):
            continue
        name = answer_type(promised).name
        answering = (agent for child in step.children for agent in _answering(child))
        names = at_most_three([agent.name for agent in answering if not _returns(agent, promised)])
        if names:
            yield TypeMismatch(
                agent=step.name,
                message=f"{step.name} returns {name}, and can hand over to {names}, which "
                f"{'do' if ' and ' in names else 'does'} not",
                hint=f"A run that ends there raises an AnswerError. Give {names} .returns({name}), too.",
            )


def _answering(step: Step) -> list[Step]:
    """The agents that may give the final answer of a step."""
    if step.node.annotations.visibility == "zero_cost":
        return []
    if step.is_model:
        return [step]
    found = [agents for child in step.children if (agents := _answering(child))]
    return [
        agent
        for each in (found[-1:] if isinstance(step.node.runs, execution.STEP_BY_STEP) else found)
        for agent in each
    ]


def _returns(step: Step, promised: object) -> bool:
    schema = step.node.given.get("output_schema")  # an agent of a user's class has no schema
    return schema not in (None, UNSET) and fits(schema, promised)


# --- state schemas --------------------------------------------------------------------------------


def against_schemas(facts: Facts) -> Iterator[ContractIssue]:
    """Report each key that a schema does not declare, and each wrong scope and type."""
    for bound in facts.schemas:
        yield from _writes(facts, bound)
        yield from _reads(facts, bound)


def _writes(facts: Facts, bound: Bound) -> Iterator[ContractIssue]:
    for step in facts.steps[bound.step.index : bound.step.end]:
        for key in facts.writes_of(step):
            field = bound.by_key.get(key)
            if field is not None:
                yield from _typed(step, field, bound)
            elif other := bound.fields.get(key.rpartition(":")[2]):
                yield _misscoped(step, key, other, bound)
            elif is_session_scoped(key) and not key.startswith("_"):  # ADK's own keys begin with "_"
                yield _undeclared(step, key, bound)


def _reads(facts: Facts, bound: Bound) -> Iterator[ContractIssue]:
    for read in facts.reads:
        if bound.holds_for(read.step) and read.key not in bound.by_key and read.key not in facts.writers:
            other = bound.fields.get(read.key.rpartition(":")[2])
            if other is not None:
                yield _misscoped(read.step, read.key, other, bound)


def _typed(step: Step, field: StateFieldRef, bound: Bound) -> Iterator[ContractIssue]:
    schema = bound.schema.__name__
    for value in constants(step, field.key):
        known = values_of(field.type)
        stored = value.value if isinstance(value, Enum) else value
        if known is None or stored is None or not fits(type(value), field.type):
            continue
        if stored not in known:
            why = f"it writes {value!r}, and {schema} declares {shown_type(field.type)}"
            yield mismatch(step, field.key, why, nearest(value, known))
    kind = written_type(step, field.key)
    if kind is not None and not fits(kind, field.type):
        yield mismatch(
            step,
            field.key,
            f"it writes {shown_type(kind)}, and {schema} declares {named(field.type)}",
            f"Write the field itself, .writes({schema}.{field.name}), or change its type.",
        )


def written_type(step: Step, key: str) -> object:
    """The type of the value that a step writes under a key; `None` if it is not known."""
    node = step.node
    if (agent := agent_of(node)) is not None:
        if key != agent.output_key or agent.written_fields:
            return None
        return str if node.returns is None else node.returns
    return next((kind for effect in effects_of(node) if (kind := effect.type_of(key)) is not None), None)


def constants(step: Step, key: str) -> list[object]:
    """The constants that a step writes under a key."""
    return [value for effect in effects_of(step.node) for name, value in effect.constants if name == key]


def _misscoped(step: Step, key: str, field: StateFieldRef, bound: Bound) -> ContractIssue:
    return ScopeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} uses "{key}"',
        hint=f"{bound.schema.__name__} declares {field.name} in the {field.scope} scope: the key is "
        f'"{field.key}".',
    )


def _undeclared(step: Step, key: str, bound: Bound) -> ContractIssue:
    like, schema = Spelling(bound.by_key).like(key), bound.schema.__name__
    return SchemaViolation(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} writes "{key}", which {schema} does not declare',
        hint=f'Did you mean "{like}"?' if like else f"Add {key} to {schema}.",
    )
