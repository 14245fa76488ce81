"""Pictures of expressions: Mermaid, SVG, PNG, an HTML page, and an outline in text; none of them needs ADK.

All are pure functions of the IR. `layout` turns a tree into a `Drawing` (see `shapes`), `edge_routing` adds
the data lines, and `images` writes it; the `diagrams` in text need no positions. `styles` has a row for each
node type. Read `to_outline` first, then `to_drawing`. The package may import `inspection` and all below it.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
