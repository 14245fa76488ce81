"""Unique, stable names for every node of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from adk_fluent.errors import DuplicateNameError, InvalidNameError
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, frozen

RESERVED = frozenset({"user"})


def check_name(name: object, what: str = "agent") -> str:
    """`name` if ADK takes it as a name.

    Raises:
        InvalidNameError: not text, not an identifier, or reserved; the message suggests one that is fine.
    """
    if not isinstance(name, str):
        raise InvalidNameError(f"The name of this {what} must be text, not {type(name).__name__}: {name!r}.")
    if name in RESERVED:
        raise InvalidNameError(
            f"{name!r} cannot name this {what}: ADK keeps it for the person. Try '{name}_{what}'."
        )
    if not name.isidentifier():
        raise InvalidNameError(
            f"{name!r} cannot name this {what}: ADK wants letters, digits and underscores, not starting "
            f"with a digit. Try {_as_identifier(name, what)!r}."
        )
    return name


def _as_identifier(name: str, what: str) -> str:
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name.strip()).strip("_").lower()
    if not cleaned.isidentifier() or cleaned in RESERVED:
        cleaned = f"{what}_{cleaned}".rstrip("_")
    return cleaned if cleaned.isidentifier() else what


@frozen
class Named(Frozen):
    """A tree in which every node has a name of its own.

    Attributes:
        root: the tree.
        origins: unique name → the name the user gave, for every node that the user named.
    """

    root: Node
    origins: Mapping[str, str]


def resolve_names(root: Node) -> Named:
    """Give every node a name of its own, the same for equal trees.

    The first use of a named node keeps its name; later uses of an equal node get `name_2`, `name_3`.
    Unnamed nodes are called after what they do.

    Raises:
        DuplicateNameError: two different nodes have one name.
    """
    uses: dict[str, Node] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.name:
            first = uses.setdefault(node.name, node)
            if first is not node and first != node:
                raise DuplicateNameError(
                    f"Two different nodes are called {node.name!r} (kinds: {first.kind}, {node.kind}). "
                    f"Rename one with .named('{node.name}_b')."
                )
        if children := node.children:
            stack.extend(reversed(children))
    return _Resolver(set(uses)).run(root)


class _Resolver:
    def __init__(self, user_names: set[str]) -> None:
        self._taken = user_names | RESERVED
        self._first = set(user_names)
        self._counts: dict[str, int] = {}
        self._origins: dict[str, str] = {}

    def run(self, root: Node) -> Named:
        return Named(self._rename(root), self._origins)

    def _rename(self, node: Node) -> Node:
        name = node.name
        if name in self._first:
            self._first.remove(name)
            self._origins[name] = name
        else:
            name = self._derived(node)
        if children := node.children:
            renamed = tuple(map(self._rename, children))
            if not all(map(is_, renamed, children)):
                node = node.with_children(renamed)
        return node if name == node.name else node.replace(name=name)

    def _derived(self, node: Node) -> str:
        name = self._next(node.name or node.label)
        self._taken.add(name)
        if node.name:
            self._origins[name] = node.name
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
