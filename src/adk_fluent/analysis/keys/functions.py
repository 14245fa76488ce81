"""What tools and functions may touch, as far as that can be known without running them."""

from __future__ import annotations

from typing import Any, Final, cast

from adk_fluent.ir.annotations import InstructionSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import NO_ACCESS, UNKNOWN_ACCESS, Access, access
from adk_fluent.ir.nodes import CALLBACK_FIELDS, AgentNode, GateNode
from adk_fluent.ir.tools import FunctionTool


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


def may_pause(node: Node) -> bool:
    """Whether a run may stop at the node itself until somebody answers."""
    if isinstance(node, AgentNode):
        return any(confirms(tool) or getattr(tool, "is_long_running", False) for tool in node.tools)
    return isinstance(node, GateNode)


def ends_loops(node: AgentNode) -> bool:
    """Whether the agent has ADK's tool for leaving a loop."""
    return any(
        "exit_loop" in (getattr(tool, "__name__", ""), getattr(tool, "name", "")) for tool in node.tools
    )


_FUNCTIONS: Final = CALLBACK_FIELDS | {"tools", "annotations", "global_instruction"}
"""The fields of an agent that may hold functions, or values that do, beside its instruction."""


def unknown_functions(node: AgentNode) -> tuple[list[object], list[object]]:
    """The functions of an agent that may read, and those that may write, keys they do not declare."""
    given = node.given
    if _FUNCTIONS.isdisjoint(given) and type(given.get("instruction", "")) is str:
        return [], []  # as most agents are; asked for each of them several times
    readers: list[object] = []
    writers: list[object] = []
    if (spec := node.annotations.context) is not None and not spec.access.reads_known:
        readers.append(spec)
    for field in ("instruction", "global_instruction"):
        provider = given.get(field)
        silent = isinstance(provider, InstructionSpec) and not provider.access.reads_known
        if silent or (callable(provider) and not access(provider).reads_known):
            readers.append(provider)
    for tool in node.tools:
        touched = tool_access(tool)
        if not touched.reads_known:
            readers.append(tool)
        if not touched.writes_known:
            writers.append(tool)
    unknown = [callback for callback in node.callbacks if not access(callback).writes_known]
    return [*readers, *unknown], [*writers, *unknown]
