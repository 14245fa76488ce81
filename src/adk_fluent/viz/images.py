"""Images: a drawing as SVG, and the SVG as PNG.

An SVG is one text that needs no other file, with light and dark colours. A PNG needs the extra `viz`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape as escaped
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any, Final, get_args

from adk_fluent.errors import MissingExtraError, install
from adk_fluent.ir.base import Node
from adk_fluent.viz.layout import to_drawing
from adk_fluent.viz.shapes import LEADING, SMALL, TITLE, Box, Drawing, Frame, Line
from adk_fluent.viz.styles import NO_NOTES, Style

FONT_PACKAGE: Final = "ttf_opensans"
"""The package with the fonts of pictures, so that they look the same on every machine."""
MOST_PIXELS: Final = 12_000_000
"""Most pixels of an image; a larger picture is scaled down."""

FONTS: Final = '"Open Sans", "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif'

LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1b2430",
    "faint": "#566374",
    "line": "#5a6675",
    "data": "#0f7b6c",
    "agent": "#e8f0fe",
    "agent-edge": "#3f6bbf",
    "choice": "#fff4dc",
    "choice-edge": "#a97a1f",
    "state": "#eef3ee",
    "state-edge": "#5f7d5f",
    "frame": "#f3f4f7",
    "frame-edge": "#8b94a3",
}
DARK: Final = {
    "paper": "#14181f",
    "ink": "#e8ecf2",
    "faint": "#a9b4c2",
    "line": "#98a3b3",
    "data": "#4cc3ae",
    "agent": "#1d2c47",
    "agent-edge": "#7ea4ee",
    "choice": "#3a2f16",
    "choice-edge": "#d9ab52",
    "state": "#20301f",
    "state-edge": "#8fb58f",
    "frame": "#1e242e",
    "frame-edge": "#6c7888",
}
"""The colours of each theme, by their use in a picture."""


def to_svg(node: Node, *, theme: str = "auto", notes: Mapping[str, str] = NO_NOTES) -> str:
    """Draw a tree as an SVG image; it needs neither ADK nor any other package.

    Steps whose text the user sees have a thick border and a label; steps without text have a dashed border.
    Solid lines are control; dashed lines lead from the writer of a state key to its reader.

    Args:
        node: the expression's IR, `expr.node`.
        theme: `light`, `dark`, or `auto` (the default) for the viewer's preference.
        notes: an additional line for some steps, by their unique names, such as their cost.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> to_svg(Agent("a").node).startswith("<svg")
        True
    """
    return render(to_drawing(node, notes), css=styles(theme))


def styles(theme: str = "auto") -> str:
    """The style sheet of a picture."""
    if theme == "auto":
        return f"{_sheet(LIGHT)}@media (prefers-color-scheme: dark) {{\n{_colours(DARK)}}}\n"
    return _sheet(DARK if theme == "dark" else LIGHT)


def _sheet(colours: dict[str, str]) -> str:
    return f"""\
svg text {{ font-family: {FONTS}; font-size: {SMALL}px; text-anchor: middle; }}
.title {{ font-size: {TITLE}px; font-weight: 600; }}
.shape {{ stroke-width: 1.3px; }}
.user .shape {{ stroke-width: 3.2px; }}
.zero_cost .shape {{ stroke-dasharray: 5 3; }}
.frame {{ fill: none; stroke-width: 1.2px; }}
.head .shape {{ stroke-dasharray: none; stroke-width: 1.2px; }}
.line {{ fill: none; stroke-width: 1.5px; }}
.transfer {{ stroke-width: 2.4px; }}
.data {{ stroke-dasharray: 5 4; stroke-width: 1.3px; }}
.label {{ paint-order: stroke; stroke-width: 5px; stroke-linejoin: round; }}
{_colours(colours)}"""


def _colours(colours: dict[str, str]) -> str:
    sets = "".join(
        f".{look} .shape {{ fill: {colours[look]}; stroke: {colours[f'{look}-edge']}; }}\n"
        for look in get_args(Style)
    )
    return f"""\
