"""A pipeline cut at its execution boundaries: `split`, and what each part is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.analysis.cuts import (
    Hearing,
    Obstacle,
    Stretch,
    boundaries,
    obstacle,
    schema_fields,
    stretches,
)
from adk_fluent.analysis.facts import Facts
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.contracts.findings import obstacle_message
from adk_fluent.distributed.manifest import Manifest, Port, queue_of
from adk_fluent.errors import ArgumentError, BoundaryError
from adk_fluent.ir.annotations import ExecutionBoundary
from adk_fluent.ir.base import Node, rewrite, root_of
from adk_fluent.ir.codec import ir_hash
from adk_fluent.ir.endpoints import ENGINE, place_of_queue
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.graph import Named, resolve_names

if TYPE_CHECKING:
    from google.adk.apps import App

    from adk_fluent.analysis.plan import Step
    from adk_fluent.expr.base import Expr
    from adk_fluent.ir.state_keys import StateFieldRef

HERE: Final = ExecutionBoundary()
"""What holds of the first segment, which starts without a boundary: JSON, no queue, where the caller is."""


@dataclass(frozen=True)
class Segment:
    """One part of a pipeline that was cut at its execution boundaries; a pipeline, and an app, of its own.

    Attributes:
        name: the name of its first step; no two segments of a pipeline share it.
        index: its place; segments run one after another.
        node: its steps, under the names and with the visibility that they have in the whole pipeline.
        boundary: what the boundary at its start says.
        reads: the state keys that must come in; `None` if all must, since a step does not say what it reads.
        writes: the keys that it is known to write; `temp:` keys never cross.
        open_writes: whether it may write more than `writes`.
        hears: the part of the conversation that must come in.
        files: the artifacts that its steps are known to save, read or delete; they do not cross, so that
            whoever runs it needs the artifact service of the whole. `""` is one that only a run names.
        fields: key → the field of a `StateSchema` that the pipeline binds or names.
        previous: the name of the segment before; `None` of the first.
        next: the name of the segment after; `None` of the last.
        origins: unique name → the name that the user gave, for the steps the user named.
        config: how its app is run; its `app_name` is that of the whole, so that they share artifacts.
    """

    name: str
    index: int
    node: Node
    boundary: ExecutionBoundary
    reads: tuple[str, ...] | None
    writes: tuple[str, ...]
    open_writes: bool
    hears: Hearing
    files: tuple[str, ...]
    fields: Mapping[str, StateFieldRef] = field(compare=False)
    previous: str | None
    next: str | None
    origins: Mapping[str, str] = field(repr=False, compare=False)
    config: ExecutionConfig = field(repr=False)

    @cached_property
    def ir_hash(self) -> str:
        """The hash of its graph; middleware does not count, since a run may add to it."""
        return ir_hash(rewrite(self.node, _without_middleware))

    @cached_property
    def expression(self) -> Expr[Any]:
        """The segment as an expression, to look at, check, draw and run by itself."""
        from adk_fluent.expr.base import Expr

        return Expr[Any].from_node(self.node)

    @property
    def app(self) -> App:
        """The segment as a native ADK `App`, which runs and resumes on its own."""
        resumable = True if self.config.resumable is None else self.config.resumable
        return self.expression.to_app(replace(self.config, resumable=resumable))

    @property
    def endpoint(self) -> str:
        """Where its queue is.

        Raises:
            ArgumentError: its boundary does not say.
        """
        transport = self.boundary.transport
        if transport is None or transport.endpoint is None:
            raise ArgumentError(
                f"Segment {self.name!r} has no queue: give its boundary a "
                "transport=TransportConfig(endpoint='redis://host:6379/queue')."
            )
        return transport.endpoint

    @property
    def is_queued(self) -> bool:
        """Whether its work comes through a message broker."""
        transport = self.boundary.transport
        endpoint = None if transport is None else transport.endpoint
        return endpoint is not None and place_of_queue(endpoint).scheme != ENGINE

    @property
    def is_cut_off(self) -> bool:
        """Whether a boundary stands at its start, so that it runs apart from its caller."""
        return self.boundary is not HERE

    @cached_property
    def queue(self) -> str:
        """The name of the queue that its workers serve: the end of the endpoint's path, or one of its own."""
        return queue_of(self.boundary.transport, f"{self.config.app_name}.{self.name}")

    @cached_property
    def manifest(self) -> Manifest:
        """What is deployed: inputs, outputs, schema, queue and start command, as data."""
        boundary, scaling = self.boundary, self.boundary.scaling
        transport = boundary.transport
        return Manifest(
            segment=self.name,
            app_name=self.config.app_name,
            index=self.index,
            ir_hash=self.ir_hash,
            inputs=None if self.reads is None else tuple(Port.of(key, self.fields) for key in self.reads),
            outputs=tuple(Port.of(key, self.fields) for key in self.writes),
            open_outputs=self.open_writes,
            hears=self.hears,
            files=self.files,
            serialization=boundary.serialization,
            isolation=boundary.isolation,
            queue=self.queue,
            endpoint=None if transport is None else transport.endpoint,
            min_instances=0 if scaling is None else scaling.min_instances,
            max_instances=1 if scaling is None else scaling.max_instances,
            previous=self.previous,
            next=self.next,
        )


