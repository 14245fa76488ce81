"""An expression as text: a Mermaid flowchart, and an indented outline for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.visibility import visibility_of
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import Named, edges, resolve_names
from adk_fluent.ir.passage import in_words
from adk_fluent.viz.edge_routing import data_edges
from adk_fluent.viz.styles import EDGE_WORDS, NO_NOTES, TO_THE_USER, Style, branches, style_of

_STYLES: Final[Mapping[Style, str]] = {
    "agent": "fill:#e8f0fe,stroke:#2f5aa8,color:#1b2a41",
    "choice": "fill:#fff4dc,stroke:#8a6414,color:#3d2f12",
    "state": "fill:#eef3ee,stroke:#4f6b4f,color:#22301f",
}
# The border alone shows the visibility of a step, so that it is visible without colour and on any background.
_BORDERS: Final[Mapping[Visibility, str]] = {
    "user": "stroke-width:4px",
    "internal": "stroke-width:1px",
    "zero_cost": "stroke-width:2px,stroke-dasharray:6 4",
}
# Keywords of Mermaid, which cannot be the name of a node.
_KEYWORDS: Final = frozenset(
    {"call", "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph", "href"}
    | {"interpolate", "linkstyle", "style", "subgraph"}
)
_SPECIAL: Final = re.compile(r"[^\w\s.,:;!?()=+*/@$^|~'°×·–—-]")
_PLAIN_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_mermaid(node: Node, *, notes: Mapping[str, str] = NO_NOTES) -> str:
    """Draw a Mermaid flowchart: control as solid lines, state from writer to reader as dashed lines.

    A step whose text the user sees has a thick border and a label; a step without text has a dashed border.
    Equal expressions give equal text. It needs neither ADK nor any other package.

    Args:
        node: the expression's IR, `expr.node`.
        notes: an additional line for some steps, by their unique names, such as their cost.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("a").writes("x") >> Agent("b").instruct("Use {x}.")
        >>> print(to_mermaid(pipeline.node))  # doctest: +ELLIPSIS
        flowchart TD
          a("a")
          b("b<br/>to the user")
          a --> b
          a -. "x" .-> b
          classDef agent ...
    """
    chart = _Chart(resolve_names(node), analyse(node), notes)
    return "\n".join(["flowchart TD", *(f"  {line}" for line in chart.lines())]) + "\n"


class _Chart:
    def __init__(self, named: Named, facts: Facts, notes: Mapping[str, str]) -> None:
        self._named = named
        self._notes = notes
        self._facts = facts
        self._nodes = list(walk(named.root))
        self._visibility = (
            visibility_of(named.root, [node.name for node in self._nodes])
            if facts.is_too_deep  # the facts do not include deeply nested steps
            else facts.visibility
        )
        self._boxes = [node for node in self._nodes if style_of(node).brackets is not None]
        self._ids = _ids(self._nodes)
        self._knots = 0

    def lines(self) -> Iterator[str]:
        yield from self._declare(self._named.root, "", is_root=True)
        yield from self._arrows()
        yield from self._data()
        yield from self._styles()

    def _declare(self, node: Node, indent: str, *, is_root: bool = False) -> Iterator[str]:
        """The lines that declare a node and its children, with a frame around them if it has one."""
        look = style_of(node)
        text = look.label(node)
        named = node.name in self._named.origins
        framed = look.is_framed(node, named=named and not is_root)
        if framed:
            title = f"{node.name}: {text}" if named and text != node.name else text
            yield f"{indent}subgraph {self._ids[node.name]}_frame[{_quoted(title)}]"
        inside = f"{indent}  " if framed else indent
        if look.brackets is not None:
            yield inside + self._box(node, look.head if framed else text, look.brackets)
        for child in node.children:
            yield from self._declare(child, inside)
        if framed:
            yield f"{indent}end"

    def _box(self, node: Node, text: str, brackets: tuple[str, str]) -> str:
        opening, closing = brackets
        words = _quoted(text)
        if node.speaks and self._visibility[node.name] == "user":
            words = f'{words[:-1]}<br/>{TO_THE_USER}"'
        if note := self._notes.get(node.name):
            words = f"{words[:-1]}<br/>{_quoted(note)[1:]}"
        return f"{self._ids[node.name]}{opening}{words}{closing}"

    def _arrows(self) -> Iterator[str]:
        choices = {
            (node.name, inside.name): words
            for node in self._nodes
            for words, branch in branches(node)
            for inside in walk(branch)
        }
        streams = {
            (speaker.name, taker.name): in_words(self._facts.flow.streaming_edge(speaker))
            for speaker, taker in self._facts.flow.edges
        }
        plain: list[tuple[str, str]] = []
        transfers: list[str] = []
        for edge in edges(self._named.root):
            if edge.kind == "transfer":
                transfers.append(f"{self._ids[edge.source]} ==> {self._ids[edge.target]}")
                continue
            words = choices.get((edge.source, edge.target)) if edge.kind == "branch" else None
            words = words or EDGE_WORDS.get(edge.kind) or streams.get((edge.source, edge.target))
            if words:
                yield f"{self._ids[edge.source]} -->|{_quoted(words)}| {self._ids[edge.target]}"
            else:
                plain.append((edge.source, edge.target))
        for sources, targets in _bundles(plain):
            yield from self._join(sources, targets, "-->", "-->", '((" "))')
        yield from transfers

    def _join(
        self, sources: Sequence[str], targets: Sequence[str], arrow: str, bare: str, knot: str
    ) -> Iterator[str]:
        """Lines from every source to every target; through one small node if they would cross."""
        if len(sources) < 2 or len(targets) < 2:
            for source in sources:
                for target in targets:
                    yield f"{self._ids[source]} {arrow} {self._ids[target]}"
            return
        self._knots += 1
        middle = _free(f"knot{self._knots}", set(self._ids.values()))
        yield f"{middle}{knot}"
        yield from (f"{self._ids[source]} {bare} {middle}" for source in sources)
        yield from (f"{middle} {bare} {self._ids[target]}" for target in targets)

    def _data(self) -> Iterator[str]:
        drawn = {node.name for node in self._boxes}
        found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for edge in data_edges(self._facts):
            if edge.target in drawn:  # a loop reads keys, too, but its frame names them
                found.setdefault(edge.carries, []).append((edge.source, edge.target))
        for keys, pairs in found.items():
            words = _quoted(", ".join(keys))
            for sources, targets in _bundles(pairs):
                yield from self._join(sources, targets, f"-. {words} .->", "-.->", f"([{words}])")

    def _styles(self) -> Iterator[str]:
        drawn = self._boxes
        kinds = {node.name: style_of(node).style for node in drawn}
        for looks, chosen in ((_STYLES, kinds), (_BORDERS, self._visibility)):
            for style, look in looks.items():
                members = [self._ids[node.name] for node in drawn if chosen[node.name] == style]
                if members:
                    yield f"classDef {style} {look}"
                    yield f"class {','.join(members)} {style}"


def _ids(nodes: list[Node]) -> dict[str, str]:
    """An id for each node: its name if Mermaid accepts it, else a number."""
    plain = {
        node.name for node in nodes if _PLAIN_ID.fullmatch(node.name) and node.name.lower() not in _KEYWORDS
    }
    found: dict[str, str] = {}
    for index, node in enumerate(nodes):
        found[node.name] = node.name if node.name in plain else _free(f"node{index}", plain)
    return found


def _bundles(pairs: Iterable[tuple[str, str]]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Group pairs into sources that have the same targets."""
    targets: dict[str, list[str]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    sources: dict[tuple[str, ...], list[str]] = {}
    for source, reached in targets.items():
        sources.setdefault(tuple(reached), []).append(source)
    return [(group, reached) for reached, group in sources.items()]


def _free(base: str, taken: set[str]) -> str:
    while base in taken:
        base += "_"
    return base


def _quoted(text: str) -> str:
    """Escape a text so that Mermaid shows it unchanged."""
    flat = " ".join(text.split())
    return f'"{_SPECIAL.sub(lambda found: f"#{ord(found[0])};", flat)}"'


# --- the outline ----------------------------------------------------------------------------------


def to_outline(node: Node) -> str:
    """Draw the outline of lines and signs; the keys that a step writes are behind its arrow.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> print(to_outline((Agent("a").writes("x") >> (Agent("b") | Agent("c"))).node))
        ● a → x
        │
        ∥ at the same time
        ├─ ● b
        └─ ● c
    """
    return "\n".join(_outline_lines(resolve_names(node).root))


def _outline_lines(node: Node) -> list[str]:
    look = style_of(node)
    if not look.sign:  # such a node shows its steps only
        lines: list[str] = []
        for child in node.children:
            lines += [*(["│"] if lines else []), *_outline_lines(child)]
        return lines
    written = ", ".join(sorted(node.writes_keys))
    head = f"{look.sign} {look.label(node)}" + (f" → {written}" if written else "")
    return [head, *_children_lines(node)]


def _children_lines(node: Node) -> list[str]:
    found = branches(node)
    if not found:
        return _with_branches([("", child) for child in node.children])
    width = max(len(words) for words, _ in found)
    return _with_branches([(f"{words:<{width}}  ", child) for words, child in found])


def _with_branches(children: Sequence[tuple[str, Node]]) -> list[str]:
    lines: list[str] = []
    for index, (words, child) in enumerate(children):
        last = index == len(children) - 1
        first, *rest = _outline_lines(child)
        lines.append(f"{'└─' if last else '├─'} {words}{first}")
        lines += [f"{' ' if last else '│'}  {' ' * len(words)}{line}" for line in rest]
    return lines
