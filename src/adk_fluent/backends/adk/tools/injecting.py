"""Functions that are tools, given resources beside the arguments that a model chooses."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.resources import hide, provided
from adk_fluent.backends.adk.tools.around import Call, accepted, is_blocking, settled
from adk_fluent.backends.adk.tools.scope import Making
from adk_fluent.ir.resources import wanted

CONTEXT: Final = "tool_context"


def injected(
    function: Callable[..., Any], making: Making, confirm: bool | Callable[..., Any] = False
) -> Callable[..., Any]:
    """The function, or one that is given resources: the model is not told of these parameters.

    What says whether a person must be asked, `confirm`, is told what the function is, so that it can be given
    resources, too.

    ADK tells a function the context of its call under the name `tool_context`, which no model is told of
    either; so the run is known in which a resource is opened.
    """
    names = wanted(function, making.resources)
    if not names and not wanted(confirm, making.resources):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    whose = f"Agent {making.agent!r}: its tool {name!r}"
    context = _context_parameter(function)
    in_thread = making.threads and is_blocking(function)

    @functools.wraps(function)
    async def call(**arguments: Any) -> Any:
        ctx = private.invocation(arguments[context or CONTEXT])
        given = await provided(names, making.resources, ctx, whose)
        if context is None:
            del arguments[CONTEXT]
        if in_thread:
            return await asyncio.to_thread(function, **arguments, **given)
        result = function(**arguments, **given)
        return await result if inspect.isawaitable(result) else result

    hide(call, function, names, *([] if context else [CONTEXT]))
    return call


def confirming(confirm: bool | Callable[..., Any], making: Making) -> bool | Callable[..., Any]:
    """What says whether a person must be asked, told only the arguments that it takes, and its resources."""
    if not callable(confirm):
        return confirm
    names, whose = wanted(confirm, making.resources), _asker(making)

    async def asked(**arguments: Any) -> Any:
        given: dict[str, Any] = {}
        if names:
            context = next(one for one in arguments.values() if hasattr(one, "_invocation_context"))
            given = await provided(names, making.resources, private.invocation(context), whose)
        result = confirm(**{**accepted(confirm, arguments), **given})
        return await result if inspect.isawaitable(result) else result

    return asked


def deciding(when: Callable[..., Any], making: Making) -> Callable[[Call], Awaitable[Any]]:
    """The same of one call, of any tool."""
    names, whose = wanted(when, making.resources), _asker(making)

    async def asked(call: Call) -> Any:
        given = await provided(names, making.resources, private.invocation(call.context), whose)
        return await settled(when(**{**accepted(when, call.args), **given}))

    return asked


def _asker(making: Making) -> str:
    return f"Agent {making.agent!r}: what says whether to ask before a call"


def _context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter under which a function gets ADK's context, if it wants it."""
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        shown = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
        if name == CONTEXT or shown.rpartition(".")[2] in ("ToolContext", "Context"):
            return name
    return None
