"""Values that an agent node holds until a backend turns them into ADK's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adk_fluent.ir.frozen import Frozen, frozen


@frozen
class FunctionTool(Frozen):
    """A function as a tool, with what ADK's `FunctionTool` is to be told about it.

    Attributes:
        function: the function itself.
        require_confirmation: whether a person must approve each call, or a function of the arguments
            that says so.
    """

    function: Callable[..., Any]
    require_confirmation: bool | Callable[..., bool] = False


@frozen
class GenerateOptions(Frozen):
    """Options for `GenerateContentConfig`, kept as pairs so that writing them needs no ADK."""

    options: tuple[tuple[str, Any], ...] = ()