def split(subject: object, config: ExecutionConfig | None = None) -> tuple[Segment, ...]:
    """Cut a pipeline at its execution boundaries.

    A boundary cuts before its expression: that and all after it, up to the next boundary, is one segment. So
    segments run one after another, and a pipeline without boundaries is one segment.

    Args:
        subject: an expression, or an IR node.
        config: how the whole is run, and each of its segments.

    Raises:
        BoundaryError: a boundary stands where a pipeline cannot be cut; the message names what can.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> heavy = Agent("heavy").instruct("Work on {task}.").writes("result").execution_boundary()
        >>> first, second = split(Agent("clerk").writes("task") >> heavy >> Agent("mail").reads("result"))
        >>> second.name, second.reads, second.writes, second.previous
        ('heavy', ('task',), ('result',), 'clerk')
    """
    return cut(resolve_names(root_of(subject)), execution_config(config))


def cut(named: Named, config: ExecutionConfig) -> tuple[Segment, ...]:
    """`split` of a tree with unique names."""
    facts = Facts(named.root, resolved=True)
    problems = [problem for step in boundaries(facts) if (problem := obstacle(facts, step)) is not None]
    if problems:
        raise BoundaryError(" ".join(map(_refusal, problems)))
    parts = stretches(facts)
    names = [_first_of(facts, part).name for part in parts]
    fields = schema_fields(facts)
    return tuple(
        Segment(
            name=names[index],
            index=index,
            node=_shown_as(_part(facts.plan.root, part), facts),
            boundary=part.boundary or HERE,
            reads=None if part.open_reads else part.reads,
            writes=part.writes,
            open_writes=bool(part.open_writes),
            hears=part.hears,
            files=part.files,
            fields=fields,
            previous=names[index - 1] if index else None,
            next=names[index + 1] if index + 1 < len(names) else None,
            origins=named.origins,
            config=replace(config, contracts="off"),  # the whole was checked
        )
        for index, part in enumerate(parts)
    )


def _refusal(problem: Obstacle) -> str:
    message, hint = obstacle_message(problem)
    return f"{message}. {hint}"


def _first_of(facts: Facts, part: Stretch) -> Step:
    """What a segment is called after: the step with the boundary, or the first that is no mere frame."""
    if part.cut is not None:
        return part.cut
    step = facts.steps[part.start]
    while isinstance(step.node.runs, InOrder) and step.children:
        step = step.children[0]
    return step


def _part(step: Step, part: Stretch) -> Node:
    """A step without what stands outside a stretch."""
    if part.start <= step.index and step.end <= part.end:
        return step.node
    inside = [child for child in step.children if child.index < part.end and child.end > part.start]
    node: Any = step.node
    return node.replace(children=tuple(_part(child, part) for child in inside))


def _without_middleware(node: Node) -> Node:
    said = node.annotations
    return cast(Any, node).replace(annotations=said.replace(middleware=())) if said.middleware else node


def _shown_as(node: Node, facts: Facts) -> Node:
    """The tree with the visibility that its agents have in the whole, and without boundaries."""

    def settled(node: Node) -> Node:
        said = node.annotations
        changes: dict[str, object] = {}
        if said.boundary is not None:
            changes["boundary"] = None
        if node.speaks and said.visibility is None and node.name in facts.visibility:
            changes["visibility"] = facts.visibility[node.name]
        return cast(Any, node).replace(annotations=said.replace(**changes)) if changes else node

    return rewrite(node, settled)
