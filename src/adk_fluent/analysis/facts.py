"""What every check works on: one tree, analysed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.analysis.artifacts import FileFlow, file_flow
from adk_fluent.analysis.keys.effects import Effects
from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.analysis.values.read import Read
from adk_fluent.analysis.visibility import visibility_of
from adk_fluent.analysis.walk.steps import Flow, flow_of
from adk_fluent.ir.base import Node, root_of
from adk_fluent.ir.graph import MAX_DEPTH, depth
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.spelling import Spelling
from adk_fluent.state.schema import defaults_of

if TYPE_CHECKING:
    from adk_fluent.ir.annotations import Visibility


@dataclass(frozen=True, slots=True)
class Bound:
    """A state schema that holds in a step and all inside it.

    Attributes:
        step: where it is bound.
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
        """Whether it holds for a step."""
        return self.step.index <= step.index < self.step.end


class Facts:
    """A tree with everything the checks ask about, each computed once.

    Args:
        root: the tree.
        schema: the state schema it is held against, beside those bound in the tree.
        state: what is in the session before the run.
        config: how it will be run; only `resumable` matters.
        open_state: whether the session may hold more than `state` says.
        resolved: whether the tree comes of a native agent, so that every node has a name.
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
        if self.is_too_deep:  # looking at it all would take as much of the stack; one step stands for it
            root = AgentNode(name=root.name or root.kind)
        self._analysed = root
        self.flow: Flow = flow_of(root, state, open_state=open_state, resolved=resolved)

    @property
    def is_too_deep(self) -> bool:
        """Whether no run would get through; what was built is not."""
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
        """Everything that a step itself reads."""
        return self.flow.reads_of(step)

    def writes_of(self, step: Step) -> tuple[str, ...]:
        """The keys that a step itself is known to write, in a stable order."""
        return self.flow.keys.writes(step)

    def effects_of(self, step: Step) -> Effects:
        """What a step and all inside it may do to the state."""
        return self.flow.keys.effects(step)

    def reaches(self, step: Step) -> bool:
        """Whether a step can run at all."""
        return step in self.flow.visits

    @cached_property
    def later(self) -> Flow:
        """The same for a later run of the session; its steps are others, in the same order."""
        return flow_of(self._analysed, self.state, resolved=self._resolved, later_run=True)

    @cached_property
    def reads(self) -> list[Read]:
        """Every read that can be reached."""
        return self.flow.reads

    @cached_property
    def writers(self) -> Mapping[str, list[Step]]:
        """Key → the steps that are known to write it, in order."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            for key in self.writes_of(step):
                found.setdefault(key, []).append(step)
        return found

    @cached_property
    def spelling(self) -> Spelling:
        """Every key that a step writes or that is there from the start, for finding misspelt ones."""
        return Spelling(dict.fromkeys([*self.writers, *self.state]))

    @cached_property
    def producers(self) -> Mapping[str, list[Step]]:
        """Field → the agents that say, with `.produces`, that they produce it."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            model = step.node.given.get("produces_type")
            for field in getattr(model, "model_fields", ()):
                found.setdefault(field, []).append(step)
        return found

    @cached_property
    def schemas(self) -> list[Bound]:
        """The state schemas that hold, outermost first."""
        found = [] if self.schema is None else [Bound.to(self.plan.root, self.schema)]
        for step in self.steps:
            bound = step.node.annotations.schema
            if bound is not None and bound is not self.schema:
                found.append(Bound.to(step, bound))
        return found

    @cached_property
    def captured(self) -> Mapping[str, StateFieldRef]:
        """Key → the field, of a schema or read by an agent, whose `CapturedBy` says what writes it."""
        declared = [field for bound in self.schemas for field in bound.fields.values()]
        for step in self.steps:
            declared += step.node.given.get("read_fields", ())
        return {field.key: field for field in declared if field.captured_by is not None}

    @cached_property
    def answers(self) -> Mapping[str, list[Step]]:
        """Field → the agents that answer with a model which has it."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            for field in getattr(step.node.given.get("output_schema"), "model_fields", ()):
                found.setdefault(field, []).append(step)
        return found

    @cached_property
    def defaults(self) -> Mapping[str, type]:
        """Key → the schema, bound or named by an agent, that gives it a default."""
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
        """Which artifacts are there when a step runs."""
        return file_flow(self)

    @cached_property
    def visibility(self) -> Mapping[str, Visibility]:
        """Step name → who sees what it says."""
        return visibility_of(self._analysed, (step.name for step in self.steps))

    @cached_property
    def unknown(self) -> tuple[dict[Step, list[object]], dict[Step, list[object]]]:
        """The functions, by step, that may read, and those that may write, keys they do not declare."""
        readers: dict[Step, list[object]] = {}
        writers: dict[Step, list[object]] = {}
        for step in self.steps:
            reading, writing = step.node.undeclared()
            if reading:
                readers[step] = reading
            if writing:
                writers[step] = writing
        return readers, writers


def analyse(subject: object) -> Facts:
    """The facts about anything that can be checked.

    They are kept with the tree, which never changes: whoever checks a pipeline and then looks at it and draws
    it has it analysed once.
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
    """Whether it is an ADK object that adk-fluent built."""
    return not isinstance(subject, Node) and not isinstance(getattr(subject, "node", None), Node)
