"""Layout: the positions of the boxes, frames and control lines of a picture.

Every node becomes a `Block`, a rectangle that control enters at the top and leaves at the bottom, on one
vertical axis. A sequence stacks blocks, branches are placed side by side, and other composites are a frame
around their block. A block first has a size only; its parent then places it. Since each block stays inside
its own rectangle, boxes never overlap, for any expression. A general graph layout would have to search for
such positions, and would lose the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.visibility import infer_visibility
from adk_fluent.ir import execution
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import Named, resolve_names
from adk_fluent.ir.passage import in_words
from adk_fluent.viz.edge_routing import add_links
from adk_fluent.viz.shapes import (
    LEADING,
    SMALL,
    TITLE,
    Box,
    Canvas,
    Drawing,
    Frame,
    text_width,
    wrapped,
)
from adk_fluent.viz.styles import EDGE_WORDS, NO_NOTES, TO_THE_USER, Shape, branches, style_of

GAP: Final = 40.0
"""Distance in pixels between consecutive steps."""
SIDE: Final = 32.0
"""Distance in pixels between branches."""
PAD: Final = 18.0
"""Distance in pixels between a frame and its content."""
MOST_ACROSS: Final = 1120.0
"""Greatest width of a row of branches in pixels; a wider one is split into several rows."""


def to_drawing(node: Node, notes: Mapping[str, str] = NO_NOTES) -> Drawing:
    """Lay out the picture of a tree.

    Args:
        node: the root of the tree.
        notes: an additional line for some steps, by their unique names.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.
    """
    named = resolve_names(node)
    layout = _Layout(named, infer_visibility(node), notes)
    block = layout.block(named.root, is_root=True)
    canvas = Canvas()
    block.place(canvas, 0.0, 0.0)
    add_links(canvas, named.root, analyse(node))
    return canvas.drawing()


Place = Callable[[Canvas, float, float], None]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the picture with a size, but without a position.

    Attributes:
        width: width in pixels.
        height: height in pixels.
        axis: distance between its left edge and the vertical axis on which control enters and leaves.
        place: function that draws it on a canvas, with its top left corner at a given point.
        goes_on: True if control leaves it at the bottom.
        arrow: True if the line that enters it ends there, and so needs an arrowhead.
    """

    width: float
    height: float
    axis: float
    place: Place
    goes_on: bool = True
    arrow: bool = True


def _nothing(canvas: Canvas, x: float, y: float) -> None:
    """Draw nothing: the `place` of `PASSING`."""


PASSING: Final = Block(26.0, 0.0, 13.0, _nothing, arrow=False)
"""The free way beside the branches of a route that has no `otherwise`."""


