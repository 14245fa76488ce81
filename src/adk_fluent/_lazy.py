"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules
from typing import Any


def lazy(module: str) -> Callable[[str], object]:
    """A module's `__getattr__` that imports what the module itself imports for type checkers.

    So a name and its home stand in one place, below `if TYPE_CHECKING:`, where every tool reads them.
    """
    homes: dict[str, str] = {}

    def get(name: str) -> object:
        if not homes:
            homes.update(_homes(module))
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"{module} has no {name!r}; it has {', '.join(modules[module].__all__)}.")
        value = getattr(import_module(home), name)
        setattr(modules[module], name, value)
        return value

    return get


def _homes(module: str) -> Mapping[str, str]:
    """Name → the module of this package that it is imported from for type checkers."""
    tree = ast.parse(_source(module))
    blocks = (node.body for node in tree.body if isinstance(node, ast.If))
    imports = (node for body in blocks for node in body if isinstance(node, ast.ImportFrom))
    return {
        alias.name: str(node.module)
        for node in imports
        if str(node.module).startswith("adk_fluent.")
        for alias in node.names
    }


def _source(module: str) -> str:
    """The source of a module; pytest's loader, which rewrites what a plugin's package asserts, has none."""
    loader: Any = getattr(modules[module].__spec__, "loader", None)
    if hasattr(loader, "get_source"):
        return loader.get_source(module)
    with open(str(modules[module].__file__), encoding="utf-8") as file:
        return file.read()
