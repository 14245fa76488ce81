"""The constants that the source of a project formats into its texts."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from adk_fluent.ir.constants import SCOPES, Formatted, Piece, Resolve, bindings, constant, pieces

_bindings: Final = lru_cache(maxsize=1024)(bindings)
_SPACE: Final = re.compile(r"\s+")
_WORDS_BESIDE: Final = 2
_GAP: Final = r"""(?:\W|\\[nt]|[fFrR]{1,2}(?=["']))+"""
"""What may stand between two words of a text in source: spaces, ends of lines and of literals."""
_OTHERS: Final = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class FormattedText(NamedTuple):
    """A constant that the source of a project formats into a text, as a separate word.

    Attributes:
        constant: the constant and its text.
        where: file and line.
    """

    constant: Formatted
    where: str


class _Making(NamedTuple):
    node: Any
    scopes: tuple[ast.AST, ...]


def formatted_in(text: str, words: tuple[str, ...]) -> Iterator[FormattedText]:
    """The constants among `words` that the source of the project certainly formats into a text.

    The source is read and not run. Only constants count: names that are bound once, attributes of classes and
    members of enumerations. The source is that of all imported modules without libraries.
    """
    flat = _flat(text)
    if not (places := _places(flat, words)):
        return
    for file, names in _files():
        source = _source(file)
        if not any(place.longest in source and place.pattern.search(source) for place in places):
            continue
        makings, own = _makings(file)
        for making in makings:
            resolve = _resolver(making.scopes, own, names)
            for found in _constants(pieces(making.node, resolve), flat):
                if found.text in words:
                    yield FormattedText(found, f"{Path(file).name}, line {making.node.lineno}")


def _flat(text: str) -> str:
    return _SPACE.sub(lambda match: "\n" if "\n" in match[0] else " ", text).strip()


class _Place(NamedTuple):
    """One side of a word in a text: source that formats the word there has these words beside it.

    Few files have them, so the others are not parsed, however many modules a project has.
    """

    longest: str
    pattern: re.Pattern[str]


@lru_cache(maxsize=256)
def _places(flat: str, words: tuple[str, ...]) -> tuple[_Place, ...]:
    found: dict[str, _Place] = {}
    for word in words:
        for match in re.finditer(rf"\b{re.escape(word)}\b", flat):
            before = re.findall(r"\w+", flat[: match.start()])[-_WORDS_BESIDE:]
            after = re.findall(r"\w+", flat[match.end() :])[:_WORDS_BESIDE]
            for beside, pattern in (
                (before, rf"\b{_GAP.join(before)}\W{{0,8}}(?:\{{|%|[\"'])"),
                (after, rf"(?:[}}s\"'])\W{{0,8}}{_GAP.join(after)}\b"),
            ):
                if beside:
                    found[pattern] = _Place(max(beside, key=len), re.compile(pattern))
    return tuple(found.values())


@lru_cache(maxsize=4096)
def _source(file: str) -> str:
    return "".join(linecache.getlines(file))


def _files() -> list[tuple[str, Mapping[str, Any]]]:
    """The files of imported modules without libraries, each with the names of its module."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, module in list(sys.modules.items()):
        file: object = getattr(module, "__file__", None)
        if isinstance(file, str) and not name.startswith("adk_fluent") and not file.startswith(_OTHERS):
            found.setdefault(file, module.__dict__)
    return sorted(found.items(), key=lambda one: one[0])


@lru_cache(maxsize=256)
def _makings(file: str) -> tuple[list[_Making], Mapping[str, ast.expr | None]]:
    """The expressions of a file that build texts, and the names that its module binds."""
    try:
        tree = ast.parse(_source(file))
    except (SyntaxError, ValueError, RecursionError):
        return [], {}
    found: list[_Making] = []
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while pending:
        node, scopes = pending.pop()
        if isinstance(node, ast.JoinedStr | ast.BinOp) or (
            isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("format", "join")
        ):
            found.append(_Making(node, scopes))
        inner = (node, *scopes) if isinstance(node, SCOPES) else scopes
        pending += [(child, inner) for child in ast.iter_child_nodes(node)]
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset)), bindings(tree)


def _resolver(
    scopes: Sequence[ast.AST], own: Mapping[str, ast.expr | None], names: Mapping[str, Any]
) -> Resolve:
    """A function that returns the values of names inside these functions and classes, the innermost first."""
    busy = set[str]()

    def resolve(name: str) -> object:
        for place, scope in enumerate(scopes):
            bound = {} if place and isinstance(scope, ast.ClassDef) else _bindings(scope)
            if name in bound:
                value = bound[name]
                if value is None or name in busy:
                    raise LookupError(name)
                busy.add(name)
                try:
                    return constant(value, resolve)
                finally:
                    busy.discard(name)
        value = names[name]
        if own.get(name, value) is None and not isinstance(value, type):  # bound more than once
            raise LookupError(name)
        return value

    return resolve


def _constants(made: Sequence[Piece], flat: str) -> Iterator[Formatted]:
    """The constants in a text that `flat` equals or contains; only those that are whole words there."""
    runs: list[list[str | Formatted]] = [[]]
    for piece in made:
        if piece is None:
            runs.append([])
        else:
            runs[-1].append(piece)
    texts = [_flat("".join(map(_text, run))) for run in runs]
    if not all(text in flat for text in texts):
        return
    for number, (run, text) in enumerate(zip(runs, texts, strict=True)):
        start = flat.find(text)
        first, last = number == 0, number == len(runs) - 1
        if _says_enough(run, text == flat) and _is_apart(flat, start, start + len(text), first, last):
            yield from _words_alone(run, flat, start)


def _says_enough(run: Sequence[str | Formatted], is_all: bool) -> bool:
    """True if a part of a text has enough literal words that `flat` does not contain it by chance."""
    words = re.findall(r"\w+", " ".join(piece for piece in run if isinstance(piece, str)))
    return len(words) > 1 or (is_all and bool(words))


def _is_apart(flat: str, start: int, end: int, first: bool, last: bool) -> bool:
    """True if the part starts and ends with a sentence or line, except beside an unknown part of the text."""
    begins = not first or re.search(r"(?:^|\n|[.!?:;>] )$", flat[:start]) is not None
    return begins and (not last or flat[end : end + 1] in ("", "\n") or flat[end - 1] in ".!?:;>")


def _words_alone(run: Sequence[str | Formatted], flat: str, start: int) -> Iterator[Formatted]:
    before = ""
    for piece in run:
        at = start + len(_flat(f"{before}|")) - 1
        before += _text(piece)
        if isinstance(piece, Formatted) and _is_word(flat, at, at + len(piece.text)):
            yield piece


def _text(piece: str | Formatted) -> str:
    return piece if isinstance(piece, str) else piece.text


def _is_word(flat: str, start: int, end: int) -> bool:
    """True if a part of a text is a word of its sentence: not in quotes, not part of a name or a path."""
    before, after = flat[:start][-1:], flat[end : end + 2]
    return re.fullmatch(r"[\s(\[>=:,;*-]?", before) is not None and (
        re.match(r"$|[\s)\],;:!?<*]|[.](?:\s|$)|-\s", after) is not None
    )
