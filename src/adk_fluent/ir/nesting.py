"""How deep steps stand inside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import HandOver

MAX_DEPTH: Final = 60
"""How many steps may run inside each other.

On the newest google-adk a step takes up to ten of the thousand frames that Python's stack has. The others are
for the program around the run, and for the model's client and the tools inside it.
"""


def depth(root: Node) -> int:
    """How many steps run inside each other at the deepest place, `root` and the innermost one included.

    What a transfer hands over to runs inside the transfer, unless it stands around it: then it starts again.

    >>> from adk_fluent import Agent
    >>> depth((Agent("a") >> Agent("b") * 3).to_ir())
    3
    """
    levels = _levels(root)
    return _with_transfers(root) if levels is None else levels


def _levels(root: Node) -> int | None:
    """How deep a tree is, level by level; `None` if it has transfers, which may lead deeper."""
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
        elif id(node) in open_nodes:  # all inside it is known
            inside = [found.get(id(child), 0) for child in _inside(node, named)]
            found[id(node)] = 1 + max(inside, default=0)
            open_nodes.remove(id(pending.pop()))
        else:
            open_nodes.add(id(node))
            pending += [child for child in _inside(node, named) if id(child) not in open_nodes]
    return found[id(root)]


def _distinct(root: Node) -> list[Node]:
    """Every node once, however often it is used."""
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
