"""Check the prose of the source and the pages: text and names that a reader understands the first time.

    python -m docgen.prose [PACKAGE ...]

prints each place and returns 1 if there is one. `docs/contribute/glossary.md` explains the rules and holds
the words. Without arguments it checks all of `src/adk_fluent` but the packages of `LATER`, the docstrings of
their tests, and all pages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "adk_fluent"
TESTS: Final = ROOT / "tests"
GLOSSARY: Final = ROOT / "docs" / "contribute" / "glossary.md"

LATER: Final = (
    "a2a",
    "adopt",
    "backends",
    "cli",
    "debug",
    "distributed",
    "eval",
    "local",
    "middleware",
    "serve",
    "telemetry",
    "testing",
    "tide",
)
"""Packages and modules that are not rewritten yet, as paths below `SOURCE`; their tests follow with them."""

TESTS_LATER: Final = ("remote",)
"""More folders of tests that are not rewritten yet, as paths below `TESTS`."""

ING: Final = {
    "edge_routing": "the usual name of the algorithm",
    "spelling": "a noun: what it checks",
    "streaming": "the public name of a feature",
}
"""Names of modules that may end in "ing", and why."""

SAME_CLASS: Final = {
    "Step": "an expression without text that users build, and the place of a node in the execution plan",
    "Stored": "stored graphs hold the name; each package has its own stored form",
}
"""Names that several public classes may share, and why."""

KEPT: Final = {
    "nobody-visible": "reports and logs hold this code of a finding",
    "whoever follows them suits this audience": "recorded runs hold this request to a model",
}
"""Texts that stay although they have a refused word, and why."""

PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")
"""The pages, as patterns below `ROOT`; the glossary itself names the refused words."""

_OPENER = re.compile(r"(?:What|Who|Whose|Whom|Whether|How|Where|Which|When)\b")
_TEST_OPENER = re.compile(rf"{_OPENER.pattern}|(?:It|Its|They|Their|That|Of|So)\b")
"""A test's docstring stands alone in a report, so it does not start with a pronoun either."""
_FENCE = re.compile(r" *(?:```|~~~)")
_CODE_OR_TARGET = re.compile(r"(`+).*?\1|\]\([^)]*\)")
"""Inline code and the targets of links, which are not prose."""
_ITEM_OPENER = re.compile(r" *(?:#+|[-*]|\d+\.) +(What|Who|Whose|Whom|Whether|Which)\b")
"""The start of a heading or list item that is a riddle; "How to" and "When a model fails" are usual ones."""
_ROW = re.compile(r"^\|(?:(?:\\\||[^|])*\|){2} *((?:\\\||[^|])*?) *\|$", re.MULTILINE)
_RIDDLE = re.compile(r"\*([a-z][a-z ]*)\*")
_HOLDING = ast.stmt | ast.excepthandler | ast.match_case
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def words(glossary: str) -> re.Pattern[str]:
    """Match the words that the glossary replaces: its last column, and its list of riddles.

    >>> words("| piece | a part | bits |\\n\\n## A riddle\\n\\n*nobody*").findall("Nobody wrote bits.")
    ['Nobody', 'bits']
    """
    table, _, riddles = glossary.partition("riddle")
    cells = [cell for row in _ROW.findall(table) for cell in row.split(", ")]
    refused = [each for each in cells if each.strip("-") and each != "do not write"]
    refused += _RIDDLE.findall(riddles)
    either_case = (f"[{each[0].upper()}{each[0]}]{re.escape(each[1:])}" for each in sorted(refused))
    return re.compile(rf"\b(?:{'|'.join(either_case)})\b")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All docstrings of a module, each with the line of its function, class or module."""
    pending: list[ast.AST] = [tree]
    while pending:  # only statements hold definitions: several times faster than `ast.walk`
        node = pending.pop()
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text
        pending += [each for each in ast.iter_child_nodes(node) if isinstance(each, _HOLDING)]


def openers(tree: ast.Module, refused: re.Pattern[str] = _OPENER) -> Iterator[tuple[int, str]]:
    """The docstrings that start with a question word, with their lines.

    >>> list(openers(ast.parse('def f():\\n    "Who asks."')))
    [(1, 'the docstring starts with "Who": start with a verb or a noun')]
    """
    for line, text in docstrings(tree):
        if found := refused.match(text):
            yield line, f'the docstring starts with "{found[0]}": start with a verb or a noun'


def faults_in_tests(path: Path, refused: re.Pattern[str]) -> Iterator[str]:
    """All faults in the docstrings of one module of tests, each as `path:line: fault`."""
    place, tree = path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))
    for line, fault in openers(tree, _TEST_OPENER):
        yield f"{place}:{line}: {fault}"
    for line, text in docstrings(tree):
        for word in refused.findall(text):
            yield f'{place}:{line}: "{word}": see docs/contribute/glossary.md'


def prose_lines(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown page with their numbers, without code and the targets of links.

    >>> list(prose_lines("See [`a`](b.md).\\n```python\\nx = 1\\n```\\nEnd."))
    [(1, 'See [.'), (5, 'End.')]
    """
    is_code = False
    for number, line in enumerate(page.splitlines(), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, _CODE_OR_TARGET.sub("", line)


def page_faults(path: Path, refused: re.Pattern[str]) -> Iterator[str]:
    """All faults of one page, each as `path:line: fault`."""
    place = path.relative_to(ROOT)
    for line, content in prose_lines(path.read_text(encoding="utf-8")):
        if found := _ITEM_OPENER.match(content):
            yield f'{place}:{line}: it starts with "{found[1]}": start with a noun or a verb'
        for word in () if any(kept in content for kept in KEPT) else refused.findall(content):
            yield f'{place}:{line}: "{word}": see docs/contribute/glossary.md'


def pages() -> list[Path]:
    """All pages but the glossary."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if path != GLOSSARY]


def faults(path: Path, refused: re.Pattern[str]) -> Iterator[str]:
    """All faults of one module, each as `path:line: fault`."""
    place, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
    if path.stem.endswith("ing") and path.stem not in ING:
        yield f'{place}:1: the name ends in "ing": a module is named after what is in it, by a noun'
    for line, fault in openers(ast.parse(text)):
        yield f"{place}:{line}: {fault}"
    for line, content in enumerate(text.splitlines(), 1):
        for found in () if any(kept in content for kept in KEPT) else refused.findall(content):
            yield f'{place}:{line}: "{found}": see docs/contribute/glossary.md'


def same_classes(paths: Iterable[Path]) -> Iterator[str]:
    """Public classes that have the name of another one."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1 and name not in SAME_CLASS:
            yield f"{found[0]}: another class is called {name}, too: {', '.join(found[1:])}"


def modules(parts: Iterable[str]) -> list[Path]:
    """The modules of these packages; of all that are finished, if none is named."""
    chosen, left_out = [SOURCE / each for each in parts], [SOURCE / each for each in LATER]
    found = sorted(SOURCE.rglob("*.py"))
    if chosen:
        return [each for each in found if any(each.is_relative_to(part) for part in chosen)]
    return [each for each in found if not any(each.is_relative_to(part) for part in left_out)]


def modules_of_tests() -> list[Path]:
    """The modules of the finished tests."""
    left_out = [TESTS / each for each in (*LATER, *TESTS_LATER)]
    found = sorted(TESTS.rglob("*.py"))
    return [each for each in found if not any(each.is_relative_to(part) for part in left_out)]


def main(parts: list[str]) -> int:
    """Print every fault; 1 if there is one."""
    refused, checked = words(GLOSSARY.read_text(encoding="utf-8")), modules(parts)
    found = [fault for path in checked for fault in faults(path, refused)]
    found += same_classes(checked)
    tests, read = ([], []) if parts else (modules_of_tests(), pages())
    found += [fault for path in tests for fault in faults_in_tests(path, refused)]
    found += [fault for path in read for fault in page_faults(path, refused)]
    counts = f"{len(checked)} modules, {len(tests)} of tests, {len(read)} pages, {len(found)} faults"
    print(*found, counts, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
