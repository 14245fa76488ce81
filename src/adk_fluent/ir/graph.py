"""The order in which the nodes of a tree run, and how deep they run inside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Final, NamedTuple

from adk_fluent.errors import ArgumentError
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.ir.execution import HandOver
from adk_fluent.ir.node_names import resolve_names


class Edge(NamedTuple):
    """An edge of control flow from one node to another, by their names.

    Attributes:
        kind: `next` in order, `branch` chosen by a route, `back` to the start of a loop, `else` after a
            failure, `delegate` at the model's wish, `transfer` by a transfer step.
    """

    source: str
    target: str
    kind: str = "next"


def topological_order(root: object) -> tuple[Node, ...]:
    """Every node in an order in which a node follows all nodes that start before it; parents come first."""
    return tuple(walk(root))


def predecessors(root: object, node: object) -> tuple[Node, ...]:
    """The nodes that may run directly before `node`, each once, in running order.

    A composite only holds other nodes, so it is no predecessor. If the tree has `node` in several places, the
    result has the predecessors of all of them. The names of the tree need not be unique.

    Args:
        root: the tree, as an IR node or an expression.
        node: a part of the tree, as an IR node or an expression.

    Raises:
        ArgumentError: `node` is not in the tree, or an argument is neither a node nor an expression.
        DuplicateNameError: two different nodes have one name.

    >>> from adk_fluent import Agent
    >>> a, b, c = (Agent(name) for name in "abc")
    >>> root = a >> (b | c) >> a
    >>> [found.name for found in predecessors(root, a)], [found.name for found in predecessors(root, c)]
    (['b', 'c'], ['a'])
    """
    root, node = root_of(root), root_of(node)
    tree = resolve_names(root).root
    named = dict(zip((place.name for place in walk(tree)), walk(root), strict=True))
    wanted = {name for name, found in named.items() if found == node}
    if not wanted:
        raise ArgumentError(f"predecessors(): {node.name or node.kind!r} is not in this tree.")
    before = {edge.source for edge in edges(tree) if edge.target in wanted}
    return tuple(dict.fromkeys(found for name, found in named.items() if name in before))


def edges(root: Node) -> tuple[Edge, ...]:
    """Every control edge of a tree with unique names, in running order."""
    collected: list[Edge] = []
    _connect(root, collected, {node.name: node for node in walk(root)})
    return tuple(dict.fromkeys(collected))


def transfers(nodes: Iterable[Node]) -> Iterator[tuple[Node, str]]:
    """The transfers among some nodes, each with the name of its target."""
    return ((node, node.runs.target) for node in nodes if isinstance(node.runs, execution.HandOver))


def inevitable_transfers(node: Node) -> tuple[Node, ...]:
    """The transfers that every run of `node` reaches: no state and no answer of a model can avoid them."""
    match node.runs:
        case execution.HandOver(condition=None):
            return (node,)
        case execution.InOrder() | execution.Repeated():
            for child in node.children:
                if (found := inevitable_transfers(child)) or any(map(_may_end, walk(child))):
                    return found
            return ()
        case execution.InParallel() | execution.Wrapped():
            return tuple(found for child in node.children for found in inevitable_transfers(child))
        case execution.FirstSuccess():
            return inevitable_transfers(node.children[0]) if node.children else ()
        case _:
            return ()


def _may_end(node: Node) -> bool:
    """True if a run may end at this node, so that the next steps of its sequence may not run."""
    if isinstance(node.runs, (*execution.ONE_COUNTS, execution.PerItem)):
        return any(isinstance(step.runs, execution.HandOver) for step in walk(node))
    return node.asks or isinstance(node.runs, execution.HandOver)


class _Ends(NamedTuple):
    """The names of the steps where control enters a node (`entries`) and leaves it.

    `exits` lead to the next step, `away` to the step after the node's sequence.
    """

    entries: tuple[str, ...]
    exits: tuple[str, ...]
    away: tuple[str, ...] = ()


def _connect(node: Node, out: list[Edge], targets: Mapping[str, Node]) -> _Ends:
    """Collect the edges inside `node`; `targets` are the nodes that a transfer may name."""
    if isinstance(node.runs, execution.HandOver):
        return _connect_transfer(node.name, node.runs, out, targets)
    here = (node.name,)
    if not node.children:
        return _Ends(here, here)
    parts = [_connect(child, out, targets) for child in node.children]
    if not isinstance(node.runs, execution.SILENT_FRAMES):
        return _connect_step(node, parts, out)
    entries, exits, away = (
        _flat(part) for part in zip(*((p.entries, p.exits, p.away) for p in parts), strict=True)
    )
    if isinstance(node.runs, execution.STEP_BY_STEP):
        for before, after in pairwise(parts):
            _link(before.exits, after.entries, "next", out)
        if isinstance(node.runs, execution.Repeated):
            _link(_flat((parts[-1].exits, away)), parts[0].entries, "back", out)
        return _Ends(parts[0].entries, _flat((parts[-1].exits, away)))
    if isinstance(node.runs, execution.FirstSuccess):
        for before, after in pairwise(parts):
            _link(before.exits, after.entries, "else", out)
        return _Ends(parts[0].entries, exits, away)
    return _Ends(entries, exits, away)


def _connect_step(node: Node, parts: list[_Ends], out: list[Edge]) -> _Ends:
    here = (node.name,)
    entries, exits = _flat(p.entries for p in parts), _flat(p.exits for p in parts)
    away = _flat(p.away for p in parts)
    if isinstance(node.runs, execution.FirstMatch):
        _link(here, entries, "branch", out)
        return _Ends(here, exits if node.runs.default else _flat((exits, here)), away)
    if isinstance(node.runs, execution.PerItem):
        _link(here, entries, "next", out)
        return _Ends(here, exits, away)
    _link(here, entries, "delegate" if isinstance(node.runs, execution.ByModel) else "else", out)
    return _Ends(here, _flat((here, exits)), away)


def _connect_transfer(
    name: str, runs: execution.HandOver, out: list[Edge], targets: Mapping[str, Node]
) -> _Ends:
    here = (name,)
    stays = here if runs.condition is not None else ()
    target = targets.get(runs.target)
    if target is None:
        return _Ends(here, stays)
    ends = _connect(target, [], {})
    _link(here, ends.entries, "transfer", out)
    return _Ends(here, stays, ends.exits)


def _link(sources: tuple[str, ...], targets: tuple[str, ...], kind: str, out: list[Edge]) -> None:
    out.extend(Edge(source, target, kind) for source in sources for target in targets)


def _flat(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    found = [group for group in groups if group]
    return found[0] if len(found) == 1 else tuple(dict.fromkeys(chain.from_iterable(found)))


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
    """The steps that run directly inside `node`: its children, or the target of a transfer."""
    target = named.get(node.runs.target) if isinstance(node.runs, HandOver) else None
    return node.children if target is None else (target,)
