"""A picture as a PNG image, drawn in this process."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any, Final

from adk_fluent.errors import MissingExtraError, install
from adk_fluent.ir.base import Node
from adk_fluent.viz.looks import NO_NOTES
from adk_fluent.viz.svg import to_svg

FONTS: Final = "ttf_opensans"
"""The package with the fonts of pictures, so that they look the same on every machine."""
MOST_PIXELS: Final = 12_000_000
"""Most pixels of an image; a larger picture is scaled down."""


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
    found = find_spec(FONTS)
    if found is None or found.origin is None:
        raise _missing("ttf-opensans")
    return Path(found.origin).parent / "ttf"


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(f"Drawing PNG needs the package {package}; run: {install('viz')}")
