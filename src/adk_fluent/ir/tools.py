"""Values that an agent node holds until a backend turns them into ADK's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function as a tool, with what ADK's `FunctionTool` is to be told about it.

    Attributes:
        function: the function itself.
        require_confirmation: whether a person must approve each call, or a function of the arguments
            that says so.
    """

    function: Callable[..., Any]
    require_confirmation: bool | Callable[..., bool] = False


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """Options for `GenerateContentConfig`, kept as pairs so that writing them needs no ADK."""

    options: tuple[tuple[str, Any], ...] = ()