class _Layout:
    """Convert nodes into blocks."""

    def __init__(
        self, named: Named, visibility: Mapping[str, Visibility], notes: Mapping[str, str] = NO_NOTES
    ) -> None:
        self._notes = notes
        self._origins = named.origins
        self._visibility = visibility

    def block(self, node: Node, *, is_root: bool = False) -> Block:
        """The block of a node with all its children."""
        look = style_of(node)
        text = look.label(node)
        named = node.name in self._origins
        inside = [self.block(child) for child in node.children]
        if look.is_framed(node, named=named and not is_root):
            title = f"{node.name}: {text}" if named and text != node.name else text
            return self._framed(node, title, _body(node, inside))
        if look.shape == "header":
            return _body(node, inside)
        box = self._step(node, text)
        return stacked([box, _fork(_exits_of(node, inside))], gap=0.0) if inside else box

    def _box(self, node: Node, shape: Shape, title: tuple[str, ...], captions: tuple[str, ...]) -> Box:
        wide = [text_width(line, TITLE, bold=True) for line in title]
        wide += [text_width(line, SMALL) for line in captions]
        high = LEADING * (TITLE * len(title) + SMALL * len(captions)) + 14
        room = 24 + (high * 0.5 if shape == "hexagon" else 10 if shape == "remote" else 0)
        style, seen = style_of(node).style, self._visibility[node.name]
        return Box(node.name, shape, style, seen, title, captions, 0, 0, max(74.0, max(wide) + room), high)

    def _step(self, node: Node, text: str) -> Block:
        box = self._box(node, style_of(node).shape, wrapped(text, 30), self._captions(node))
        onward = not isinstance(node.runs, execution.HandOver) or node.runs.condition is not None
        return Block(box.width, box.height, box.width / 2, _placing(box), goes_on=onward)

    def _captions(self, node: Node) -> tuple[str, ...]:
        lines: list[str] = []
        titled = style_of(node).style == "choice"  # their titles name the keys that they read
        for verb, keys in (("reads", () if titled else node.reads_keys), ("writes", node.writes_keys)):
            if keys:
                lines += wrapped(f"{verb} {', '.join(sorted(keys))}", 34, 3)
        if node.speaks and self._visibility[node.name] == "user":
            lines.append(TO_THE_USER)
        if streamed := in_words(node.annotations.edge):
            lines.append(f"answers {streamed}")
        if note := self._notes.get(node.name):
            lines += wrapped(note, 34, 3)
        return tuple(lines)

    def _framed(self, node: Node, title: str, body: Block) -> Block:
        written = sorted(node.writes_keys)
        captions = wrapped(f"writes {', '.join(written)}", 34, 3) if written else ()
        head = self._box(node, "header", wrapped(title, 44), captions)
        axis = max(body.axis + PAD, head.width / 2)
        width = axis + max(body.width - body.axis + PAD, head.width / 2)
        above = 22.0 if body.arrow else 4.0
        height = head.height + above + body.height + PAD

        def place(canvas: Canvas, x: float, y: float) -> None:
            canvas.frame(Frame(node.name, x, y, width, height))
            _placing(head, width)(canvas, x, y)
            top = y + head.height + above
            canvas.control((x + axis, y + head.height), (x + axis, top), arrow=body.arrow)
            body.place(canvas, x + axis - body.axis, top)
            if body.goes_on:
                canvas.control((x + axis, top + body.height), (x + axis, y + height))

        # A transfer leaves only the innermost sequence or loop, so the steps after that one still run.
        onward = body.goes_on or isinstance(node.runs, execution.STEP_BY_STEP)
        return Block(width, height, axis, place, goes_on=onward)


def _placing(box: Box, width: float | None = None) -> Place:
    def place(canvas: Canvas, x: float, y: float) -> None:
        canvas.box(replace(box, x=x, y=y, width=box.width if width is None else width))

    return place


def _body(node: Node, inside: list[Block]) -> Block:
    """Arrange the blocks of a composite's children by the way in which it runs them."""
    match node.runs:
        case execution.Repeated():
            return _returning(stacked(inside))
        case execution.InParallel() | execution.RaceToSuccess():
            return _fork([("", block) for block in inside])
        case execution.FirstSuccess():
            return _fork(
                [(EDGE_WORDS["else"] if number else "", block) for number, block in enumerate(inside)]
            )
        case _:
            return stacked(inside)


def _exits_of(node: Node, inside: list[Block]) -> list[tuple[str, Block]]:
    """The blocks that may run after a step with children, each with the label of the line to it."""
    if isinstance(node.runs, execution.FirstMatch):
        ways = [(words, block) for (words, _), block in zip(branches(node), inside, strict=True)]
        return ways if node.runs.default else [*ways, ("else", PASSING)]
    words = EDGE_WORDS["delegate" if isinstance(node.runs, execution.ByModel) else "else"]
    return [*((words, block) for block in inside), ("", PASSING)]


def stacked(blocks: Sequence[Block], gap: float = GAP) -> Block:
    """Stack blocks below each other on one axis."""
    axis = max((block.axis for block in blocks), default=0.0)
    right = max((block.width - block.axis for block in blocks), default=0.0)
    height = sum(block.height for block in blocks) + gap * (len(blocks) - 1)

    def place(canvas: Canvas, x: float, y: float) -> None:
        for number, block in enumerate(blocks):
            if number and blocks[number - 1].goes_on:
                canvas.control((x + axis, y - gap), (x + axis, y), arrow=block.arrow)
            block.place(canvas, x + axis - block.axis, y)
            y += block.height + gap

    onward = all(block.goes_on for block in blocks)
    return Block(axis + right, max(height, 0.0), axis, place, onward, bool(blocks) and blocks[0].arrow)


