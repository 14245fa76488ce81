"""`Facts`, the result of the analysis of one tree, on which all checks, estimates and pictures work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.analysis.artifact_flow import FileFlow, file_flow
from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.analysis.state_walk import Flow, flow_of
from adk_fluent.analysis.values.fact import PRESENT, stored_values
from adk_fluent.analysis.values.key_effects import Effects
from adk_fluent.analysis.values.kinds import values_of
from adk_fluent.analysis.visibility import visibility_of
from adk_fluent.ir.base import Node, root_of
from adk_fluent.ir.functions import shown_around
from adk_fluent.ir.graph import MAX_DEPTH, depth
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.spelling import Spelling
from adk_fluent.state.schema import defaults_of

if TYPE_CHECKING:
    from adk_fluent.ir.annotations import Visibility


@dataclass(frozen=True, slots=True)
class Bound:
    """A state schema that applies to a step and all steps inside it.

    Attributes:
        step: the step to which it is bound.
        schema: the `StateSchema`.
        fields: its fields by name.
        by_key: its fields by state key.
    """

    step: Step
    schema: type
    fields: Mapping[str, StateFieldRef]
    by_key: Mapping[str, StateFieldRef]

    @classmethod
    def to(cls, step: Step, schema: type) -> Bound:
        """A schema bound to a step."""
        fields = cast("Mapping[str, StateFieldRef]", cast(Any, schema).fields())
        return cls(step, schema, fields, {field.key: field for field in fields.values()})

    def holds_for(self, step: Step) -> bool:
        """True if the schema applies to a step."""
        return self.step.index <= step.index < self.step.end


class Facts:
    """The facts about one tree, each computed once and on demand.

    Args:
        root: the tree.
        schema: a state schema for the whole tree, in addition to those bound in it.
        state: the session's state before the run.
        config: the configuration of the run; only `resumable` matters.
        open_state: true if the session's state may hold more keys than `state`.
        resolved: true if the tree comes from a native agent, so every node has a name.
    """

    def __init__(
        self,
        root: Node,
        *,
        schema: type | None = None,
        state: Mapping[str, Any] | None = None,
        config: object | None = None,
        open_state: bool = False,
        resolved: bool = False,
    ) -> None:
        self.root = root
        self.schema = schema
        self.state: Mapping[str, Any] = state or {}
        self.config = config
        self.depth: int = depth(root)
        self._resolved = resolved
        if self.is_too_deep:  # the analysis would recurse as deep as a run: use one agent instead
            root = AgentNode(name=root.name or root.kind)
        self._analysed = root
        self.flow: Flow = flow_of(root, state, open_state=open_state, resolved=resolved)

    @property
    def is_too_deep(self) -> bool:
        """True if the tree is nested too deep for a run; never for a tree that was built."""
        return self.depth > MAX_DEPTH and not self._resolved

    @property
    def plan(self) -> Plan:
        """The steps of the tree."""
        return self.flow.plan

    @property
    def steps(self) -> list[Step]:
        """Every step, parents first."""
        return self.flow.plan.steps

    def reads_of(self, step: Step) -> tuple[Read, ...]:
        """All reads of a step itself."""
        return self.flow.reads_of(step)

    def writes_of(self, step: Step) -> tuple[str, ...]:
        """The keys that a step itself names as written, in a stable order."""
        return self.flow.keys.writes(step)

    def effects_of(self, step: Step) -> Effects:
        """The possible effects of a step and all steps inside it on the state."""
        return self.flow.keys.effects(step)

    def reaches(self, step: Step) -> bool:
        """True if a run can reach a step."""
        return step in self.flow.visits

    @cached_property
    def later(self) -> Flow:
        """The flow of a later run of the session. Its steps are other objects, in the same order."""
        return flow_of(self._analysed, self.state, resolved=self._resolved, later_run=True)

    @cached_property
    def reads(self) -> list[Read]:
        """Every read that a run can reach."""
        return self.flow.reads

    @cached_property
    def writers(self) -> Mapping[str, list[Step]]:
        """Key → the steps that name it as written, in order."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            around = (shown_around(one).writes for one in step.node.annotations.middleware)
            for key in dict.fromkeys([*self.writes_of(step), *(one.key for seen in around for one in seen)]):
                found.setdefault(key, []).append(step)
        return found

    @cached_property
    def spelling(self) -> Spelling:
        """The spelling of every key that a step writes or the initial state has, to find misspelt keys."""
        return Spelling(dict.fromkeys([*self.writers, *self.state]))

    @cached_property
    def producers(self) -> Mapping[str, list[Step]]:
        """Field → the agents that declare it by `.produces`."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            model = step.node.given.get("produces_type")
            for field in getattr(model, "model_fields", ()):
                found.setdefault(field, []).append(step)
        return found

    @cached_property
    def schemas(self) -> list[Bound]:
        """The state schemas that apply, outermost first."""
        found = [] if self.schema is None else [Bound.to(self.plan.root, self.schema)]
        for step in self.steps:
            bound = step.node.annotations.schema
            if bound is not None and bound is not self.schema:
                found.append(Bound.to(step, bound))
        return found

    @cached_property
    def captured(self) -> Mapping[str, StateFieldRef]:
        """Key → its field, from a schema or a read, if a `CapturedBy` names the function that writes it."""
        declared = [field for bound in self.schemas for field in bound.fields.values()]
        for step in self.steps:
            declared += step.node.given.get("read_fields", ())
        return {field.key: field for field in declared if field.captured_by is not None}

    @cached_property
    def answers(self) -> Mapping[str, list[Step]]:
        """Field → the agents whose answer is a model with this field."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            for field in getattr(step.node.given.get("output_schema"), "model_fields", ()):
                found.setdefault(field, []).append(step)
        return found

    @cached_property
    def defaults(self) -> Mapping[str, type]:
        """Key → the schema that gives it a default: one that is bound, or whose fields an agent uses."""
        schemas = {bound.schema: None for bound in self.schemas}
        for step in self.steps:
            given = step.node.given
            for field in (*given.get("read_fields", ()), *given.get("written_fields", ())):
                if field.schema is not None:
                    schemas[field.schema] = None
        return {
            key: schema
            for schema in schemas
            for key, value in defaults_of(schema).items()
            if value is not None
        }

    @cached_property
    def artifacts(self) -> FileFlow:
        """The artifacts that exist when each step runs."""
        return file_flow(self.flow)

    @cached_property
    def visibility(self) -> Mapping[str, Visibility]:
        """Step name → the readers of its answers: `user`, `internal` or `zero_cost`."""
        return visibility_of(self._analysed, (step.name for step in self.steps))

    @cached_property
    def unknown(self) -> tuple[dict[Step, list[object]], dict[Step, list[object]]]:
        """The functions, by step, that may read, and those that may write, keys they do not declare."""
        readers: dict[Step, list[object]] = {}
        writers: dict[Step, list[object]] = {}
        for step in self.steps:
            reading, writing = step.node.undeclared()
            writing = [
                *writing,
                *(one for one in step.node.annotations.middleware if not shown_around(one).whole),
            ]
            if reading:
                readers[step] = reading
            if writing:
                writers[step] = writing
        return readers, writers


