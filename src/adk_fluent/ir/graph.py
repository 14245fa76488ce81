"""The order in which the nodes of a tree run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.nodes import (
    AgentNode,
    FallbackNode,
    LoopNode,
    MapOverNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TimeoutNode,
    TransferNode,
)

_INVISIBLE = (SequenceNode, ParallelNode, LoopNode, FallbackNode, RaceNode, TimeoutNode)


@frozen
class Edge(Frozen):
    """Control goes from one node to another, by name.

    Attributes:
        kind: `next` in order, `branch` chosen by a route, `back` to the start of a loop, `else` after a
            failure, `delegate` at the model's wish.
    """

    source: str
    target: str
    kind: str = "next"


def topological_order(root: Node) -> tuple[Node, ...]:
    """Every node, each after all that must have started before it: parents first, then in running order."""
    return tuple(walk(root))


def predecessors(root: Node) -> Mapping[str, tuple[str, ...]]:
    """For each node name, the names of the nodes that may run directly before it.

    `root` must have unique names; see `resolve_names`.
    """
    found: dict[str, list[str]] = {node.name: [] for node in walk(root)}
    for edge in edges(root):
        found[edge.target].append(edge.source)
    return {name: tuple(dict.fromkeys(sources)) for name, sources in found.items()}


def edges(root: Node) -> tuple[Edge, ...]:
    """Every control edge of a tree with unique names, in running order."""
    collected: list[Edge] = []
    _connect(root, collected)
    return tuple(dict.fromkeys(collected))


def inevitable_transfers(node: Node) -> tuple[TransferNode, ...]:
    """The transfers that run whenever `node` does, whatever the state and the models say."""
    match node:
        case TransferNode():
            return () if node.condition is not None else (node,)
        case SequenceNode() | LoopNode():
            return next((found for child in node.children if (found := inevitable_transfers(child))), ())
        case ParallelNode() | TimeoutNode():
            return tuple(found for child in node.children for found in inevitable_transfers(child))
        case FallbackNode():
            return inevitable_transfers(node.children[0]) if node.children else ()
        case _:
            return ()


def _connect(node: Node, out: list[Edge]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Collect the edges inside `node`; returns the names of where it is entered and left."""
    if not isinstance(node, _INVISIBLE):
        return _connect_step(node, out)
    parts = [_connect(child, out) for child in node.children]
    if not parts:
        return (node.name,), (node.name,)
    if isinstance(node, (SequenceNode, LoopNode)):
        for (_, exits), (entries, _) in pairwise(parts):
            _link(exits, entries, "next", out)
        if isinstance(node, LoopNode):
            _link(parts[-1][1], parts[0][0], "back", out)
        return parts[0][0], parts[-1][1]
    if isinstance(node, FallbackNode):
        for (_, exits), (entries, _) in pairwise(parts):
            _link(exits, entries, "else", out)
        return parts[0][0], _flat(exits for _, exits in parts)
    return _flat(entries for entries, _ in parts), _flat(exits for _, exits in parts)


def _connect_step(node: Node, out: list[Edge]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    here = (node.name,)
    parts = [_connect(child, out) for child in node.children]
    if isinstance(node, RouteNode):
        _link(here, _flat(entries for entries, _ in parts), "branch", out)
        exits = _flat(exits for _, exits in parts)
        return here, exits if node.default is not None else (*exits, *here)
    if isinstance(node, MapOverNode):
        _link(here, parts[0][0], "next", out)
        return here, parts[0][1]
    kind = (
        "delegate" if isinstance(node, AgentNode) else "else" if isinstance(node, RemoteAgentNode) else "next"
    )
    _link(here, _flat(entries for entries, _ in parts), kind, out)
    return here, (*here, *_flat(exits for _, exits in parts))


def _link(sources: tuple[str, ...], targets: tuple[str, ...], kind: str, out: list[Edge]) -> None:
    out.extend(Edge(source, target, kind) for source in sources for target in targets)


def _flat(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))
