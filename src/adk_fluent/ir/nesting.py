"""The nesting depth of steps, and its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import HandOver

MAX_DEPTH: Final = 60
"""The most steps that may run inside each other.

With the newest google-adk a step takes up to ten of the thousand frames of Python's stack. The program around
the run, the model's client and the tools need the others.
"""


def depth(root: Node) -> int:
    """The number of steps that run inside each other at the deepest place, from `root` to the innermost.

    The target of a transfer runs inside the transfer. If the target contains the transfer, it starts again.

    >>> from adk_fluent import Agent
    >>> depth((Agent("a") >> Agent("b") * 3).to_ir())
    3
    """
    levels = _levels(root)
    return _with_transfers(root) if levels is None else levels


def _levels(root: Node) -> int | None:
    """The depth of a tree without transfers; `None` if it has transfers, whose targets may be deeper."""
    level, found = {id(root): root}, 0
    while level:
        found += 1
        if any(isinstance(node.runs, HandOver) for node in level.values()):
            return None
        level = {id(child): child for node in level.values() for child in node.children}
    return found


def _with_transfers(root: Node) -> int:
    named = {node.name: node for node in _distinct(root) if node.name}
    found: dict[int, int] = {}
    open_nodes: set[int] = set()
    pending = [root]
    while pending:
        node = pending[-1]
        if id(node) in found:
            pending.pop()
        elif id(node) in open_nodes:  # the depth of all steps inside it is known
            inside = [found.get(id(child), 0) for child in _inside(node, named)]
            found[id(node)] = 1 + max(inside, default=0)
            open_nodes.remove(id(pending.pop()))
        else:
            open_nodes.add(id(node))
            pending += [child for child in _inside(node, named) if id(child) not in open_nodes]
    return found[id(root)]


def _distinct(root: Node) -> list[Node]:
    """Every node of the tree, each once."""
    pending, seen = [root], {id(root): root}
    while pending:
        fresh = {id(child): child for child in pending.pop().children if id(child) not in seen}
        seen |= fresh
        pending += fresh.values()
    return list(seen.values())


def _inside(node: Node, named: Mapping[str, Node]) -> tuple[Node, ...]:
    """The steps that may run inside one."""
    target = named.get(node.runs.target) if isinstance(node.runs, HandOver) else None
    return node.children if target is None else (target,)