def _returning(body: Block) -> Block:
    """Add a line from the block's end back to its start, on its left side."""
    margin, lead = 20.0, 18.0
    axis = body.axis + margin

    def place(canvas: Canvas, x: float, y: float) -> None:
        top, bottom = y + lead, y + lead + body.height
        canvas.control((x + axis, y), (x + axis, top), arrow=body.arrow)
        body.place(canvas, x + margin, top)
        back = (x, bottom + 10), (x, y + 4), (x + axis, y + 4)
        canvas.control((x + axis, bottom), (x + axis, bottom + 10), *back, arrow=True)

    return Block(body.width + margin, lead + body.height + 10, axis, place, body.goes_on, arrow=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """Branches side by side, each with the label of the line to it and its left edge."""

    branches: Sequence[tuple[tuple[str, ...], Block, float]]
    width: float
    lead: float

    @property
    def height(self) -> float:
        return self.lead + max(block.height for _, block, _ in self.branches) + 14

    @property
    def axes(self) -> list[float]:
        return [left + block.axis for _, block, left in self.branches]


BUS: Final = 12.0
"""Distance in pixels between the top of a fork and the horizontal line that leads to its branches."""


def _row(ways: Sequence[tuple[str, Block]]) -> _Row:
    found: list[tuple[tuple[str, ...], Block, float]] = []
    edge = 0.0
    for words, block in ways:
        lines = wrapped(words, 22, 3) if words else ()
        half = max((text_width(line, SMALL) for line in lines), default=0.0) / 2
        edge += max(0.0, half - block.axis)
        found.append((lines, block, edge))
        edge += max(block.width, block.axis + half) + SIDE
    most = max(len(lines) for lines, _, _ in found)
    return _Row(found, edge - SIDE, BUS + (22 if most == 0 else 24 + most * SMALL * LEADING))


def _fork(ways: Sequence[tuple[str, Block]]) -> Block:
    """Arrange branches side by side, in several rows if they are too wide; control splits and joins again."""
    total = sum(block.width + SIDE for _, block in ways)
    per_row = ceil(len(ways) / ceil(total / MOST_ACROSS))
    rows = [_row(ways[start : start + per_row]) for start in range(0, len(ways), per_row)]
    margin = 0.0 if len(rows) == 1 else SIDE / 2
    first = rows[0].axes
    axis = margin + (first[0] + first[-1]) / 2
    width = max(row.width for row in rows) + 2 * margin
    height = sum(row.height for row in rows) + GAP / 2 * (len(rows) - 1)
    onward = any(block.goes_on for _, block in ways)

    def place(canvas: Canvas, x: float, y: float) -> None:
        inlet, outlet, end = (x, y + BUS), x + width, y + height
        canvas.control((x + axis, y), (x + axis, y + BUS))
        top = y
        for row in rows:
            shared = top + BUS
            across = [x + margin + place for place in row.axes]
            ends = [*across, x + axis if row is rows[0] else x, *([x] if margin else [])]
            canvas.control((min(ends), shared), (max(ends), shared))
            bottom = top + row.height
            leaving = _branches(canvas, row, x + margin, top, bottom)
            ends = [*leaving, *([x + axis] if row is rows[-1] else []), *([outlet] if margin else [])]
            if leaving or (row is rows[-1] and onward):
                canvas.control((min(ends), bottom), (max(ends), bottom))
            top = bottom + GAP / 2
        if margin:
            canvas.control(inlet, (x, top - GAP / 2 - rows[-1].height + BUS))
            canvas.control((outlet, y + rows[0].height), (outlet, end))

    return Block(width, height, axis, place, onward, arrow=False)


def _branches(canvas: Canvas, row: _Row, x: float, top: float, bottom: float) -> list[float]:
    """Draw a row's branches; return the x positions at which control leaves them."""
    leaving: list[float] = []
    for lines, block, left in row.branches:
        at, start = x + left + block.axis, top + row.lead
        canvas.control((at, top + BUS), (at, start), arrow=block.arrow)
        for number, line in enumerate(lines):
            canvas.label(line, at, top + BUS + 15 + number * SMALL * LEADING)
        block.place(canvas, x + left, start)
        if block.goes_on:
            canvas.control((at, start + block.height), (at, bottom))
            leaving.append(at)
    return leaving
