"""The parts of a picture: boxes, frames, lines and labels, with their positions in pixels; and the canvas."""

from __future__ import annotations

import textwrap
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from adk_fluent.ir.annotations import Visibility
from adk_fluent.viz.styles import Shape, Style

LineKind = Literal["control", "transfer", "data"]
Point = tuple[float, float]

TITLE: Final = 13.5
"""Font size of a box's title in pixels; the title is bold."""
SMALL: Final = 11.5
"""Font size of all other text in pixels."""
LEADING: Final = 1.35
"""Height of a line of text, as a multiple of the font size."""
MARGIN: Final = 18.0
"""Margin in pixels around the whole picture."""


@dataclass(frozen=True, slots=True)
class Box:
    """The box of a step, or the head of a frame.

    Attributes:
        name: the step's unique name.
        shape: the outline of the box.
        style: the colours of the box.
        visibility: the visibility of the step's text; it decides the border.
        title: the lines of the title.
        captions: the lines below the title: its keys, and a note if the user sees its text.
        x: left edge.
        y: top edge.
    """

    name: str
    shape: Shape
    style: Style
    visibility: Visibility
    title: tuple[str, ...]
    captions: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The border around the steps of a composite; its head is the box of the same name."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line between steps.

    Attributes:
        path: the line's course, as an SVG path.
        arrow: True if the line ends in an arrowhead.
        source: the step at which a data line or a transfer starts; empty for other control.
        target: the step at which it ends; empty for other control.
        keys: the state keys and artifacts that a data line carries.
    """

    kind: LineKind
    path: str
    arrow: bool
    source: str = ""
    target: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """Text on a line, centred at a point."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """A whole picture and its bounding rectangle."""

    left: float
    top: float
    width: float
    height: float
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]


def wrapped(text: str, columns: int, most: int = 6) -> tuple[str, ...]:
    """Break a text into at most `most` lines of at most `columns` characters; an ellipsis replaces the rest.

    >>> wrapped("Refund over the limit", 12)
    ('Refund over', 'the limit')
    """
    shown = " ".join(text.split())[: (columns + 1) * (most + 1)]  # textwrap is slow on long texts
    lines = textwrap.wrap(shown, columns, max_lines=most, placeholder=" …")
    return tuple(lines) or ("",)


class Rectangle(NamedTuple):
    """An area that lines must not cross."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Rectangle) -> bool:
        """True if another rectangle lies inside this one."""
        return self.left <= other.left and other.right <= self.right and self.top <= other.top <= self.bottom


class Canvas:
    """Collect the boxes, frames, lines and labels that blocks draw."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.frames: dict[str, Frame] = {}
        self.lines: list[Line] = []
        self.labels: list[Label] = []
        self.uprights: list[Rectangle] = []
        """The vertical parts of control lines; data lines must not cover them."""
        self._left, self._top, self._right, self._bottom = 0.0, 0.0, 0.0, 0.0

    def reach(self, x: float, y: float) -> None:
        """Extend the picture to include a point."""
        self._left, self._right = min(self._left, x), max(self._right, x)
        self._top, self._bottom = min(self._top, y), max(self._bottom, y)

    def box(self, box: Box) -> None:
        """Draw the box of a step."""
        self.boxes[box.name] = box
        self.reach(box.x, box.y)
        self.reach(box.x + box.width, box.y + box.height)

    def frame(self, frame: Frame) -> None:
        """Draw a frame."""
        self.frames[frame.name] = frame
        self.reach(frame.x, frame.y)
        self.reach(frame.x + frame.width, frame.y + frame.height)

    def control(self, *points: Point, arrow: bool = False) -> None:
        """Draw a control line through these points."""
        corners = [point for i, point in enumerate(points) if i == 0 or point != points[i - 1]]
        if len(corners) < 2:
            return
        for x, y in corners:
            self.reach(x, y)
        for (x, y), (other_x, other_y) in pairwise(corners):
            if x == other_x:
                self.uprights.append(Rectangle(x, min(y, other_y), x, max(y, other_y)))
        self.lines.append(Line("control", "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in corners), arrow))

    def label(self, text: str, x: float, y: float) -> None:
        """Draw text on a line."""
        half = text_width(text, SMALL) / 2
        self.labels.append(Label(text, x, y))
        self.reach(x - half, y - SMALL)
        self.reach(x + half, y)

    def drawing(self) -> Drawing:
        """Return everything as a frozen `Drawing`."""
        return Drawing(
            self._left - MARGIN,
            self._top - MARGIN,
            self._right - self._left + 2 * MARGIN,
            self._bottom - self._top + 2 * MARGIN,
            tuple(self.boxes.values()),
            tuple(self.frames.values()),
            tuple(self.lines),
            tuple(self.labels),
        )


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """The width of a text in pixels, in the widest font that a picture may use (DejaVu Sans)."""
    return size * sum(map(_advance, text)) * (1.12 if bold else 1.0)


_ADVANCES: Final = {
    character: width
    for width, characters in [
        (0.32, "' ,.IJijl"),
        (0.41, "-/:;\\f|!()[]rt"),
        (0.55, '"*_`sz?Lc'),
        (0.65, "FPTYaekovxy$0123456789EKSbdghnpqu{}"),
        (0.76, "ABCRVXZDGHNU"),
        (0.86, "&OQw#+<=>M^~"),
        (1.0, "%m@W"),
    ]
    for character in characters
}


def _advance(character: str) -> float:
    """The width of a character at font size 1."""
    known = _ADVANCES.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.8
