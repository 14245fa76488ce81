"""A run in one process keeps to its boundaries: what could not cross is not there, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_fluent.analysis.cuts import Stretch, schema_fields, stretches
from adk_fluent.analysis.facts import Facts
from adk_fluent.config import ExecutionConfig
from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node, rewrite, walk
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.graph import Named
from adk_fluent.ir.nodes import SequenceNode, TimeoutNode, TransformNode
from adk_fluent.ir.state_keys import StateFieldRef, is_temporary
from adk_fluent.state.delta import pack


@frozen
class Cross(TransformSpec):
    """What happens to the state at a boundary: `temp:` keys go, and what crosses must be data.

    Attributes:
        segment: the step with the boundary.
        keys: the keys that cross; `None` if all do.
        fields: the schema fields among the keys, as pairs.
    """

    segment: str
    keys: tuple[str, ...] | None
    fields: tuple[tuple[str, StateFieldRef], ...] = ()

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What goes from the state.

        Raises:
            SerializationError: a value is no data.
        """
        keys = list(state) if self.keys is None else [key for key in self.keys if key in state]
        crossing = {key: state[key] for key in keys if state[key] is not None}
        pack(crossing, dict(self.fields), f"the execution boundary of {self.segment!r}")
        return {key: None for key in state if is_temporary(key)}


def inside_limit(named: Named, config: ExecutionConfig) -> tuple[Named, TimeoutNode | None]:
    """The tree without the time limit of its configuration, wherever that is cut; and that limit."""
    root = named.root
    if config.timeout_seconds is None or not isinstance(root, TimeoutNode):
        return named, None
    return Named(root.body, named.origins), root


def with_crossings(named: Named, config: ExecutionConfig) -> Named:
    """The tree with a step before each boundary at which a run can be cut."""
    if all(node.annotations.boundary is None for node in walk(named.root)):
        return named  # as most are
    inside, limit = inside_limit(named, config)
    crossed = _crossed(inside)
    return Named(limit.with_children((crossed,)) if limit else crossed, named.origins)


def without_crossings(root: Node) -> Node:
    """The tree as it was before `with_crossings`."""

    def take(node: Node) -> Node:
        kept = tuple(child for child in node.children if not _crosses(child))
        return node if len(kept) == len(node.children) else node.with_children(kept)

    return rewrite(root, take)


def _crosses(node: Node) -> bool:
    return isinstance(node, TransformNode) and isinstance(node.fn, Cross)


def _crossed(named: Named) -> Node:
    facts = Facts(named.root, resolved=True)
    parts, fields = stretches(facts), tuple(schema_fields(facts).items())
    steps: dict[str, Node] = {}
    for index, part in enumerate(parts):
        if part.cut is not None and part.cut.parent is not None:
            name = part.cut.name
            cross = Cross(name, _crossing(parts[max(index - 1, 0)], part), fields)
            steps[name] = TransformNode(name=_free(f"to_{name}", facts), fn=cross)

    def put(node: Node) -> Node:
        if not isinstance(node, SequenceNode) or steps.keys().isdisjoint(
            child.name for child in node.children
        ):
            return node
        inside = [(steps[child.name], child) if child.name in steps else (child,) for child in node.children]
        return node.with_children(tuple(step for pair in inside for step in pair))

    return rewrite(named.root, put)


def _crossing(before: Stretch, after: Stretch) -> tuple[str, ...] | None:
    """The keys that leave one stretch or enter the next; `None` if nobody knows."""
    if after.open_reads or before.open_writes:
        return None
    return tuple(dict.fromkeys((*before.writes, *after.reads)))


def _free(name: str, facts: Facts) -> str:
    """A name that no step has."""
    while name in facts.plan.by_name:
        name += "_"
    return name
