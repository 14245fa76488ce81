"""Every `T` operation, by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from adk_fluent.tools import sources, spec, wrappers
from adk_fluent.tools.spec import Tool


def _below(cls: type[Tool]) -> Iterator[type[Tool]]:
    for inner in cls.__subclasses__():
        if inner.op:
            yield inner
        yield from _below(inner)


MODULES: Final = (spec, sources, wrappers)
"""Where they are."""

OPERATIONS: Final[Mapping[str, type[Tool]]] = MappingProxyType(
    {cls.op: cls for cls in sorted(_below(Tool), key=lambda cls: cls.op)}
)
"""Name → the class that says what it does."""
