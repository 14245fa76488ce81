"""The words that pictures use for nodes, tests and edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import access, function_name
from adk_fluent.ir.matching import Match, Predicate
from adk_fluent.ir.nodes import (
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
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

TO_THE_USER: Final = "to the user"
"""What stands in the box of an agent whose words the user gets."""


def label(node: Node) -> str:
    """What a picture writes into or above a node.

    Raises:
        UnsupportedNodeError: a node that is no step, and so has no place in a picture.
    """
    words = LABELS.get(type(node))
    if words is None:
        raise UnsupportedNodeError(
            f"{node.name or node.kind!r}: a {node.kind} node ({type(node).__name__}) is no step and cannot "
            "be drawn by itself; draw the agent that holds it."
        )
    return words(node)


def condition(test: Predicate, key: str | None = None) -> str:
    """A predicate in a few words; a comparison with `key`, which is named elsewhere, shows its value alone.

    >>> condition(Match("intent", "eq", "billing"), "intent")
    'billing'
    >>> condition(Match("score", "gte", 8))
    'score >= 8'
    """
    if isinstance(test, Match):
        if test.key == key:
            return str(test.value) if test.op == "eq" else str(test).removeprefix(f"{key} ")
        if test.op == "truthy":
            return test.key if test.value else f"not {test.key}"
        return str(test)
    name = function_name(test, "a test")
    reads = sorted(access(test).reads)
    return f"{name}({', '.join(reads)})" if reads else name


def branches(node: RouteNode) -> list[tuple[str, Node]]:
    """The branches of a route with what leads to each."""
    found = [(condition(test, node.key), branch) for test, branch in node.rules]
    return found if node.default is None else [*found, ("otherwise", node.default)]


def _name(node: Node) -> str:
    return node.name or node.label


def _loop(node: LoopNode) -> str:
    rounds = f"repeat up to {node.max_iterations}×" if node.max_iterations else "repeat"
    return rounds if node.until is None else f"{rounds} until {condition(node.until)}"


def _map(node: MapOverNode) -> str:
    return f"for each item of {node.list_key}, {node.concurrency} at a time"


def _capture(node: CaptureNode) -> str:
    what = "the last message" if node.turns is None else f"the last {node.turns} turns"
    return f"keep {what}"


def _transfer(node: TransferNode) -> str:
    when = "" if node.condition is None else f" if {condition(node.condition)}"
    return f"hand over to {node.target}{when}"


def _artifact(node: ArtifactNode) -> str:
    return f"{node.operation} {node.filename}".strip()


LABELS: Final[Mapping[type[Node], Callable[[Any], str]]] = {
    AgentNode: _name,
    SequenceNode: _name,
    ParallelNode: lambda node: "at the same time",
    LoopNode: _loop,
    TransformNode: _name,
    RouteNode: lambda node: node.key or "which?",
    FallbackNode: lambda node: "until one succeeds",
    RaceNode: lambda node: "first to succeed",
    GateNode: lambda node: f"{node.message}, if {condition(node.predicate)}",
    TapNode: _name,
    MapOverNode: _map,
    TimeoutNode: lambda node: f"within {node.seconds:g} s",
    TransferNode: _transfer,
    CaptureNode: _capture,
    RemoteAgentNode: _name,
    ArtifactNode: _artifact,
}
"""How each node type is called."""

REFUSED_TYPES: Final[frozenset[type[Node]]] = frozenset({ModelSelectorNode})
"""Node types that no picture shows."""
