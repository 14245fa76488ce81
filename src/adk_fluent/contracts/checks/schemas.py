"""What is written and read is what the state schemas declare."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from adk_fluent.analysis.facts import Bound, Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.kinds import fits, named, values_of
from adk_fluent.contracts.findings.types import mismatch, nearest, shown_type
from adk_fluent.contracts.issues import SchemaViolation, ScopeMismatch
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.state_keys import StateFieldRef, is_session_scoped
from adk_fluent.spelling import Spelling
from adk_fluent.state.effects import effects_of


def against_schemas(facts: Facts) -> Iterator[ContractIssue]:
    """What breaks a schema: an undeclared key, a wrong scope, a wrong type."""
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
            elif is_session_scoped(key) and not key.startswith("_"):  # as ADK names its own
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
    """The type of what a step writes under a key; `None` where it is not known."""
    node = step.node
    if (agent := node.agent) is not None:
        if key != agent.output_key or agent.written_fields:
            return None
        return str if node.returns is None else node.returns
    return next((kind for effect in effects_of(node) if (kind := effect.type_of(key)) is not None), None)


def constants(step: Step, key: str) -> list[object]:
    """The values that a step is known to write under a key."""
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
