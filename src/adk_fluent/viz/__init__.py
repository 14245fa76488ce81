"""Pictures of expressions: Mermaid, SVG, PNG, an HTML page, and an outline in text; none of them needs ADK.

All are pure functions of the IR. `layout` turns a tree into a `Drawing` (see `shapes`), `edge_routing` adds
the data lines, and `images` writes it; the `diagrams` in text need no positions. `styles` has a row for each
node type. Read `to_outline` first, then `to_drawing`. The package may import `inspection` and all below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.viz.diagrams import to_mermaid, to_outline
    from adk_fluent.viz.images import to_png, to_svg
    from adk_fluent.viz.page import to_html

__all__ = ["to_html", "to_mermaid", "to_outline", "to_png", "to_svg"]

__getattr__: Callable[[str], object] = lazy(__name__)
