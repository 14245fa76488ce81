"""The tools and options that an agent node holds, and facts about a tool without a call of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dis import get_instructions
from functools import partial
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any, Final, cast

from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import (
    NO_ACCESS,
    UNKNOWN_ACCESS,
    Access,
    declared_idempotent,
    said,
    shown_access,
)
from adk_fluent.ir.keys import KeyRead, KeyReads, declared

ASKED_BY_ADK: Final = frozenset({"adk_request_confirmation", "adk_request_credential", "adk_request_input"})
"""The calls with which ADK asks a person; their arguments have IDs that differ in each run."""


class ToolSpec(Frozen):
    """Base of the `T` operations: a tool, or several tools, of an agent.

    Each operation declares the name that a model sees and the state keys that its calls use. For every other
    tool of an agent (a function, a tool of ADK's), the functions below find these facts.
    """

    __slots__ = ()

    @property
    def called(self) -> str | None:
        """The name that the model sees; `None` for several tools, whose names are known only in a run."""
        return None

    @property
    def access(self) -> Access:
        """The state keys that its calls read and write, as far as they are known."""
        return NO_ACCESS

    @property
    def asks(self) -> bool:
        """True if a person may have to approve a call."""
        return False

    @property
    def held(self) -> tuple[object, ...]:
        """The tools that it wraps or joins, or its function."""
        return ()

    @property
    def agents(self) -> Node | None:
        """The tree of the agents that it runs; `None` if it runs none."""
        return None

    @property
    def by_arguments(self) -> bool:
        """True if all callers with the same arguments may share one result."""
        return False


@frozen
class GenerateOptions(Frozen):
    """Options for `GenerateContentConfig`, kept as pairs so that writing them needs no ADK."""

    options: tuple[tuple[str, Any], ...] = ()


# --- facts about a tool without a call of it ------------------------------------------------------


def tool_name(tool: object) -> str | None:
    """The name of a tool that the model sees; `None` for a toolset, whose names are known only in a run."""
    if isinstance(tool, ToolSpec):
        return tool.called
    if hasattr(tool, "get_tools"):
        return None
    attribute = "__name__" if hasattr(tool, "__name__") else "name"
    name = getattr(tool, attribute, type(tool).__name__)
    return name if isinstance(name, str) else None


def tool_access(tool: object) -> Access:
    """The state keys that a tool uses: those it declares; none without the state; else unknown."""
    if isinstance(tool, ToolSpec):
        return tool.access
    function = getattr(tool, "func", tool)
    declared = getattr(function, "__adk_fluent_declares__", None) or getattr(tool, "access", None)
    if isinstance(declared, Access):
        return declared
    if hasattr(function, "__code__") or _is_called(function):
        if not takes_context(function) or _is_of_adk(function):
            return NO_ACCESS
        return UNKNOWN_ACCESS if isinstance(function, type) else shown_access(function)
    if not _is_of_adk(tool):
        return UNKNOWN_ACCESS
    inner = getattr(tool, "agent", None)
    return NO_ACCESS if inner is None else UNKNOWN_ACCESS


def holds_native_agent(tool: object) -> bool:
    """True for ADK's `AgentTool`, or a wrapper around it: checks do not read the agent inside."""
    return any(_is_of_adk(part) and getattr(part, "agent", None) is not None for part in innermost(tool))


def _is_called(function: object) -> bool:
    """True if a tool is a class or an object that ADK calls like a function, with known parameters."""
    if not callable(function) or hasattr(function, "run_async") or hasattr(function, "get_tools"):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return not any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def tool_reads(tool: object, touched: Access, bodies: Iterable[Node] = ()) -> KeyReads:
    """The keys that a tool reads.

    A key that only its source shows is `lenient`, because the model may never call the tool. If an agent in
    the tool reads a key, the place starts with the name of that agent: `outer.inner, agents.py, line 3`.

    Args:
        touched: the keys that its calls use.
        bodies: the trees of the agents in it, if it is a tool of ADK's.
    """
    functions = [getattr(part, "func", part) for part in innermost(tool)] if touched.reads else []
    shown = [fn for fn in functions if (hasattr(fn, "__code__") or _is_called(fn)) and said(fn) is None]
    places = {read.key: read for read in declared(shown, "tool", "lenient")}
    bodies = tuple(bodies)
    within = _agents_that_read((*agents_inside([tool]), *bodies)) if touched.reads or bodies else {}
    for key in sorted(touched.reads):
        yield places.get(key) or KeyRead(key, "tool", where=within[key].where if key in within else "")
    for key in sorted(within.keys() - touched.reads - touched.writes) if bodies else ():
        if within[key].level == "lenient":
            yield within[key]


def _agents_that_read(bodies: Iterable[Node]) -> dict[str, KeyRead]:
    """For each key, its read by an agent inside a tool, with the agent and the place in its source."""
    found: dict[str, KeyRead] = {}
    for node in (node for body in bodies for node in walk(body)):
        name = node.name or node.label
        for read in node.key_reads():
            is_place = read.where.partition(", ")[2].startswith("line ")
            inner = read.via == "tool" and read.where and not is_place
            where = f"{name}.{read.where}" if inner else ", ".join(filter(None, (name, read.where)))
            found.setdefault(read.key, KeyRead(read.key, "tool", read.level, where=where))
    return found


def is_idempotent(tool: object) -> bool:
    """True if a tool may be called again after a failure: unless it, or its MCP server, declares otherwise.

    >>> from adk_fluent.ir.functions import declares
    >>> @declares(idempotent=False)
    ... def pay(amount: float) -> str:
    ...     return "paid"
    >>> is_idempotent(pay), is_idempotent(len)
    (False, True)
    """
    function = getattr(tool, "function", None) or getattr(tool, "func", tool)
    said = (declared_idempotent(function), declared_idempotent(tool))
    annotations = getattr(getattr(tool, "raw_mcp_tool", None), "annotations", None)
    return False not in (*said, getattr(annotations, "idempotentHint", None))


def sees_caller(tool: object) -> bool:
    """True if a tool receives more than its arguments, such as the user and the state of the session.

    The tools of a toolset are known only after it is opened, so the result for a toolset is False.

    >>> def balance(tool_context): ...
    >>> sees_caller(balance), sees_caller(len)
    (True, False)
    """
    if isinstance(tool, ToolSpec):
        if tool.agents is not None or any(map(sees_caller, tool.held)):
            return True
        return not tool.access.reads_known or bool(tool.access.reads)
    if hasattr(tool, "get_tools"):
        return False
    function = getattr(tool, "func", tool)
    if hasattr(function, "run_async"):  # ADK gives it the context
        return not type(function).__module__.startswith(_SHARED)
    return callable(function) and takes_context(function)


_SHARED: Final = ("google.adk.tools.mcp_tool", "google.adk.tools.openapi_tool", "google.adk.tools.skill")
"""ADK's tools that ask a server, or read a file, with the same credentials for all users."""


def takes_context(function: object) -> bool:
    """True if ADK passes its context to the function, and with it the state."""
    code = getattr(function, "__code__", None)
    if code is None:  # an object that can be called
        try:
            parameters = inspect.signature(cast(Any, function)).parameters
        except (TypeError, ValueError):
            return False
        return any(
            name == "tool_context" or "Context" in _shown(p.annotation) for name, p in parameters.items()
        )
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
    """True if a person may have to approve a call of the tool: it is declared so, or its function asks."""
    if isinstance(tool, ToolSpec):
        return tool.asks
    if getattr(tool, "_require_confirmation", False):
        return True
    return _asks_by_itself(tool, "request_confirmation")


def _asks_by_itself(tool: object, method: str) -> bool:
    """True if the function of a tool calls this method of its context to ask a person."""
    function = getattr(tool, "func", tool)
    code = getattr(unwrap(function) if callable(function) else function, "__code__", None)
    return code is not None and method in code.co_names


def pauses(tool: object) -> bool:
    """True if a call of the tool may pause the run until a person answers."""
    return any(
        confirms(part)
        or getattr(part, "is_long_running", False)
        or _asks_by_itself(part, "request_credential")
        for part in innermost(tool)
    )


_AUTH: Final = ("auth_scheme", "_auth_scheme", "_auth_config", "_credentials_manager")
"""The attributes in which ADK's tools and toolsets keep their credentials."""


def signs_in(tool: object) -> bool:
    """True if a tool or toolset of ADK's may ask a person for its credential."""
    parts = (part for part in innermost(tool) if _is_of_adk(part))
    return any(getattr(part, name, None) is not None for part in parts for name in _AUTH)


def ends_loops(tools: Iterable[object]) -> bool:
    """True if one of these tools can end a loop: ADK's `exit_loop`, or a function that escalates."""
    return any(_ends_loop(part) for tool in tools for part in innermost(tool))


def loop_enders(tools: Iterable[object]) -> tuple[str, ...]:
    """The names of the tools among these that end the loop around their agent."""
    enders = (tool_name(tool) for tool in tools if ends_loops([tool]))
    return tuple(name for name in enders if name is not None)


def _ends_loop(tool: object) -> bool:
    named = "exit_loop" in (getattr(tool, "__name__", ""), getattr(tool, "name", ""))
    body = _body(tool)
    return named if body is None else _escalates(body, _DEPTH)


def escalates(value: object) -> bool:
    """True if the code of a function, a tool or a callable object sets `escalate`.

    >>> def stop(tool_context) -> None:
    ...     tool_context.actions.escalate = True
    >>> escalates(stop), escalates(print)
    (True, False)
    """
    body = _body(value)
    return body is not None and _escalates(body, _DEPTH)


def may_leave_loops(value: object) -> bool:
    """True if the code of a callback, a plugin or a user's class of agents may end the loop around it.

    It ends the loop by `escalate`, or by ending the whole run.

    >>> def enough(callback_context) -> None:
    ...     callback_context._invocation_context.end_invocation = True
    >>> may_leave_loops(enough), may_leave_loops(print)
    (True, False)
    """
    body = _body(value)
    own = [] if isinstance(value, FunctionType | partial) else _methods(type(value))
    return any(_escalates(one, _DEPTH, _ENDING) for one in (*own, *([] if body is None else [body])))


def _methods(kind: type) -> list[FunctionType]:
    """The methods that a class has from the user's code."""
    others = ("google.", "adk_fluent.", "pydantic")
    own = [one for one in kind.__mro__ if not one.__module__.startswith(others)]
    return [value for one in own for value in vars(one).values() if isinstance(value, FunctionType)]


_ENDING: Final = ("escalate", "end_invocation")
_DEPTH: Final = 3
"""The depth of calls to which the code of a project is read."""


def _body(value: object) -> FunctionType | None:
    """The Python function behind a function, a tool, a partial or a callable object."""
    value = getattr(value, "func", value)
    while isinstance(value, partial):
        value = cast("partial[object]", value).func
    value = getattr(unwrap(value) if callable(value) else value, "__func__", value)
    if isinstance(value, FunctionType):
        return value
    methods = (getattr(type(value), name, None) for name in ("run_async", "__call__"))
    own = (one for one in methods if isinstance(one, FunctionType))
    return next((one for one in own if not one.__module__.startswith(("google.", "adk_fluent."))), None)


def gives_value(value: object) -> bool:
    """True if a function may return a value, as far as its code shows; True if it has no code.

    >>> def notes(callback_context) -> None:
    ...     callback_context.state["seen"] = True
    >>> gives_value(notes), gives_value(lambda context: context)
    (False, True)
    """
    body = _body(value)
    if body is None:
        return True
    before: object = None
    for one in get_instructions(body.__code__):
        if one.opname == "RETURN_VALUE" and before is not _NOTHING:
            return True
        if one.opname == "RETURN_CONST" and one.argval is not None:
            return True
        before = _NOTHING if one.opname == "LOAD_CONST" and one.argval is None else one
    return False


_NOTHING: Final = object()


def _escalates(function: FunctionType, depth: int, names: tuple[str, ...] = ("escalate",)) -> bool:
    if any(_sets(function.__code__, name) for name in names):
        return True
    called = (function.__globals__.get(name) for name in function.__code__.co_names if depth)
    return any(_escalates(one, depth - 1, names) for one in called if isinstance(one, FunctionType))


def _sets(code: CodeType, name: str) -> bool:
    for const in code.co_consts:
        if isinstance(const, CodeType) and _sets(const, name):
            return True
        if const == name or (isinstance(const, tuple) and name in const):
            return True  # `setattr(..., "escalate", ...)`, `EventActions(escalate=...)`
    if name not in code.co_names:
        return False
    return any(one.opname == "STORE_ATTR" and one.argval == name for one in get_instructions(code))


def innermost(tool: object) -> tuple[object, ...]:
    """A tool with all that it wraps or joins."""
    if not isinstance(tool, ToolSpec):
        return (tool,)
    return (tool, *(part for held in tool.held for part in innermost(held)))


def agents_inside(tools: Iterable[object]) -> tuple[Node, ...]:
    """The trees of the agents that these tools run."""
    parts = (part for tool in tools for part in innermost(tool))
    return tuple(part.agents for part in parts if isinstance(part, ToolSpec) and part.agents is not None)
