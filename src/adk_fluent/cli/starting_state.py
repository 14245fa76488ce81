"""The state that a project gives to its sessions, as its source shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from adk_fluent.cli.target import Target

_MOST_FILES: Final = 500
_ASIDE: Final = frozenset({"tests", "test", "node_modules", "site-packages", "__pycache__"})
Values = Mapping[str, ast.expr]
"""Name → what a file assigns to it, also inside its functions; of several values the first."""


def starting_state(target: Target) -> dict[str, Any]:
    """What the project passes to `create_session(state=...)`: key → its value, or "" if that is no literal.

    The agent's own files count, and those beside them that import it. They are parsed; nothing in them runs.
    Tests do not count.
    """
    trees = [tree for file in _files(target) if (tree := _parsed(file)) is not None]
    names = [_assigned(tree) for tree in trees]
    shared = {name: value for held in reversed(names) for name, value in held.items()}
    found: dict[str, Any] = {}
    for tree, own in zip(trees, names, strict=True):
        known = {**shared, **own}
        for given in _given(tree):
            found |= {key: value for key, value in _entries(given, known) if key not in found}
    return found


def _files(target: Target) -> Iterator[Path]:
    home = target.folder or (target.file.parent if target.file is not None else None)
    if home is None:
        return
    if target.folder is not None:
        inside = (file for file in sorted(home.rglob("*.py")) if not _is_aside(file.relative_to(home)))
        yield from islice(inside, _MOST_FILES)
    elif target.file is not None and target.file.suffix == ".py":
        yield target.file
    beside = home if target.folder is None else home.parent
    name = home.name if target.folder is not None else (target.file.stem if target.file else "")
    for file in islice(sorted(beside.glob("*.py")), _MOST_FILES):
        if file != target.file and not _is_aside(file.relative_to(beside)) and _imports(file, name):
            yield file


def _is_aside(path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.parts)
    return hidden or not _ASIDE.isdisjoint(path.parts) or path.name.startswith("test_")


def _parsed(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None


def _imports(file: Path, name: str) -> bool:
    for node in ast.walk(_parsed(file) or ast.Module([], [])):
        if isinstance(node, ast.ImportFrom):
            said = [*(node.module or "").split("."), *(one.name for one in node.names if not node.module)]
        elif isinstance(node, ast.Import):
            said = [part for one in node.names for part in one.name.split(".")]
        else:
            continue
        if name in said:
            return True
    return False


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for one in targets if value is not None else ():
            if isinstance(one, ast.Name) and value is not None:
                found.setdefault(one.id, value)
    return found


def _given(tree: ast.Module) -> Iterator[ast.expr]:
    """What calls of `create_session` have as their `state=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) == "create_session":
            yield from (one.value for one in node.keywords if one.arg == "state")


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _entries(given: ast.expr, names: Values, depth: int = 4) -> Iterator[tuple[str, Any]]:
    """The entries of a dict: written down, made by `dict(...)` or a copy, or held by a name."""
    if depth == 0:
        return
    if isinstance(given, ast.Name) and given.id in names:
        yield from _entries(names[given.id], names, depth - 1)
    elif isinstance(given, ast.Dict):
        yield from _pairs(zip(given.keys, given.values, strict=True), names, depth)
    elif isinstance(given, ast.BinOp) and isinstance(given.op, ast.BitOr):
        yield from _entries(given.left, names, depth - 1)
        yield from _entries(given.right, names, depth - 1)
    elif isinstance(given, ast.Call):
        if _called(given.func) == "dict":
            keys = ((None if one.arg is None else ast.Constant(one.arg), one.value) for one in given.keywords)
            yield from _pairs(keys, names, depth)
        held = given.func.value if isinstance(given.func, ast.Attribute) else None  # `START.copy()`
        for one in (*given.args, *([] if held is None else [held])):
            yield from _entries(one, names, depth - 1)


def _pairs(
    pairs: Iterable[tuple[ast.expr | None, ast.expr]], names: Values, depth: int
) -> Iterator[tuple[str, Any]]:
    for key, value in pairs:
        if key is None:
            yield from _entries(value, names, depth - 1)
            continue
        said = names.get(key.id) if isinstance(key, ast.Name) else key
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            yield said.value, _literal(value)


def _literal(value: ast.expr) -> Any:
    """A value that is written down; ADK takes a key that holds `None` for one that is there."""
    try:
        found = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return ""
    return "" if found is None else found
