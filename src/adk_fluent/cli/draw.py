"""`adk-fluent viz`: a pipeline as a picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from adk_fluent import viz
from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.look import inside
from adk_fluent.ir.base import Node

FORMATS: Final[Mapping[str, Callable[[Node], str | bytes]]] = {
    ".mmd": lambda node: viz.to_mermaid(node),
    ".md": lambda node: f"```mermaid\n{viz.to_mermaid(node)}```\n",
    ".svg": lambda node: viz.to_svg(node),
    ".png": lambda node: viz.to_png(node),
    ".html": lambda node: viz.to_html(node),
    ".txt": lambda node: f"{viz.to_outline(node)}\n",
}
"""How a picture is made, by the ending of its file; only what makes it is imported."""


def draw(target: str, output: Path | None) -> int:
    """Print Mermaid text, or write a picture in the format that the file's ending names.

    Raises:
        UsageError: the ending is none of `FORMATS`, or TARGET cannot be loaded.
        MissingExtraError: `.png` without the extra `viz`.
    """
    if output is not None and output.suffix not in FORMATS:
        raise UsageError(f"viz cannot write {output.name!r}; end it with one of {', '.join(FORMATS)}.")
    node = inside(target).to_ir()
    if output is None:
        sys.stdout.write(viz.to_mermaid(node))
        return 0
    picture = FORMATS[output.suffix](node)
    try:
        output.write_bytes(picture.encode() if isinstance(picture, str) else picture)
    except OSError as error:
        raise UsageError(f"Cannot write {str(output)!r}: {error.strerror}.") from error
    print(f"wrote {output}")
    return 0
