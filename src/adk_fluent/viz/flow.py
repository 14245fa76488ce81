"""Which step reads what another step wrote: the dashed lines of a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import (
    AgentNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
)

Writers = Mapping[str, tuple[str, ...]]
"""State key → names of the nodes whose value may be there."""

_NO_KEYS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class DataEdge:
    """State goes from the node that writes it to one that reads it.

    Attributes:
        keys: the state keys, sorted.
    """

    source: str
    target: str
    keys: tuple[str, ...]


def data_edges(root: Node) -> tuple[DataEdge, ...]:
    """Every pair of writer and reader of a tree with unique names, in running order of the reader.

    A value that is overwritten before it is read makes no edge.
    """
    tracer = _Tracer()
    tracer.visit(root, {})
    return tuple(
        DataEdge(source, target, tuple(sorted(keys))) for (source, target), keys in tracer.found.items()
    )


@dataclass(frozen=True, slots=True)
class _Effect:
    """What running a node does to the state: what it may leave there, and what it surely replaces."""

    may: Writers = field(default_factory=dict[str, tuple[str, ...]])
    must: frozenset[str] = frozenset()

    def after(self, before: Writers) -> Writers:
        """The writers once this has run."""
        if not self.may:
            return before
        kept = {key: names for key, names in before.items() if key not in self.must}
        return _union(kept, self.may)


def _union(*groups: Writers) -> Writers:
    merged: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for key, names in group.items():
            merged[key] = tuple(dict.fromkeys((*merged.get(key, ()), *names)))
    return merged


class _Tracer:
    def __init__(self) -> None:
        self.found: dict[tuple[str, str], set[str]] = {}
        self._effects: dict[str, _Effect] = {}

    def visit(self, node: Node, before: Writers) -> None:
        """Note what `node` and all below it read, when `before` is what the state holds."""
        for key in sorted(node.reads_keys):
            for writer in before.get(key, ()):
                if writer != node.name:
                    self.found.setdefault((writer, node.name), set()).add(key)
        if isinstance(node, LoopNode):  # from the second round on, the body sees its own writes
            before = _union(before, self._effect(node).may)
        if isinstance(node, AgentNode):
            before = _own(node).after(before)
        one_by_one = not isinstance(
            node,
            AgentNode | ParallelNode | RaceNode | RouteNode | FallbackNode | MapOverNode | RemoteAgentNode,
        )
        for child in node.children:
            self.visit(child, before)
            if one_by_one:
                before = self._effect(child).after(before)
            elif isinstance(node, FallbackNode):  # a branch that failed may have written before
                before = _union(before, self._effect(child).may)

    def _effect(self, node: Node) -> _Effect:
        found = self._effects.get(node.name)
        if found is None:
            found = self._effects[node.name] = self._compute(node)
        return found

    def _compute(self, node: Node) -> _Effect:
        parts = [self._effect(child) for child in node.children]
        own = _own(node)
        may = _union(*(part.may for part in parts), own.may)
        musts = [part.must for part in parts]
        if isinstance(node, AgentNode | MapOverNode) or not parts:  # the children may not run at all
            return _Effect(may, own.must)
        if isinstance(node, RemoteAgentNode):
            return _Effect(may, own.must & musts[0])
        if isinstance(node, ParallelNode):
            return _Effect(may, _NO_KEYS.union(*musts))
        if isinstance(node, RouteNode | FallbackNode | RaceNode):
            surely = not isinstance(node, RouteNode) or node.default is not None
            return _Effect(may, musts[0].intersection(*musts) if surely else _NO_KEYS)
        left: Writers = {}
        for part in parts:
            left = part.after(left)
        return _Effect(left, _NO_KEYS.union(*musts))


def _own(node: Node) -> _Effect:
    surely = _NO_KEYS if isinstance(node, GateNode) else node.writes_keys  # a gate may not ask
    return _Effect(dict.fromkeys(sorted(node.writes_keys), (node.name,)), surely)
