"""Unique and stable names for the nodes of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import ClassVar, Final

from adk_fluent.errors import DuplicateNameError, InvalidNameError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen

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
