"""Tools that a model can call, as frozen values; the factories of `T` make them.

A tool comes from a function, an agent or a server (`sources`), and wrappers add a timeout, a cache or an
approval (`wrappers`). The backend makes ADK's tools of these values; this package imports `ir` and nothing
of ADK. Read `spec.Tool` first: it declares what every operation says about itself.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from adk_fluent.tools import sources, spec, wrappers
from adk_fluent.tools.spec import Tool, operations

MODULES: Final = (spec, sources, wrappers)
"""The modules that define operations."""

OPERATIONS: Final[Mapping[str, type[Tool]]] = MappingProxyType(
    {cls.op: cls for cls in sorted(operations(Tool), key=lambda cls: cls.op)}
)
"""The class of every `T` operation, by its name. A stored graph finds a tool by this name, so importing any
module of this package defines all operations."""