.paper {{ fill: {colours["paper"]}; }}
.title {{ fill: {colours["ink"]}; }}
.caption {{ fill: {colours["faint"]}; }}
.label {{ fill: {colours["faint"]}; stroke: {colours["paper"]}; }}
.border {{ fill: none; stroke: {colours["frame-edge"]}; }}
.line {{ stroke: {colours["line"]}; }}
.head .shape {{ fill: {colours["frame"]}; stroke: {colours["frame-edge"]}; }}
.head-control {{ fill: {colours["line"]}; }}
.data {{ stroke: {colours["data"]}; }}
.head-data {{ fill: {colours["data"]}; }}
{sets}"""


def escape(text: str) -> str:
    """Escape a text for XML and HTML; characters that they must not contain are replaced."""
    return escaped(_UNSPEAKABLE.sub("\ufffd", text))


_UNSPEAKABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def render(drawing: Drawing, *, css: str = "", badges: Mapping[str, str] | None = None) -> str:
    """Write a drawing as SVG text.

    Args:
        drawing: the drawing.
        css: the style sheet to include; empty if the page around the image has one.
        badges: the severity of the worst finding for some steps. If it is given, every step is a button that
            the keyboard can reach, and these steps have a badge.
    """
    left, top = f"{drawing.left:.0f}", f"{drawing.top:.0f}"
    width, height = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{left} {top} {width} {height}">',
        *([f"<style>\n{css}</style>"] if css else []),
        f"<defs>{_arrow('control')}{_arrow('data')}</defs>",
        f'<rect class="paper" x="{left}" y="{top}" width="{width}" height="{height}"/>',
        *map(_frame, drawing.frames),
        *map(_line, sorted(drawing.lines, key=lambda line: line.kind != "data")),
        *(
            f'<text class="label" x="{label.x:.1f}" y="{label.y:.1f}">{escape(label.text)}</text>'
            for label in drawing.labels
        ),
    ]
    for box in drawing.boxes:
        lines += _step(box, badges)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arrow(kind: str) -> str:
    return (
        f'<marker id="arrow-{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="head-{kind}" d="M0,1L10,5L0,9z"/></marker>'
    )


def _frame(frame: Frame) -> str:
    return (
        f'<rect class="frame border" x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}" '
        f'height="{frame.height:.1f}" rx="6"/>'
    )


def _line(line: Line) -> str:
    head = f' marker-end="url(#arrow-{"data" if line.kind == "data" else "control"})"' if line.arrow else ""
    if not line.source:
        return f'<path class="line control" d="{line.path}"{head}/>'
    ends = f'data-source="{escape(line.source)}" data-target="{escape(line.target)}"'
    classes = "line data" if line.kind == "data" else "line control transfer"
    title = f"<title>{escape(', '.join(line.keys))}</title>" if line.keys else ""
    return f'<path class="{classes}" {ends} d="{line.path}"{head}>{title}</path>'


def _step(box: Box, badges: Mapping[str, str] | None) -> Iterator[str]:
    look = "head" if box.shape == "header" else box.style
    button = "" if badges is None else ' tabindex="0" role="button" aria-pressed="false"'
    words = f'aria-label="{escape(_spoken(box))}"'
    yield f'<g class="step {look} {box.visibility}" data-name="{escape(box.name)}"{button} {words}>'
    yield _outline(box)
    x, y = box.x + box.width / 2, box.y + 7
    for kind, size, texts in (("title", TITLE, box.title), ("caption", SMALL, box.captions)):
        for text in texts:
            y += size * LEADING
            yield f'<text class="{kind}" x="{x:.1f}" y="{y - size * 0.33:.1f}">{escape(text)}</text>'
    if badges is not None and (found := badges.get(box.name)):
        yield _badge(box, found)
    yield "</g>"


def _badge(box: Box, severity: str) -> str:
    x, y = box.x + box.width - 4, box.y + 4
    if severity == "info":
        return f'<g class="badge info"><circle cx="{x:.1f}" cy="{y:.1f}" r="5"/></g>'
    return (
        f'<g class="badge {severity}"><circle cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        f'<text x="{x:.1f}" y="{y + 4.3:.1f}">!</text></g>'
    )


def _spoken(box: Box) -> str:
    return ", ".join([" ".join(box.title), *box.captions])


def _outline(box: Box) -> str:
    x, y, width, height = box.x, box.y, box.width, box.height
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    match box.shape:
        case "hexagon":
            cut = height * 0.25
            corners = [
                (x + cut, y),
                (x + width - cut, y),
                (x + width, y + height / 2),
                (x + width - cut, y + height),
                (x + cut, y + height),
                (x, y + height / 2),
            ]
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
            return f'<polygon class="shape" points="{points}"/>'
        case "remote":
            bars = f"M{x + 5:.1f},{y:.1f}v{height:.1f}M{x + width - 5:.1f},{y:.1f}v{height:.1f}"
            return f'<rect class="shape" {place}/><path class="shape" d="{bars}"/>'
        case shape:
            return f'<rect class="shape" {place} rx="{ ({"round": 9, "header": 6}.get(shape, 2)) }"/>'


# --- PNG -------------------------------------------------------------------------------------------


def to_png(node: Node, *, notes: Mapping[str, str] = NO_NOTES) -> bytes:
    """Draw a tree as a PNG image in light colours; it needs the extra `viz`, and no network.

    Args:
        node: the expression's IR, `expr.node`.
        notes: an additional line for some steps, by their unique names, such as their cost.

    Raises:
        MissingExtraError: the extra is not installed.
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.
    """
    try:
        resvg: Any = import_module("resvg_py")
    except ImportError as error:
        raise _missing("resvg-py") from error
    svg = to_svg(node, theme="light", notes=notes)
    width, height = (float(part) for part in svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[2:])
    return resvg.svg_to_bytes(
        svg_string=svg,
        zoom=min(2.0, sqrt(MOST_PIXELS / (width * height))),
        font_dirs=[str(_fonts())],
        font_family="Open Sans",
        sans_serif_family="Open Sans",
    )


def _fonts() -> Path:
    found = find_spec(FONT_PACKAGE)
    if found is None or found.origin is None:
        raise _missing("ttf-opensans")
    return Path(found.origin).parent / "ttf"


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(f"Drawing PNG needs the package {package}; run: {install('viz')}")
