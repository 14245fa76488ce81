"""Who sees what a step says: the user, only the other agents, or nobody because it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import Node
from adk_fluent.ir.naming import NameGiver, named_nodes
from adk_fluent.ir.nodes import (
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransferNode,
    TransformNode,
)


def infer_visibility(x: object) -> Mapping[str, Visibility]:
    """For every step of a tree, by its unique name, who sees what it says.

    An agent is `user` if nothing that speaks runs after it, else `internal`. Of the last loop or map, the
    agent that speaks last is `user`, so that somebody always speaks. Steps that say nothing, and composites,
    which say nothing themselves, are `zero_cost`; a gate is `user`, since it asks a person. `.show()`,
    `.hide()` and `.transparent()` win over the place in the tree.

    Args:
        x: an expression, an IR node, or a native agent or app that adk-fluent built.

    Example:
        >>> from adk_fluent import Agent, Route
        >>> pipeline = Agent("c").writes("intent") >> Route("intent").eq("book", Agent("booker"))
        >>> seen = infer_visibility(pipeline)
        >>> seen["c"], seen["route"], seen["booker"]
        ('internal', 'zero_cost', 'user')
    """
    root = _root(x)
    return _Inference(root).run()


def _root(x: object) -> Node:
    for value in (x, getattr(x, "node", None), getattr(x, "_ir", None)):
        if isinstance(value, Node):
            return value
    inner = getattr(getattr(x, "root_agent", None), "_ir", None)
    if isinstance(inner, Node):
        return inner
    raise ArgumentError(
        "infer_visibility() takes an expression, an IR node or what was built of one, "
        f"not {type(x).__name__}."
    )


class _Place:
    """Where one node stands: what is around it and inside it."""

    __slots__ = ("children", "follows", "name", "node", "parent", "said", "speaks")

    def __init__(self, node: Node, name: str, parent: _Place | None) -> None:
        self.node: Any = node
        self.name = name
        self.parent = parent
        self.children: list[_Place] = []
        self.speaks = isinstance(node, AgentNode | RemoteAgentNode)
        self.follows = False
        """Whether something that speaks runs after it."""
        self.said: Visibility | None = None
        """What `.show()`, `.hide()` or `.transparent()` of this node or one around it says."""


class _Inference:
    def __init__(self, root: Node) -> None:
        given, _ = named_nodes(root)
        giver = NameGiver(given)
        self.places: list[_Place] = []
        stack: list[tuple[Node, _Place | None]] = [(root, None)]
        while stack:
            node, parent = stack.pop()
            place = _Place(node, giver.name(node), parent)
            self.places.append(place)
            if parent is not None:
                parent.children.append(place)
            stack.extend((child, place) for child in reversed(node.children))

    def run(self) -> dict[str, Visibility]:
        for place in reversed(self.places):
            place.speaks = place.speaks or any(child.speaks for child in place.children)
        for place in self.places:
            self._settle(place)
        final = {place.node.target for place in self.places if _hands_over_last(place)}
        return {place.name: self._seen(place, final) for place in self.places}

    def _settle(self, place: _Place) -> None:
        """What the place inherits, and passes on to those inside it."""
        if (said := _override(place.node)) is not None:
            place.said = said
        elif place.parent is not None:
            place.said = place.parent.said
        in_order = isinstance(place.node, SequenceNode | LoopNode)
        follows = place.follows
        for child in reversed(place.children):
            child.follows = follows
            follows = follows or (in_order and child.speaks)

    def _seen(self, place: _Place, final: set[str]) -> Visibility:
        silent = _SILENT[type(place.node)]
        if silent is not None:
            return silent
        if place.said is not None:
            return place.said
        if not place.follows or (final and _is_last_in(place, final)):
            return "user"
        return "internal"


def _override(node: Node) -> Visibility | None:
    annotations = node.annotations
    if annotations.visibility is not None:
        return annotations.visibility
    return "user" if annotations.policy == "transparent" else None


def _hands_over_last(place: _Place) -> bool:
    """Whether a transfer's target is the last to speak: nothing speaks after the sequence it leaves."""
    if not isinstance(place.node, TransferNode):
        return False
    left = place
    for outer in _outwards(place):
        left = outer
        if isinstance(outer.node, SequenceNode):
            break
    return not left.follows


def _outwards(place: _Place) -> list[_Place]:
    found = [place]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _is_last_in(place: _Place, final: set[str]) -> bool:
    """Whether `place` is in a transfer's target, and nothing in that speaks after it."""
    for outer in _outwards(place):
        if outer.name in final:
            return True
        parent = outer.parent
        if parent is not None and isinstance(parent.node, SequenceNode | LoopNode):
            later = parent.children[parent.children.index(outer) + 1 :]
            if any(child.speaks for child in later):
                return False
    return False


_SILENT: Final[Mapping[type[Node], Visibility | None]] = {
    AgentNode: None,
    RemoteAgentNode: None,
    GateNode: "user",
    SequenceNode: "zero_cost",
    ParallelNode: "zero_cost",
    LoopNode: "zero_cost",
    TransformNode: "zero_cost",
    RouteNode: "zero_cost",
    FallbackNode: "zero_cost",
    RaceNode: "zero_cost",
    TapNode: "zero_cost",
    MapOverNode: "zero_cost",
    TimeoutNode: "zero_cost",
    TransferNode: "zero_cost",
    CaptureNode: "zero_cost",
    ModelSelectorNode: "zero_cost",
    ArtifactNode: "zero_cost",
}
"""What a node type always is; `None` where it depends on the place."""
