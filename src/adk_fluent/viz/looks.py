"""How each node type looks, in every kind of picture: the one table that a new node type gets a row in."""

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
"""The outline of a box in an image; a header is the head of a frame."""
Style = Literal["agent", "choice", "state"]
"""The colours of a box: who speaks, what decides by the state, what changes or looks at it."""


def _name(node: Node) -> str:
    return node.name or node.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a node type is drawn and called.

    Attributes:
        label: what a picture writes into or above a node.
        kind: how a reader knows this kind of step.
        sign: what stands before it in an outline; empty for one that has no line of its own.
        shape: its outline in an image; a header if it is a frame, or nothing but its children.
        brackets: what gives its shape in Mermaid; `None` if it has no box there.
        style: its colours.
        head: what its box in Mermaid says where a frame around it bears the label.
        frame: whether it has a frame around its children: always, or if the user named it.
        about: what else is worth knowing of one, beside its name.
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
        """Whether a node has a frame; `named` says that the user gave it a name that should show."""
        return self.frame == "always" or (self.frame == "named" and named)


def look_of(node: Node) -> Look:
    """How a node looks; a type that is not in the table looks as what runs its children in the same way.

    Raises:
        UnsupportedNodeError: a node that is no step, and so has no place in a picture.
    """
    if type(node) not in LOOKS:
        return replace(_BY_EXECUTION.get(type(node.runs), _FRAME), kind=node.kind)
    look = LOOKS[type(node)]
    if look is None:
        raise UnsupportedNodeError(
            f"{node.name or node.kind!r}: a {node.kind} node ({type(node).__name__}) is no step and cannot "
            "be drawn by itself; draw the agent that holds it."
        )
    return look


def about(node: Node) -> str:
    """What a page says of a step beside its name and kind."""
    look = look_of(node)
    if look.about is not None:
        return look.about(node)
    text = look.label(node)
    return "" if text == node.name else text


def branches(node: Node) -> list[tuple[str, Node]]:
    """The children of a step that chooses by the state, with what leads to each."""
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
"""What an edge of control says, by its kind; see `adk_fluent.ir.graph.Edge`."""
NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})
"""Nothing to add to any step."""
TO_THE_USER: Final = "to the user"
"""What stands in the box of an agent whose words the user gets."""


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


def _model(node: nodes.AgentNode) -> str:
    given = cast("str | object", node.given.get("model", ""))
    model = given if isinstance(given, str) else str(getattr(given, "model", type(given).__name__))
    described = node.description if isinstance(node.description, str) else ""
    return " — ".join(filter(None, [model, described]))


def _loop(node: nodes.LoopNode) -> str:
    rounds = "repeat" if node.max_iterations >= nodes.NO_LIMIT else f"repeat up to {node.max_iterations}×"
    return rounds if node.until is None else f"{rounds} until {condition(node.until)}"


_MERGES: Final[Mapping[str, str]] = {"first_complete": "at the same time, until one completes"}
"""What a fan-out says that is not done when all of its branches are."""


def _capture(node: nodes.CaptureNode) -> str:
    what = "the last message" if node.turns is None else f"the last {node.turns} turns"
    return f"keep {what}"


def _transfer(node: Node) -> str:
    runs = node.runs
    assert isinstance(runs, execution.HandOver)
    when = "" if runs.condition is None else f" if {condition(runs.condition)}"
    return f"hand over to {runs.target}{when}"


_HANDS_OVER: Final = Look(
    label=_transfer, kind="hands over", sign="»", shape="hexagon", brackets=(">", "]"), style="choice"
)


LOOKS: Final[Mapping[type[Node], Look | None]] = {
    nodes.AgentNode: Look(
        kind="agent", sign="●", shape="round", brackets=("(", ")"), style="agent", about=_model
    ),
    nodes.RemoteAgentNode: Look(
        kind="remote agent",
        sign="○",
        shape="remote",
        brackets=("[[", "]]"),
        style="agent",
        about=lambda node: node.endpoint,
    ),
    nodes.RouteNode: Look(
        label=lambda node: node.key or "which?",
        kind="route",
        sign="◆",
        shape="hexagon",
        brackets=("{", "}"),
        style="choice",
    ),
    nodes.GateNode: Look(
        label=lambda node: f"{node.message}, if {condition(node.predicate)}",
        kind="gate: a person approves",
        sign="■",
        shape="hexagon",
        brackets=("{{", "}}"),
        style="choice",
    ),
    nodes.TransferNode: _HANDS_OVER,
    nodes.TransformNode: Look(kind="state step", sign="ƒ", shape="sharp", brackets=("[/", "/]")),
    nodes.CaptureNode: Look(
        label=_capture, kind="keeps text in state", sign="ƒ", shape="sharp", brackets=("[/", "/]")
    ),
    nodes.TapNode: Look(kind="tap: a function looks on", sign="ƒ", shape="sharp", brackets=("([", "])")),
    nodes.ArtifactNode: Look(
        label=lambda node: node.operation.wording,
        kind="artifact step",
        sign="▤",
        shape="sharp",
        brackets=("[(", ")]"),
    ),
    nodes.SequenceNode: Look(kind="one after another", frame="named"),
    nodes.ParallelNode: Look(
        label=lambda node: _MERGES.get(node.merge, "at the same time"),
        kind="parallel branches",
        sign="∥",
        frame="always",
    ),
    nodes.RaceNode: Look(label=lambda node: "first to succeed", kind="race", sign="∥", frame="always"),
    nodes.FallbackNode: Look(
        label=lambda node: "until one succeeds", kind="fallback", sign="?", frame="always"
    ),
    nodes.LoopNode: Look(label=_loop, kind="loop", sign="↻", frame="always"),
    nodes.MapOverNode: Look(
        label=lambda node: f"for each item of {node.list_key}, {node.concurrency} at a time",
        kind="once per item",
        sign="≡",
        brackets=("[/", "\\]"),
        style="choice",
        head="each",
        frame="always",
    ),
    nodes.TimeoutNode: Look(
        label=lambda node: f"within {node.seconds:g} s", kind="time limit", sign="◷", frame="always"
    ),
    nodes.NativeNode: Look(
        kind="native agent, as it was given",
        sign="●",
        shape="round",
        brackets=("(", ")"),
        style="agent",
        about=lambda node: type(node.native.value).__name__,
    ),
    nodes.KnownNativeNode: Look(
        label=lambda node: f"{type(node.native.value).__name__}, as it was given",
        kind="native, as it was given",
        sign="▢",
        frame="always",
    ),
    nodes.ModelSelectorNode: None,
}
"""Each node type; `None` for one that is no step."""

_FRAME: Final = Look(kind="", sign="□", frame="always")
_CHOOSES: Final = Look(kind="", shape="hexagon", brackets=("{", "}"), style="choice")
_ANSWERS: Final = Look(kind="", sign="●", shape="round", brackets=("(", ")"), style="agent")
_BY_EXECUTION: Final[Mapping[type[execution.Execution], Look]] = {
    execution.Leaf: Look(kind="", sign="ƒ", shape="sharp", brackets=("[/", "/]")),
    execution.HandOver: _HANDS_OVER,
    execution.InOrder: replace(_FRAME, sign="", frame="named"),
    execution.FirstMatch: replace(_CHOOSES, sign="◆"),
    execution.PerItem: replace(_CHOOSES, sign="≡", shape="header", head="each", frame="always"),
    execution.ByModel: _ANSWERS,
    execution.OnFailure: _ANSWERS,
}
"""Looks of types that are not in the table, if they are not a frame around their children."""
