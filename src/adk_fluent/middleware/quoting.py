"""Where a text holds JSON or a program, so that a value put there stays a value.

A model answers in JSON, also inside a Markdown fence, inside a sentence, or as text within a JSON string.
A value with a quote would end the string around it if it were put there as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r'`{3}\w{0,11}|["\\{}\[\],:`\s]|[^"\\{}\[\],:`\s]+')
_FENCE: Final = "```"
_PROGRAMS: Final = frozenset({"```python", "```tool_code"})
"""Beginnings of blocks that code executors of ADK run."""

_PLAIN: Final = re.compile(r"[\w @.+:/-]*", re.ASCII)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def is_plain(value: str) -> bool:
    """Whether a value means the same in prose, in a JSON string and in a string of a program.

    >>> is_plain("ann@example.org"), is_plain('Ann "Annie" Lee')
    (True, False)
    """
    return _PLAIN.fullmatch(value) is not None


class JsonPosition:
    """The place that a text has reached, which is read from left to right.

    Example:
        >>> place = JsonPosition()
        >>> place.read('{"name": "')
        >>> place.quoted('Ann "Annie" Lee')
        'Ann \\\\"Annie\\\\" Lee'
    """

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._in_program = False

    def read(self, text: str) -> None:
        """Move to the end of some more text."""
        for token in _TOKEN.findall(text):
            if token.startswith(_FENCE) and not self._levels[0].inside:
                self._in_program = not self._in_program and token in _PROGRAMS
            self._take(0, token)

    def quoted(self, value: str) -> str | None:
        """A value as it is written in this place; `None` where it cannot be written."""
        if is_plain(value):
            return value
        if self._in_program or any(level.escape for level in self._levels):
            return None
        for _ in self._levels[1:]:
            value = json.dumps(value, ensure_ascii=False)[1:-1]
        return value

    def _take(self, depth: int, token: str) -> None:
        level = self._levels[depth]
        said = level.take(token)
        if not level.inside:
            del self._levels[depth + 1 :]
        elif len(self._levels) == depth + 1:
            self._levels.append(_Level())
        for inner in _TOKEN.findall(said):
            self._take(depth + 1, inner)


class _Level:
    """A text that may hold JSON: whether its end is inside of a JSON string."""

    __slots__ = ("before", "escape", "inside", "nesting")

    def __init__(self) -> None:
        self.inside = False
        self.escape = ""
        self.nesting = 0
        self.before = ""

    def take(self, token: str) -> str:
        """Go on by a token; what it says inside of the string, without its escapes."""
        if self.escape:
            return self._unescaped(token)
        if self.inside:
            if token == "\\":
                self.escape = token
            elif token == '"':
                self.inside, self.before = False, token
            else:
                return token
            return ""
        if token == '"' and (not self.before or (self.nesting and self.before in "{[,:")):
            self.inside = True
        elif token in {"{", "["}:
            self.nesting += 1
        elif token in {"}", "]"} and self.nesting:
            self.nesting -= 1
        if not token.isspace():
            self.before = token[-1]
        return ""

    def _unescaped(self, token: str) -> str:
        self.escape += token
        length = 6 if self.escape[1] == "u" else 2
        if len(self.escape) < length:
            return ""
        escape, rest, self.escape = self.escape[:length], self.escape[length:], ""
        if length == 2:
            return _ESCAPES.get(escape[1], escape[1]) + rest
        try:
            return chr(int(escape[2:], 16)) + rest
        except ValueError:
            return escape + rest


def escaped_strings(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each JSON string in a text that has an escape in it, quotes included.

    >>> text = '{"a": "plain", "b": "two\\\\nlines"}'
    >>> [text[start:end] for start, end in escaped_strings(text)]
    ['"two\\\\nlines"']
    """
    if "\\" not in text or '"' not in text:
        return
    level, start, escapes = _Level(), 0, False
    for match in _TOKEN.finditer(text):
        was_inside = level.inside
        level.take(match[0])
        if level.inside and not was_inside:
            start, escapes = match.start(), False
        elif was_inside and not level.inside and escapes:
            yield start, match.end()
        escapes = escapes or bool(level.escape)
