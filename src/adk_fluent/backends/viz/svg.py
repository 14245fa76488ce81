"""Mermaid text as an SVG image, drawn in this process."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from adk_fluent.errors import ADKFluentError, MissingExtraError


def to_svg(mermaid: str) -> str:
    """Draw Mermaid text; needs the extra `viz`, no browser and no network.

    Raises:
        MissingExtraError: the extra is not installed.
        ADKFluentError: the text is not Mermaid.

    Example:
        >>> to_svg("flowchart TD\\n  a --> b\\n").startswith("<svg")
        True
    """
    try:
        merman: Any = import_module("merman")
    except ImportError as error:
        raise MissingExtraError(
            "Drawing SVG needs the package merman; run: pip install 'adk-fluent[viz]'"
        ) from error
    try:
        return merman.Merman().render_svg(mermaid, None)
    except merman.MermanError as error:
        message = getattr(error, "message", str(error))
        raise ADKFluentError(f"This Mermaid text cannot be drawn: {message}") from error
