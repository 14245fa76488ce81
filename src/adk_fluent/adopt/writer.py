"""`Writer`: what writes one module of source, and what it knows of the native agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NoReturn, cast

from adk_fluent.adopt.values import written
from adk_fluent.adopt.writing import Chain, NameTable, SourceCall, Unwritable, assignment, flat, text
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.adk_objects import object_path
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen
from adk_fluent.ir.nodes import ArtifactNode, CaptureNode, GateNode, TapNode, TransferNode, TransformNode

_INLINE: Final = (TransformNode, CaptureNode, GateNode, TapNode, TransferNode, ArtifactNode)
"""What stands where it is used, instead of in a variable."""


@dataclass
class Writer:
    """Writes the nodes of one module.

    Attributes:
        write: writes a node, with its annotations; see `steps.write`.
        copies: whether a lambda is written as it stands in its file; else it is the native agent's.
        names: what it imports, and its variables.
        lines: assignments, children before parents.
        native: what stays native, and why.
        left_out: what is not written, and why.
        plugins: the path of an app, and its plugins.
    """

    write: Callable[[Writer, Node], Chain]
    copies: bool
    names: NameTable = field(default_factory=NameTable)
    lines: list[str] = field(default_factory=list[str])
    native: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])
    _known: dict[Node, str] = field(default_factory=dict[Node, str])
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    _agents: dict[str, Any] = field(default_factory=dict[str, Any])
    plugins: tuple[str, list[object]] | None = None

    def learn(self, agent: Any, path: str | None = None) -> None:
        """Note how each native agent can be referred to."""
        path = object_path(agent) or path
        if path is not None:
            self._paths[id(agent)] = path
        self._agents.setdefault(str(getattr(agent, "name", "")), agent)
        for index, child in enumerate(getattr(agent, "sub_agents", ())):
            self.learn(child, None if path is None else f"{path}.sub_agents[{index}]")

    def learn_app(self, app: Any) -> str | None:
        """Note how the plugins of an app can be referred to; gives the path of the app."""
        path = object_path(app)
        if path is not None:
            self.plugins = (path, list(app.plugins))
        return path

    def step(self, node: Node) -> str:
        """A node where it is used: in its place, or as a variable."""
        if isinstance(node, _INLINE):
            return flat(self.chain(node))
        if node not in self._known:
            chain = self.chain(node)
            name = self.names.free(node.name or node.label)
            self.lines.append(assignment(name, chain))
            self._known[node] = name
        return self._known[node]

    def chain(self, node: Node) -> Chain:
        """Write a node as an expression, with its annotations."""
        return self.write(self, node)

    def refuse(self, node: Node, what: str) -> NoReturn:
        """Say that something of a node cannot be written."""
        raise ArgumentError(f"to_source() cannot write {what}, of {node.name or node.label!r}.")

    def only(self, node: Node, *handled: str) -> None:
        """Refuse a node with a field that would be lost."""
        for name in node.given:
            if name not in handled and name not in ("name", "annotations"):
                self.refuse(node, name)

    def named(self, node: Node) -> tuple[SourceCall, ...]:
        """The method that gives it its name."""
        return (SourceCall(".named", (text(node.name),)),) if node.name else ()

    def home(self, node: Node) -> tuple[Any, str | None]:
        """The native agent that a node was read of, and how it can be referred to."""
        native = self._agents.get(node.name)
        return native, self._paths.get(id(native))

    def path(self, native: object) -> str | None:
        """How a native agent can be referred to."""
        return self._paths.get(id(native)) or object_path(native)

    def value(self, value: Any) -> str:
        """A value as source; raises `Unwritable`."""
        return written(value, self)

    def of(self, node: Node, where: str, value: Any) -> str:
        """A value of a node: written down, imported, or taken from the native agent."""
        native, home = self.home(node)
        try:
            return self.value(value)
        except Unwritable:
            pass
        found = None if home is None else _found(native, where, value)
        if home is None or found is None:
            raise ArgumentError(
                f"to_source() cannot refer to {where} of {node.name or node.label!r}, {value!r:.60}: give "
                "it, or the agent, a name at the top level of a module."
            )
        what = getattr(value, "__name__", None) or type(value).__name__
        self.native.append(f"{where} of {node.name}: {what} has no name that could be imported.")
        return f"{self.names.ref(home)}.{found}"


def given_in_order(value: Frozen) -> Iterator[tuple[str, Any]]:
    """The fields of a value that differ from their defaults, in the order of its class."""
    return (
        (field.name, value.given[field.name])
        for field in fields(cast(Any, value))
        if field.name in value.given
    )


def _found(native: object, where: str, value: object) -> str | None:
    """How a field of a native agent leads to a value: a callback may be one, or one of a list."""
    name, _, rest = where.partition("[")
    held: Any = native
    for part in name.split("."):
        held = getattr(held, part, None)
    if not rest:
        return name if held is value else None
    index = int(rest.partition("]")[0])
    many = isinstance(held, list | tuple)
    items: list[Any] = list(cast("list[Any]", held)) if many else [held]
    for way, get in _WAYS.items():
        if index < len(items) and get(items[index]) is value:
            return f"{name}[{index}]{way}" if isinstance(held, list) else name
    return None


_WAYS: Final[Mapping[str, Callable[[Any], object]]] = {
    "": lambda item: item,
    ".func": lambda item: getattr(item, "func", None),
}
