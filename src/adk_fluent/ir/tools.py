"""Values that an agent node holds until a backend turns them into ADK's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, UNKNOWN_ACCESS, Access


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


# --- what can be known of a tool without running it ----------------------------------------------


def tool_access(tool: object) -> Access:
    """What a tool touches: what it declares, nothing if it is not given the state, else unknown."""
    function = tool.function if isinstance(tool, FunctionTool) else getattr(tool, "func", tool)
    declared = getattr(function, "__adk_fluent_declares__", None) or getattr(tool, "access", None)
    if isinstance(declared, Access):
        return declared
    if hasattr(function, "__code__"):
        return UNKNOWN_ACCESS if takes_context(function) and not _is_of_adk(function) else NO_ACCESS
    if not _is_of_adk(tool):
        return UNKNOWN_ACCESS
    inner = getattr(tool, "agent", None)
    return NO_ACCESS if inner is None else UNKNOWN_ACCESS


def takes_context(function: object) -> bool:
    """Whether ADK hands the function its context, and with it the state."""
    code = cast(Any, function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    hints = getattr(function, "__annotations__", {})
    return "tool_context" in names or any("Context" in _shown(hint) for hint in hints.values())


def _shown(hint: object) -> str:
    return hint if isinstance(hint, str) else getattr(hint, "__name__", "")


def _is_of_adk(tool: object) -> bool:
    return type(tool).__module__.startswith("google.adk.") or (
        getattr(tool, "__module__", None) or ""
    ).startswith("google.adk.")


def confirms(tool: object) -> bool:
    """Whether a person may have to approve a call of the tool."""
    if isinstance(tool, FunctionTool):
        return tool.require_confirmation is not False
    return bool(getattr(tool, "_require_confirmation", False))


def ends_loops(tools: Iterable[object]) -> bool:
    """Whether one of these is ADK's tool for leaving a loop."""
    return any("exit_loop" in (getattr(tool, "__name__", ""), getattr(tool, "name", "")) for tool in tools)
