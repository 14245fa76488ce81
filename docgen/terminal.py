"""The pictures of the landing page, one of them a terminal: `python -m docgen.terminal` draws both."""

from __future__ import annotations

from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Final

from adk_fluent import Agent, C, Route
from adk_fluent.expr.base import Expr

PICTURES: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures"
CHECK: Final = PICTURES / "check.svg"
DESK: Final = PICTURES / "desk.svg"
_COLOURS: Final = {"✗": "#ff8f87", "⚠": "#f2c879", "✓": "#8fd6a0", "$": "#9ec3ff"}
_WIDTH: Final = 8.5
_HEIGHT: Final = 20


_COLUMNS: Final = 44
"""So narrow that the words can be read on a phone."""


def desk(key: str) -> Expr[object]:
    """The support desk of the landing page; one agent reads `key`, which another writes as `destination`."""
    triage = Agent("triage").instruct("Which team should help?").writes("team")
    form = Agent("form").instruct("Where to?").writes("destination")
    booker = Agent("booker").instruct(f"Rebook the flight to {{{key}}}.").context(C.user_only())
    biller = Agent("biller").instruct("Explain the bill.")
    return triage >> form >> Route("team").eq("booking", booker).otherwise(biller)


def terminal(command: str, printed: str) -> str:
    """An SVG of a terminal in which a command printed this; the first sign of a line colours it."""
    lines: list[tuple[str, str]] = []
    for line in [f"$ {command}", *printed.splitlines()]:
        colour = _COLOURS.get(line[:1], "#d8dee9")
        lines += [(row, colour) for row in wrap(line, _COLUMNS, subsequent_indent="  ")]
    width = round(max(len(line) for line, _ in lines) * _WIDTH + 40)
    height = len(lines) * _HEIGHT + 60
    rows = "\n".join(
        f'<text x="20" y="{56 + number * _HEIGHT}" fill="{colour}" xml:space="preserve">{escape(line)}</text>'
        for number, (line, colour) in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{20 + 18 * n}" cy="18" r="5" fill="{colour}"/>'
        for n, colour in enumerate(("#ff8f87", "#f2c879", "#8fd6a0"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13.5">\n'
        f"<title>{escape(command)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="#1b2a41"/>\n{dots}\n{rows}\n</svg>\n'
    )


def check_picture() -> str:
    """The picture of the landing page: the check finds the misspelt key."""
    report = desk("destnation").check()
    return terminal("adk-fluent check support.py", "\n".join(map(str, report.errors)))


if __name__ == "__main__":
    CHECK.write_text(check_picture(), encoding="utf-8")
    DESK.write_text(desk("destination").visualize("svg"), encoding="utf-8")
