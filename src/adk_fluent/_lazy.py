"""Packages whose names are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def lazy(module: str, homes: Mapping[str, str], *, root: str | None = None) -> Callable[[str], object]:
    """A module's `__getattr__` that finds each name in the module below `root` that `homes` gives.

    Args:
        root: the package they are below; the module itself, where nothing is said.
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"{module} has no {name!r}; it has {', '.join(sorted(homes))}.")
        value = getattr(import_module(f"{root or module}.{home}"), name)
        setattr(modules[module], name, value)
        return value

    return get
