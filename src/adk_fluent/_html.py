"""HTML for notebooks: tables and text, escaped and without scripts, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

LONGEST: Final = 2_000
"""Most characters of a cell; a model's answer may be long, and the notebook file stores the whole table."""

# Transparent grey is visible on white and on black. `_PLAIN` stops notebooks from typesetting `$...$`.
_BOX: Final = "border:1px solid rgba(128,128,128,.4);padding:.3em .6em;text-align:left;vertical-align:top"
_CELL: Final = f"{_BOX};white-space:pre-wrap;overflow-wrap:anywhere;max-width:60em"
_HEAD: Final = f"{_BOX};font-weight:bold;background:rgba(128,128,128,.15)"
_PLAIN: Final = "tex2jax_ignore mathjax_ignore"


def text(value: object, longest: int = LONGEST) -> str:
    """Escape a value as text, and cut it after `longest` characters.

    >>> text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    from html import escape  # imported late: it loads a table of all entities, and few programs show HTML

    shown = str(value)
    return escape(shown if len(shown) <= longest else f"{shown[: longest - 1]}…")


def title(words: str) -> str:
    """A line above a table."""
    return f'<div class="{_PLAIN}" style="font-weight:bold;margin:.8em 0 .3em">{text(words)}</div>'


def preformatted(words: str) -> str:
    """A block of text that keeps its line breaks and spaces."""
    shown = text(words, 10 * LONGEST)
    return f'<pre class="{_PLAIN}" style="text-align:left;white-space:pre-wrap">{shown}</pre>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain values; empty cells stay empty.

    >>> table(["key", "value"], [["x", "<1"]]).count("<td")
    2
    """
    top = "".join(f'<th style="{_HEAD}">{text(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{text(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<table class="{_PLAIN}" style="border-collapse:collapse">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """A table of labels and values, one pair a row; rows with an empty value are left out."""
    cells = "".join(
        f'<tr><th style="{_HEAD}">{text(label)}</th><td style="{_CELL}">{text(value)}</td></tr>'
        for label, value in rows
        if value not in ("", None)
    )
    return f'<table class="{_PLAIN}" style="border-collapse:collapse"><tbody>{cells}</tbody></table>'
