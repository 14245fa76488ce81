"""The outline of an expression as indented text, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import resolve_names
from adk_fluent.viz.styles import branches, style_of


def to_outline(node: Node) -> str:
    """Draw the outline of lines and signs; the keys that a step writes are behind its arrow.

    Raises:
        UnsupportedNodeError: the node is not a step.
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
    look = style_of(node)
    if not look.sign:  # such a node shows its steps only
        lines: list[str] = []
        for child in node.children:
            lines += [*(["│"] if lines else []), *_lines(child)]
        return lines
    written = ", ".join(sorted(node.writes_keys))
    head = f"{look.sign} {look.label(node)}" + (f" → {written}" if written else "")
    return [head, *_below(node)]


def _below(node: Node) -> list[str]:
    found = branches(node)
    if not found:
        return _hang([("", child) for child in node.children])
    width = max(len(words) for words, _ in found)
    return _hang([(f"{words:<{width}}  ", child) for words, child in found])


def _hang(children: Sequence[tuple[str, Node]]) -> list[str]:
    lines: list[str] = []
    for index, (words, child) in enumerate(children):
        last = index == len(children) - 1
        first, *rest = _lines(child)
        lines.append(f"{'└─' if last else '├─'} {words}{first}")
        lines += [f"{' ' if last else '│'}  {' ' * len(words)}{line}" for line in rest]
    return lines
