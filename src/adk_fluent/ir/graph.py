"""The names of the nodes of a tree, the order in which they run, and how deep they run inside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from operator import is_
from typing import ClassVar, Final, NamedTuple

from adk_fluent.errors import ArgumentError, DuplicateNameError, InvalidNameError
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node, root_of, walk
from adk_fluent.ir.frozen import Frozen, frozen

# --- names ----------------------------------------------------------------------------------------

RESERVED = frozenset({"user"})


def check_name(name: object, what: str = "agent") -> str:
    """Return `name` if ADK accepts it.

    Raises:
        InvalidNameError: `name` is not a text, not an identifier, or reserved; the message suggests another.
    """
    if not isinstance(name, str):
        raise InvalidNameError(f"The name of this {what} must be text, not {type(name).__name__}: {name!r}.")
    if (fault := name_fault(name)) is not None:
        raise InvalidNameError(
            f"{name!r} cannot name this {what}: {fault}. Try {as_identifier(name, what)!r}."
        )
    return name


def name_fault(name: str) -> str | None:
    """The reason why ADK refuses a name; `None` if ADK accepts it."""
    if name in RESERVED:
        return "ADK keeps it for the person"
    if not name.isidentifier():
        return "ADK wants letters, digits and underscores, not starting with a digit"
    return None


def as_identifier(name: str, what: str) -> str:
    """A similar name that ADK accepts, for a `what` such as `agent`.

    >>> as_identifier("1st try", "agent")
    'agent_1st_try'
    """
    if name in RESERVED:
        return f"{name}_{what}"
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name.strip()).strip("_").lower()
    if not cleaned.isidentifier() or cleaned in RESERVED:
        cleaned = f"{what}_{cleaned}".rstrip("_")
    return cleaned if cleaned.isidentifier() else what


@frozen
class Named(Frozen):
    """A tree in which every node has a unique name.

    Attributes:
        root: the tree.
        origins: unique name → the name the user gave, for every node that the user named.
    """

    __slots__ = ("_nodes",)  # computed when first needed; not part of the value
    _nodes: ClassVar[tuple[Node, ...]]

    root: Node
    origins: Mapping[str, str]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the tree, parents before children."""
        try:
            return self._nodes
        except AttributeError:
            object.__setattr__(self, "_nodes", tuple(walk(self.root)))
            return self._nodes


def named_nodes(root: Node) -> tuple[dict[str, Node], dict[str, Node]]:
    """Two mappings: the user's names with the first node of each, and the names of different nodes.

    If two different nodes have the same name, the second mapping holds the other node.
    """
    first: dict[str, Node] = {}
    other: dict[str, Node] = {}
    for node in walk(root):
        if node.name:
            known = first.setdefault(node.name, node)
            if known is not node and known != node:
                other.setdefault(node.name, node)
    return first, other


def resolve_names(root: Node) -> Named:
    """Give every node a unique name; equal trees get equal names.

    The first use of a named node keeps its name; later uses of an equal node get `name_2`, `name_3`.
    An unnamed node gets the name of its label.

    Raises:
        DuplicateNameError: two different nodes have the same name.
    """
    first, clashing = named_nodes(root)
    for name, other in clashing.items():
        kinds = first[name].kind, other.kind
        which = "agents" if set(kinds) == {"agent"} else f"nodes ({' and '.join(dict.fromkeys(kinds))})"
        raise DuplicateNameError(
            f"Two different {which} are called {name!r}. Rename one with .named('{name}_b')."
        )
    giver = NameGiver(first)
    return Named(_renamed(root, giver), giver.origins)


def _renamed(node: Node, giver: NameGiver) -> Node:
    name = giver.name(node)
    if children := node.children:
        renamed = tuple([_renamed(child, giver) for child in children])
        if not all(map(is_, renamed, children)):
            node = node.with_children(renamed)
    return node if name == node.name else node.replace(name=name)


class NameGiver:
    """Assigns unique names to the nodes of a tree. Call `name` for parents first, and for children in order.

    Args:
        given: the names that the user gave in this tree.

    Attributes:
        origins: unique name → the name the user gave.
    """

    def __init__(self, given: Iterable[str]) -> None:
        self._first = set(given)
        self._taken = self._first | RESERVED
        self._counts: dict[str, int] = {}
        self.origins: dict[str, str] = {}

    def name(self, node: Node) -> str:
        """The unique name of the next node."""
        name = node.name
        if name in self._first:
            self._first.remove(name)
            self.origins[name] = name
            return name
        return self._derived(node)

    def _derived(self, node: Node) -> str:
        name = self._next(node.name or node.label)
        self._taken.add(name)
        if node.name:
            self.origins[name] = node.name
        return name

    def _next(self, base: str) -> str:
        if base not in self._taken:
            return base
        count = self._counts.get(base, 1)
        while True:
            count += 1
            if (name := f"{base}_{count}") not in self._taken:
                self._counts[base] = count
                return name


def written(node: Node, *, inner: bool = False) -> str:
    """A node as the text of an expression: its name, or its children with the operator that joined them.

    Args:
        inner: True if the text is an operand of another operator, so that it needs parentheses.

    >>> from adk_fluent import Agent
    >>> written(((Agent("a") >> Agent("b")) | Agent("c")).node)
    '(a >> b) | c'
    """
    if node.name or not node.children:
        return node.name or node.label
    if (operator := _OPERATORS.get(node.kind)) is None or len(node.children) == 1:
        return f"{node.label}({', '.join(map(written, node.children))})"
    joined = f" {operator} ".join(written(child, inner=True) for child in node.children)
    return f"({joined})" if inner else joined


_OPERATORS: Final[Mapping[str, str]] = {"sequence": ">>", "parallel": "|", "fallback": "//"}
"""The kind of a node → the operator that makes it."""


# --- the order of the nodes -----------------------------------------------------------------------


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


# --- depth ----------------------------------------------------------------------------------------

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
        if any(isinstance(node.runs, execution.HandOver) for node in level.values()):
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
    target = named.get(node.runs.target) if isinstance(node.runs, execution.HandOver) else None
    return node.children if target is None else (target,)
