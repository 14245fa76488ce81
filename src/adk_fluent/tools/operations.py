"""Every `T` operation, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from adk_fluent.tools import sources, spec, wrappers
from adk_fluent.tools.spec import Tool, operations

MODULES: Final = (spec, sources, wrappers)
"""Where they are."""

OPERATIONS: Final[Mapping[str, type[Tool]]] = MappingProxyType(
    {cls.op: cls for cls in sorted(operations(Tool), key=lambda cls: cls.op)}
)
"""Name → the class that says what it does."""
