"""What a command printed, as a picture; `python -m docgen.terminal` draws that of the landing page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from adk_fluent import Agent, Route
from adk_fluent.expr.base import Expr

CHECK: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "check.svg"
_COLOURS: Final = {"✗": "#ff8f87", "⚠": "#f2c879", "✓": "#8fd6a0", "$": "#9ec3ff"}
_WIDTH: Final = 8.5
_HEIGHT: Final = 20


def faulty() -> Expr[object]:
    """The support desk of the landing page, in which one key is misspelt."""
    triage = Agent("triage").instruct("Which team should help?").writes("team")
    booker = Agent("booker").instruct("Rebook the flight to {destnation}.")
    biller = Agent("biller").instruct("Explain the bill.")
    form = Agent("form").instruct("Where does the customer fly?").writes("destination")
    return triage >> form >> Route("team").eq("booking", booker).otherwise(biller)


def terminal(command: str, printed: str) -> str:
    """An SVG of a terminal in which a command printed this; the first sign of a line colours it."""
    lines = [f"$ {command}", *printed.splitlines()]
    width = round(max(map(len, lines)) * _WIDTH + 40)
    height = len(lines) * _HEIGHT + 60
    rows = "\n".join(
        f'<text x="20" y="{56 + number * _HEIGHT}" fill="{_COLOURS.get(line[:1], "#d8dee9")}" '
        f'xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(lines)
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
    report = faulty().check()
    return terminal("adk-fluent check support.py", "\n".join(map(str, report.errors)))


if __name__ == "__main__":
    CHECK.write_text(check_picture(), encoding="utf-8")
