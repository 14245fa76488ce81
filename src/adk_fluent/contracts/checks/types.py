"""Values have the type that their reader, and the schema, expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, cast

from adk_fluent.contracts.effects import writes_of
from adk_fluent.contracts.fact import Fact
from adk_fluent.contracts.facts import Facts, facts_of
from adk_fluent.contracts.issues import SchemaViolation, ScopeMismatch, TypeMismatch, UnmetConsumes
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.reads import Read
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.contracts.spelling import Spelling
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.matching import Match
from adk_fluent.ir.nodes import AgentNode, RouteNode, TransformNode
from adk_fluent.state.delta import is_session_scoped
from adk_fluent.state.operations import Operation


class Field(Protocol):
    """What a state schema says about one key."""

    @property
    def name(self) -> str:
        """The name in the schema."""
        ...

    @property
    def type(self) -> Any:
        """The type of the value."""
        ...

    @property
    def scope(self) -> str:
        """`session`, `user`, `app` or `temp`."""
        ...

    @property
    def key(self) -> str:
        """The state key, scope prefix included."""
        ...


def check_type_contracts(root: object) -> list[ContractIssue]:
    """Types fit: of values and their readers, of `.produces` and `.consumes`, of keys and the schema."""
    facts = facts_of(root)
    return [*_readers(facts), *_fields(facts), *_consumers(facts), *_schemas(facts)]


# --- values and their readers ---------------------------------------------------------------------


def _readers(facts: Facts) -> Iterator[ContractIssue]:
    for read in facts.reads:
        kind = known_type(read.first)
        if kind is None or read.status not in ("must", "may"):
            continue
        if read.via == "route":
            yield from _compared(read, kind)
        elif read.via == "list" and not issubclass(kind, list | tuple):
            yield _mismatch(read.step, read.key, f"map_over needs a list, and {_wrote(read)}")


def _fields(facts: Facts) -> Iterator[ContractIssue]:
    """What is read as a field of a schema is written with a type that fits."""
    for read in facts.reads:
        for field in read.step.node.given.get("read_fields", ()) if read.via == "context" else ():
            kind = known_type(read.first)
            if field.key == read.key and kind is not None and not _fits(kind, field.type):
                why = f"it is read as {_shown(field.type)}, and {_wrote(read)}"
                yield _mismatch(read.step, read.key, why)


def _compared(read: Read, kind: type[object]) -> Iterator[ContractIssue]:
    """Comparisons that a value of this type can never meet."""
    node: RouteNode = read.step.node
    for test, _ in node.rules:
        if isinstance(test, Match) and test.key == read.key and not _comparable(test, kind):
            yield _mismatch(
                read.step,
                read.key,
                f"the test {test} compares {type(test.value).__name__}, and {_wrote(read)}",
            )


def _comparable(test: Match, kind: type[object]) -> bool:
    structured = _is_structured(kind)
    if test.op == "eq":
        if structured:
            return not isinstance(test.value, str | int | float | bool)
        if kind is str:
            return isinstance(test.value, str)
        if issubclass(kind, int | float):
            return isinstance(test.value, int | float)
    if test.op in ("gt", "gte", "lt", "lte"):
        return not structured and not issubclass(kind, list)
    return True


def _is_structured(kind: type[object]) -> bool:
    return issubclass(kind, dict) or hasattr(kind, "model_fields")


def known_type(fact: Fact | None) -> type[object] | None:
    """The type of a value, where it is known and a class."""
    return cast("type[object]", fact.type) if fact is not None and isinstance(fact.type, type) else None


def _wrote(read: Read) -> str:
    fact = cast(Fact, read.first)
    writer = fact.writers[-1].name if fact.writers else "the initial state"
    return f"{writer} gives {_named(fact.type)}"


def _named(kind: object) -> str:
    if kind is str:
        return "text"
    name = getattr(kind, "__name__", str(kind))
    return f"a {name} as a dict" if hasattr(kind, "model_fields") else f"a {name}"


def _mismatch(step: Step, key: str, why: str, hint: str = "") -> ContractIssue:
    return TypeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} cannot use "{key}": {why}',
        hint=hint
        or f'Convert it in between: S.transform("{key}", fn), or make its writer give the right type.',
    )


# --- produces and consumes ------------------------------------------------------------------------


def _consumers(facts: Facts) -> Iterator[ContractIssue]:
    """What agents say they consume was produced before, by what others say."""
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
        if kind != field.annotation and not _fits(kind, field.annotation):
            wants = _shown(field.annotation)
            why = f"{producer.name} produces {_shown(kind)}, and {step.name} consumes {wants}"
            yield _mismatch(step, name, why, "Let both models declare the field with one type.")


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


def _shown(kind: object) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def _fits(given: object, wanted: object) -> bool:
    """Whether a value of one type can stand where the other is expected; unsure counts as yes."""
    if not (isinstance(given, type) and isinstance(wanted, type)):
        return not (isinstance(given, type) or isinstance(wanted, type)) or _in_union(given, wanted)
    if wanted is float and given is int:
        return True
    return issubclass(given, wanted)


def _in_union(given: object, wanted: object) -> bool:
    members = getattr(wanted, "__args__", None)
    return members is None or any(_fits(given, member) for member in members if isinstance(member, type))


# --- schemas --------------------------------------------------------------------------------------


def _schemas(facts: Facts) -> Iterator[ContractIssue]:
    for step, schema in facts.schemas:
        fields = cast("dict[str, Field]", cast(Any, schema).fields())
        yield from _held_against(facts, step, schema, fields)


def _held_against(
    facts: Facts, bound: Step, schema: Any, fields: Mapping[str, Field]
) -> Iterator[ContractIssue]:
    by_key = {field.key: field for field in fields.values()}
    for step in facts.steps[bound.index : bound.end]:
        for key in writes_of(step):
            field = by_key.get(key)
            if field is not None:
                yield from _typed(step, field, schema)
            elif other := fields.get(key.rpartition(":")[2]):
                yield _misscoped(step, key, other, schema)
            elif is_session_scoped(key):
                yield _undeclared(step, key, by_key, schema)
    for read in facts.reads:
        if bound.index <= read.step.index < bound.end and read.key not in by_key:
            other = fields.get(read.key.rpartition(":")[2])
            if other is not None and read.key not in facts.writers:
                yield _misscoped(read.step, read.key, other, schema)


def _typed(step: Step, field: Field, schema: Any) -> Iterator[ContractIssue]:
    kind = written_type(step, field.key)
    if kind is not None and not _fits(kind, field.type):
        if _is_structured(kind) and field.type is dict:
            return
        yield _mismatch(
            step,
            field.key,
            f"it writes {_named(kind)}, and {schema.__name__} declares {_shown(field.type)}",
            f"Write the field itself, .writes({schema.__name__}.{field.name}), or change its type.",
        )


def written_type(step: Step, key: str) -> type[object] | None:
    """The type of what a step writes under a key, where it is known."""
    node = step.node
    if isinstance(node, AgentNode):
        if key != node.output_key or node.written_fields:
            return None
        schema: object = node.output_schema
        if schema in (UNSET, None):
            return str
        return cast("type[object]", schema) if isinstance(schema, type) else None
    if isinstance(node, TransformNode) and isinstance(node.fn, Operation):
        params = dict(node.fn.params)
        if node.fn.name in ("set", "default"):
            values = cast("tuple[tuple[str, object], ...]", params["values"])
            return next((type(value) for name, value in values if name == key), None)
        return _RESULTS.get(node.fn.name)
    return None


_RESULTS: Final[Mapping[str, type[object]]] = {
    "accumulate": list,
    "history": list,
    "zip": list,
    "group_by": dict,
}


def _misscoped(step: Step, key: str, field: Field, schema: Any) -> ContractIssue:
    return ScopeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} uses "{key}"',
        hint=f'{schema.__name__} declares {field.name} in the {field.scope} scope: the key is "{field.key}".',
    )


def _undeclared(step: Step, key: str, by_key: Mapping[str, Field], schema: Any) -> ContractIssue:
    like = Spelling(by_key).like(key)
    return SchemaViolation(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} writes "{key}", which {schema.__name__} does not declare',
        hint=f'Did you mean "{like}"?' if like else f"Add {key} to {schema.__name__}.",
    )
