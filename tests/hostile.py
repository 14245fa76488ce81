"""Text made to keep a parser busy, and deterministic counts of the work that it makes."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from types import FrameType
from typing import Any, Final

UNITS: Final = (
    *"{}\\$[]()<>\"'`#:.,; \n\t-_|&*~^%@!?=+/a0A1é漢\x1b\u0301",
    *("{a", "{a}", "{{a", "{a}}", "}{", "\\{a}", "${a}", "{ ", "{a?", "{a1} ", "{artifact.", "{app:a}"),
    *("```", "```json", "``` ", "`a", "\x1b[", "\x1b[0", "[[", '{"a":', "1,", "a.b.", "app:"),
    *("a ", "a-", "!-", "--a", "-a", "k.", "%s", "{0}", "\r\n", "&amp;", "<br/>", "]]>", "{" + "a" * 61),
    *("<<<BEGIN_", "<<<END_A"),
)
"""What is repeated: characters that mean something to one of the parsers, and beginnings without an end."""

ENDS: Final = (("", ""), ("{", ""), ("```", ""), ("a", "}"))
"""What stands before and behind it."""


def texts(size: int, times: int = 1, ends: tuple[tuple[str, str], ...] = ENDS) -> Iterator[str]:
    """Each unit, repeated to about this size and then so many times, between each pair of ends."""
    for unit in UNITS:
        for before, behind in ends:
            yield before + unit * max(3, size // len(unit)) * times + behind


def lines_run(call: Callable[[str], object], text: str) -> int:
    """The number of lines of Python that run in a call, in the library and in the code that it calls."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()  # what ends with garbage of others runs lines as well
    sys.settrace(trace)
    try:
        call(text)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


# --- regular expressions --------------------------------------------------------------------------


_Item = tuple[str, Any]
"""One item of a pattern: its kind, and what `_item` makes of the rest."""


class Steps:
    """A backtracking matcher that counts its steps, as Python's own goes through a pattern.

    Python's may take fewer, since it looks ahead for what must come; it takes no more.

    Attributes:
        count: the characters looked at, and the ways tried.
        spans: where it found what.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        parser: Any = import_module("re._parser")  # there is no other parser of patterns
        self._tree = _items(parser.parse(pattern, flags), every=bool(flags & re.DOTALL))
        self.count = 0
        self.spans: list[tuple[int, int]] = []

    def over(self, text: str) -> int:
        """The steps to find every match in a text, and then none; two empty ones are never at one place."""
        self.count, self.spans, start, empty = 0, [], 0, False
        while start <= len(text):
            ends = self._match(self._tree, 0, text, start)
            end = next((each for each in ends if not empty or each > start), None)
            if end is not None:
                self.spans.append((start, end))
            start, empty = (start + 1, False) if end is None else (end, end == start)
        return self.count

    def _match(self, tree: list[_Item], at: int, text: str, position: int) -> Iterator[int]:
        """The positions at which a match of the rest of a pattern may end, in Python's order."""
        for index in range(at, len(tree)):
            kind, argument = tree[index]
            if kind != "ONE":
                for end in self._one(kind, argument, text, position):
                    yield from self._match(tree, index + 1, text, end)
                return
            self.count += 1
            if position == len(text) or not argument(text[position]):
                return
            position += 1
        yield position

    def _one(self, kind: str, argument: Any, text: str, position: int) -> Iterator[int]:
        """The positions at which one item of a pattern may end; it may match in several ways, or nothing."""
        self.count += 1
        match kind:
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, item = argument
                yield from self._repeat(kind, least, most, item, text, position)
            case "SUBPATTERN":
                yield from self._match(argument, 0, text, position)
            case "BRANCH":
                for way in argument:
                    yield from self._match(way, 0, text, position)
            case "ASSERT" | "ASSERT_NOT":
                width, inner = argument
                begin = position - width
                found = begin >= 0 and next(self._match(inner, 0, text, begin), None) is not None
                if found is (kind == "ASSERT"):
                    yield position
            case "AT":
                yield from self._at(argument, text, position)
            case _:
                raise AssertionError(f"no steps are known for {kind}")

    def _repeat(
        self, kind: str, least: int, most: int, item: list[_Item], text: str, position: int
    ) -> Iterator[int]:
        ends = [position]
        if kind == "MIN_REPEAT":
            while True:
                if len(ends) > least:
                    yield ends[-1]
                if len(ends) > most or not self._more(item, ends, text):
                    return
        while len(ends) <= most and self._more(item, ends, text):
            pass
        found = ends[least:]
        for end in found[-1:] if kind == "POSSESSIVE_REPEAT" else reversed(found):
            self.count += 1
            yield end

    def _more(self, item: list[_Item], ends: list[int], text: str) -> bool:
        """Go once more through what is repeated; each item of ours has one way to match at a place."""
        end = next(self._match(item, 0, text, ends[-1]), None)
        if end is None or end == ends[-1]:
            return False
        ends.append(end)
        return True

    def _at(self, where: str, text: str, position: int) -> Iterator[int]:
        if where == "AT_BOUNDARY":
            if re.compile(r"\b").match(text, position):
                yield position
            return
        ends = {"AT_END": {len(text), len(text) - text.endswith("\n")}, "AT_END_STRING": {len(text)}}
        if position in ends.get(where, {0}):
            yield position


def _items(tree: Iterable[Any], *, every: bool) -> list[_Item]:
    """A parsed pattern with what depends on it alone worked out, which is most of the work of a match.

    Args:
        tree: the pattern.
        every: whether a dot also stands for the end of a line.
    """
    return [_item(str(kind), argument, every) for kind, argument in tree]


def _item(kind: str, argument: Any, every: bool) -> _Item:
    match kind:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            return "ONE", cache(partial(_fits, kind, argument, every))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, item = argument
            return kind, (least, int(most), _items(item, every=every))
        case "SUBPATTERN":
            return kind, _items(argument[3], every=every)
        case "BRANCH":
            return kind, [_items(way, every=every) for way in argument[1]]
        case "ASSERT" | "ASSERT_NOT":
            direction, inner = argument
            return kind, (inner.getwidth()[1] if direction < 0 else 0, _items(inner, every=every))
        case _:
            return kind, str(argument)


def _fits(kind: str, argument: Any, every: bool, character: str) -> bool:
    """True if an item that matches one character matches this one."""
    match kind:
        case "LITERAL":
            return ord(character) == argument
        case "NOT_LITERAL":
            return ord(character) != argument
        case "ANY":
            return every or character != "\n"
        case _:
            return _is_in(argument, character)


def _is_in(members: Any, character: str) -> bool:
    negated, found = False, False
    for kind, argument in members:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                found = found or ord(character) == argument
            case "RANGE":
                found = found or argument[0] <= ord(character) <= argument[1]
            case _:
                category = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
                *_, name = str(argument).split("_")
                sign = category[name].upper() if "_NOT_" in str(argument) else category[name]
                found = found or re.fullmatch(sign, character) is not None
    return found is not negated