def analyse(subject: object) -> Facts:
    """The facts about anything that `check_all` takes.

    They are cached on the tree, which never changes: a pipeline that is checked and then drawn is analysed
    once.
    """
    if isinstance(subject, Facts):
        return subject
    root, built = root_of(subject), was_built(subject)
    kept: dict[bool, Facts] = getattr(root, "_facts", {})
    if built not in kept:
        kept = {**kept, built: Facts(root, resolved=built)}
        object.__setattr__(root, "_facts", kept)
    return kept[built]


def was_built(subject: object) -> bool:
    """True if the subject is an ADK object that adk-fluent built."""
    return not isinstance(subject, Node) and not isinstance(getattr(subject, "node", None), Node)


# --- the type of a value --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownType:
    """The known type of a value that a step reads.

    Attributes:
        types: the possible types.
        read: the read.
        field: the schema field that declares the type; `None` if it comes from the writers.
    """

    types: tuple[object, ...]
    read: Read
    field: StateFieldRef | None = None

    @property
    def values(self) -> tuple[object, ...] | None:
        """All possible values if there are only a few, otherwise `None`."""
        if self.field is not None:
            return values_of(self.field.type)
        values: list[object] = []
        for fact in self.read.facts:
            few = stored_values(fact) if fact.mask & PRESENT else ()
            if few is None:
                return None
            values += [value for value in few if value not in values]
        return tuple(values)


def known_type(read: Read, facts: Facts) -> KnownType | None:
    """The type of the value of a read; `None` if it is not known.

    A schema that applies to the reader narrows text, and gives the type of a value that a function wrote. A
    key that starts as `None` has no value, so it has no type either.
    """
    types: list[object] = []
    for fact in read.facts:
        if fact.mask & PRESENT and fact.type is not NoneType and fact.type not in types:
            types.append(fact.type)
    unknown = not types or None in types
    field = declared(read, facts) if unknown or types == [str] else None
    if field is not None and (unknown or values_of(field.type) is not None):
        return KnownType((field.type,), read, field)
    return None if unknown else KnownType(tuple(types), read)


def declared(read: Read, facts: Facts) -> StateFieldRef | None:
    """The schema field of a read: one that the step itself names, or one of a schema bound around it."""
    for field in read.step.node.given.get("read_fields", ()):
        if field.key == read.key:
            return field
    for bound in facts.schemas:
        if bound.holds_for(read.step) and read.key in bound.by_key:
            return bound.by_key[read.key]
    return None
