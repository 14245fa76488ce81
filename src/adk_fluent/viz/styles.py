"""Styles: the label, shape and colours of each node type, for all kinds of pictures, in one table.

A new node type needs one row in `STYLES`. Without a row, it looks like a type that runs its children in the
same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir import execution, nodes
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import access, function_name
from adk_fluent.ir.predicates import Match, Predicate

Shape = Literal["round", "sharp", "hexagon", "remote", "header"]
"""The outline of a box in an image; `header` is the head of a frame."""
Style = Literal["agent", "choice", "state"]
"""The colours of a box: for agents, for steps that choose by the state, and for steps that use the state."""


def _name(node: Node) -> str:
    return node.name or node.label


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStyle:
    """The style of a node type.

    Attributes:
        label: function that returns the text in the box, or above the frame, of a node.
        kind: the name of this kind of step, for readers.
        sign: the sign before the step in an outline; empty if the step has no separate line there.
        shape: the outline in an image; `header` for a frame, and for a node that shows only its children.
        brackets: the brackets that give the shape in Mermaid; `None` if the node has no box there.
        style: the colours.
        head: the text of the box in Mermaid if a frame around it has the label.
        frame: the condition for a frame around the children: always, or only if the user named the node.
        about: function that returns a further description for the page.
    """

    label: Callable[[Any], str] = _name
    kind: str
    sign: str = ""
    shape: Shape = "header"
    brackets: tuple[str, str] | None = None
    style: Style = "state"
    head: str = ""
    frame: Literal["always", "named", "never"] = "never"
    about: Callable[[Any], str] | None = None

    def is_framed(self, node: Node, *, named: bool) -> bool:
        """True if a node has a frame; `named` means that the user gave it a name to show."""
        return self.frame == "always" or (self.frame == "named" and named)


def style_of(node: Node) -> NodeStyle:
    """The style of a node; a type without a row looks like the types that run children in the same way.

    Raises:
        UnsupportedNodeError: the node is not a step, so it cannot be in a picture.
    """
    if type(node) not in STYLES:
        return replace(_BY_EXECUTION.get(type(node.runs), _FRAME), kind=node.kind)
    look = STYLES[type(node)]
    if look is None:
        raise UnsupportedNodeError(
            f"{node.name or node.kind!r}: a {node.kind} node ({type(node).__name__}) is no step and cannot "
            "be drawn by itself; draw the agent that holds it."
        )
    return look


def about(node: Node) -> str:
    """The description of a step on the page, beside its name and kind."""
    look = style_of(node)
    if look.about is not None:
        return look.about(node)
    text = look.label(node)
    return "" if text == node.name else text


def branches(node: Node) -> list[tuple[str, Node]]:
    """The children of a step that chooses by the state, each with the label of the line to it."""
    runs = node.runs
    if not isinstance(runs, execution.FirstMatch):
        return []
    words = [condition(test, runs.key) for test in runs.tests]
    return list(zip([*words, *["otherwise"] * runs.default], node.children, strict=True))


EDGE_WORDS: Final[Mapping[str, str]] = {
    "back": "again",
    "else": "on failure",
    "delegate": "may hand over",
}
"""The label of a control line, by the kind of its `adk_fluent.ir.graph.Edge`."""
NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})
"""The default of `notes`: no additional line for any step."""
TO_THE_USER: Final = "to the user"
"""The caption of an agent whose text the user sees."""


def condition(test: Predicate, key: str | None = None) -> str:
    """Describe a predicate in a few words; a comparison of `key`, which the caller shows, is only the value.

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


def _model(node: nodes.AgentNode) -> str:
    given = cast("str | object", node.given.get("model", ""))
    model = given if isinstance(given, str) else str(getattr(given, "model", type(given).__name__))
    described = node.description if isinstance(node.description, str) else ""
    return " — ".join(filter(None, [model, described]))


def _loop(node: nodes.LoopNode) -> str:
    rounds = "repeat" if node.max_iterations >= nodes.NO_LIMIT else f"repeat up to {node.max_iterations}×"
    return rounds if node.until is None else f"{rounds} until {condition(node.until)}"


_MERGES: Final[Mapping[str, str]] = {"first_complete": "at the same time, until one completes"}
"""The label of a fan-out that does not wait for all its branches."""


def _capture(node: nodes.CaptureNode) -> str:
    what = "the last message" if node.turns is None else f"the last {node.turns} turns"
    return f"keep {what}"


def _transfer(node: Node) -> str:
    runs = node.runs
    assert isinstance(runs, execution.HandOver)
    when = "" if runs.condition is None else f" if {condition(runs.condition)}"
    return f"hand over to {runs.target}{when}"


