"""Where the command line writes: wrapped and coloured on a terminal, plain text anywhere else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["", "agent", "faint", "strong", "good", "bad", "user"]

_RICH: Final[dict[Style, str]] = {
    "": "",
    "agent": "bold cyan",
    "faint": "bright_black",
    "strong": "bold",
    "good": "green",
    "bad": "bold red",
    "user": "bold",
}
WIDEST: Final = 100
"""Columns that text fills at most; longer lines are hard to read."""

# A model may write anything; what would steer the terminal is left out.
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Paper:
    """Writes text piece by piece, as it comes, keeping words whole.

    Args:
        stream: where to write.
        width: columns to wrap at, `None` to leave lines as they are.
        put: writes one styled piece.
    """

    def __init__(self, stream: TextIO, width: int | None, put: Callable[[str, Style], None]) -> None:
        self._stream = stream
        self.width = width
        self._put = put
        self._column = 0
        self._word = self._gap = ""
        self._indent = 0

    # --- whole lines ------------------------------------------------------------------------------

    def line(self, *pieces: str | tuple[str, Style]) -> None:
        """One line of text, each piece with its style."""
        self.end()
        for piece in pieces:
            text, style = piece if isinstance(piece, tuple) else (piece, "")
            self._put(_CONTROL.sub("", text), style)
        self._put("\n", "")
        self._stream.flush()

    def paragraph(self, text: str, style: Style = "", indent: int = 0) -> None:
        """Whole text, wrapped."""
        self.end()
        self.say(text, style, indent)
        self.end(style)

    # --- text as it comes -------------------------------------------------------------------------

    def say(self, text: str, style: Style = "", indent: int = 0) -> None:
        """The next piece of running text; a word is written once it is whole."""
        self._indent = indent
        for token in re.findall(r"\n|[^\S\n]+|\S+", _CONTROL.sub("", text)):
            if token == "\n":
                self._flush_word(style)
                self._newline()
            elif token.isspace():
                self._flush_word(style)
                self._gap = token.expandtabs(4)
            else:
                self._word += token
        self._stream.flush()

    def end(self, style: Style = "") -> None:
        """End the line that running text stands on, if any."""
        self._flush_word(style)
        if self._column:
            self._newline()
        self._stream.flush()

    def _flush_word(self, style: Style) -> None:
        if not self._word:
            return
        word, gap = self._word, self._gap
        self._word = self._gap = ""
        wide = self._column + len(gap) + len(word)
        if self.width is not None and self._column > self._indent and wide > self.width:
            self._newline()
            gap = ""
        if not self._column:
            gap = " " * self._indent + gap
        self._emit(gap + word, style)

    def _emit(self, text: str, style: Style) -> None:
        self._put(text, style)
        self._column += len(text)

    def _newline(self) -> None:
        self._put("\n", "")
        self._column, self._gap = 0, ""


def paper(stream: TextIO) -> Paper:
    """Paper for this stream: `rich` draws on a terminal when it is installed."""
    if not stream.isatty():
        return Paper(stream, None, lambda text, style: _write(stream, text))
    width = min(shutil.get_terminal_size().columns, WIDEST)
    console = _console(stream)
    if console is None:
        return Paper(stream, width, lambda text, style: _write(stream, text))

    def put(text: str, style: Style) -> None:
        console.print(
            text, style=_RICH[style], end="", markup=False, highlight=False, soft_wrap=True, emoji=False
        )

    return Paper(stream, width, put)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)


def _console(stream: TextIO) -> Console | None:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
