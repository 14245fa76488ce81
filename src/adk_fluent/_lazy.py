"""Packages whose names are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A module `__getattr__` that finds each name in the submodule of `package` that `homes` gives."""

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(homes))}.")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(modules[package], name, value)
        return value

    return get