_HANDS_OVER: Final = NodeStyle(
    label=_transfer, kind="hands over", sign="»", shape="hexagon", brackets=(">", "]"), style="choice"
)


STYLES: Final[Mapping[type[Node], NodeStyle | None]] = {
    nodes.AgentNode: NodeStyle(
        kind="agent", sign="●", shape="round", brackets=("(", ")"), style="agent", about=_model
    ),
    nodes.RemoteAgentNode: NodeStyle(
        kind="remote agent",
        sign="○",
        shape="remote",
        brackets=("[[", "]]"),
        style="agent",
        about=lambda node: node.endpoint,
    ),
    nodes.RouteNode: NodeStyle(
        label=lambda node: node.key or "which?",
        kind="route",
        sign="◆",
        shape="hexagon",
        brackets=("{", "}"),
        style="choice",
    ),
    nodes.GateNode: NodeStyle(
        label=lambda node: f"{node.message}, if {condition(node.predicate)}",
        kind="gate: a person approves",
        sign="■",
        shape="hexagon",
        brackets=("{{", "}}"),
        style="choice",
    ),
    nodes.TransferNode: _HANDS_OVER,
    nodes.TransformNode: NodeStyle(kind="state step", sign="ƒ", shape="sharp", brackets=("[/", "/]")),
    nodes.CaptureNode: NodeStyle(
        label=_capture, kind="keeps text in state", sign="ƒ", shape="sharp", brackets=("[/", "/]")
    ),
    nodes.TapNode: NodeStyle(kind="tap: a function looks on", sign="ƒ", shape="sharp", brackets=("([", "])")),
    nodes.ArtifactNode: NodeStyle(
        label=lambda node: node.operation.wording,
        kind="artifact step",
        sign="▤",
        shape="sharp",
        brackets=("[(", ")]"),
    ),
    nodes.SequenceNode: NodeStyle(kind="one after another", frame="named"),
    nodes.ParallelNode: NodeStyle(
        label=lambda node: _MERGES.get(node.merge, "at the same time"),
        kind="parallel branches",
        sign="∥",
        frame="always",
    ),
    nodes.RaceNode: NodeStyle(label=lambda node: "first to succeed", kind="race", sign="∥", frame="always"),
    nodes.FallbackNode: NodeStyle(
        label=lambda node: "until one succeeds", kind="fallback", sign="?", frame="always"
    ),
    nodes.LoopNode: NodeStyle(label=_loop, kind="loop", sign="↻", frame="always"),
    nodes.MapOverNode: NodeStyle(
        label=lambda node: f"for each item of {node.list_key}, {node.concurrency} at a time",
        kind="once per item",
        sign="≡",
        brackets=("[/", "\\]"),
        style="choice",
        head="each",
        frame="always",
    ),
    nodes.TimeoutNode: NodeStyle(
        label=lambda node: f"within {node.seconds:g} s", kind="time limit", sign="◷", frame="always"
    ),
    nodes.NativeNode: NodeStyle(
        kind="native agent, as it was given",
        sign="●",
        shape="round",
        brackets=("(", ")"),
        style="agent",
        about=lambda node: type(node.native.value).__name__,
    ),
    nodes.KnownNativeNode: NodeStyle(
        label=lambda node: f"{type(node.native.value).__name__}, as it was given",
        kind="native, as it was given",
        sign="▢",
        frame="always",
    ),
    nodes.ModelSelectorNode: None,
}
"""The style of each node type; `None` for a type that is not a step."""

_FRAME: Final = NodeStyle(kind="", sign="□", frame="always")
_CHOOSES: Final = NodeStyle(kind="", shape="hexagon", brackets=("{", "}"), style="choice")
_ANSWERS: Final = NodeStyle(kind="", sign="●", shape="round", brackets=("(", ")"), style="agent")
_BY_EXECUTION: Final[Mapping[type[execution.Execution], NodeStyle]] = {
    execution.Leaf: NodeStyle(kind="", sign="ƒ", shape="sharp", brackets=("[/", "/]")),
    execution.HandOver: _HANDS_OVER,
    execution.InOrder: replace(_FRAME, sign="", frame="named"),
    execution.FirstMatch: replace(_CHOOSES, sign="◆"),
    execution.PerItem: replace(_CHOOSES, sign="≡", shape="header", head="each", frame="always"),
    execution.ByModel: _ANSWERS,
    execution.OnFailure: _ANSWERS,
}
"""Styles of other types by how they run their children; types without an entry have a frame."""
