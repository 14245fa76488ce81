"""An expression as a small drawing in text, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from adk_fluent.ir.base import Node
from adk_fluent.ir.naming import resolve_names
from adk_fluent.ir.nodes import (
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
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
from adk_fluent.viz.labels import branches, label

SIGNS: Final[Mapping[type[Node], str]] = {
    AgentNode: "●",
    RemoteAgentNode: "○",
    RouteNode: "◆",
    GateNode: "■",
    TransferNode: "»",
    ParallelNode: "∥",
    RaceNode: "∥",
    FallbackNode: "?",
    LoopNode: "↻",
    MapOverNode: "≡",
    TimeoutNode: "◷",
    TransformNode: "ƒ",
    CaptureNode: "ƒ",
    TapNode: "ƒ",
    ArtifactNode: "▤",
}
"""The sign before each node that has a line of its own."""


def to_outline(node: Node) -> str:
    """A drawing of lines and signs; what a step writes to state stands behind its arrow.

    Raises:
        UnsupportedNodeError: the node is no step.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> print(to_outline((Agent("a").writes("x") >> (Agent("b") | Agent("c"))).node))
        ● a → x
        │
        ∥ at the same time
        ├─ ● b
        └─ ● c
    """
    return "\n".join(_lines(resolve_names(node).root))


def _lines(node: Node) -> list[str]:
    if isinstance(node, SequenceNode):
        lines: list[str] = []
        for child in node.children:
            lines += [*(["│"] if lines else []), *_lines(child)]
        return lines
    return [_head(node), *_below(node)]


def _head(node: Node) -> str:
    written = ", ".join(sorted(node.writes_keys))
    return f"{SIGNS.get(type(node), '·')} {label(node)}" + (f" → {written}" if written else "")


def _below(node: Node) -> list[str]:
    if isinstance(node, RouteNode):
        found = branches(node)
        width = max((len(words) for words, _ in found), default=0)
        return _hang([(f"{words:<{width}}  ", child) for words, child in found])
    return _hang([("", child) for child in node.children])


def _hang(children: Sequence[tuple[str, Node]]) -> list[str]:
    lines: list[str] = []
    for index, (words, child) in enumerate(children):
        last = index == len(children) - 1
        first, *rest = _lines(child)
        lines.append(f"{'└─' if last else '├─'} {words}{first}")
        lines += [f"{' ' if last else '│'}  {' ' * len(words)}{line}" for line in rest]
    return lines
