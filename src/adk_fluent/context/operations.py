"""Every `C` operation, by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from adk_fluent.context import composition, control, extraction, filters, model_operations, sources
from adk_fluent.context.spec import Context


def _below(cls: type[Context]) -> Iterator[type[Context]]:
    for inner in cls.__subclasses__():
        if inner.op:
            yield inner
        yield from _below(inner)


MODULES: Final = (sources, filters, model_operations, extraction, control, composition)
"""The modules that define operations; a stored graph finds a spec by its name only after their import."""

OPERATIONS: Final[Mapping[str, type[Context]]] = MappingProxyType(
    {cls.op: cls for cls in sorted(_below(Context), key=lambda cls: cls.op)}
)
"""Name of an operation → its class."""
