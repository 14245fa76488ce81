"""Functions that are tools: given resources, and called in threads where they would block the event loop."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import CellType, FunctionType, MethodType
from typing import Any, ClassVar, Final

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.resources import BEHIND, hide, provided, thread_of, written
from adk_fluent.backends.adk.threads import in_thread, is_blocking
from adk_fluent.backends.adk.tools.around import Call, accepted, one_by_one, settled
from adk_fluent.backends.adk.tools.scope import Making
from adk_fluent.ir.resources import wanted

CONTEXT: Final = "tool_context"


class BoundFunction:
    """A function as ADK calls it: with the name, documentation and parameters that a model is told of.

    Where ADK takes such functions it has no hash, and ADK finds one function as the `__call__` of all: ADK
    keeps the last 1,024 that it has looked at, with all that they hold, such as the database of a request.

    Args:
        function: the function.
        call: what is called in its place.
        hidden: its parameters that are not told of.
        more: parameters of `call` that the function does not have.
    """

    # Older ADKs make a function of these parts, to read its signature.
    __code__: ClassVar[Any] = (lambda: None).__code__
    __defaults__: ClassVar[Any] = None
    __closure__: ClassVar[Any] = None

    def __init__(
        self,
        function: Callable[..., Any],
        call: Callable[..., Awaitable[Any]],
        hidden: Iterable[str] = (),
        *more: str,
    ) -> None:
        functools.update_wrapper(self, function)
        if not inspect.isroutine(function):  # what it is called and says, each ADK finds out in its own way
            told = FunctionTool(function)
            vars(self).update(__name__=told.name, __doc__=told.description)
        self.__globals__: dict[str, Any] = getattr(inspect.unwrap(written(function)), "__globals__", {})
        hide(self, function, hidden, *more)
        setattr(self, BEHIND, function)
        self._call = call
        vars(self)["__call__"] = _looked_at

    async def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it; the signature is that of the object."""
        return await self._call(*args, **kwargs)


class _UnhashableFunction(BoundFunction):
    """A bound function that ADK cannot keep by its hash."""

    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]  # Python's way to say it


@functools.cache
def _bound_class() -> type[BoundFunction]:
    """The class of bound functions: 1.39 declares no function to a model that has no hash."""

    async def probe() -> None:
        """Do nothing."""

    try:
        private.declaration(FunctionTool(_UnhashableFunction(probe, probe)))
    except TypeError:
        return BoundFunction
    return _UnhashableFunction


async def _looked_at(**arguments: Any) -> Any:
    """Stand for the `__call__` of a bound function where ADK asks whether that is async."""
    raise AssertionError("Python calls the method of the class.")


_looked_at.__annotations__.clear()  # ADK would take them for those of the tool
_looked_at.__doc__ = None  # likewise, where the function has none


def bound(
    function: Callable[..., Any], making: Making, confirm: bool | Callable[..., Any] = False
) -> Callable[..., Any]:
    """The function, or one that is given resources, and that is called in a thread if it would block.

    The model is not told of parameters that are resources. What says whether a person must be asked,
    `confirm`, is told what the function is, so that it can be given resources, too.

    ADK tells a function the context of its call under the name `tool_context`, which no model is told of
    either; so the run is known in which a resource is opened.
    """
    names = wanted(function, making.resources)
    given = bool(names or wanted(confirm, making.resources))
    blocks = making.threads and is_blocking(function) and _has_signature(function)
    if not (given or blocks):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    whose = f"Agent {making.agent!r}: its tool {name!r}"
    context = _context_parameter(function)

    async def call(*args: Any, **arguments: Any) -> Any:
        if not given:
            return await settled(await in_thread(function, *args, **arguments))
        ctx = private.invocation(arguments[context or CONTEXT])
        if context is None:
            del arguments[CONTEXT]
        arguments |= await provided(names, making.resources, ctx, whose)
        if not blocks:
            return await settled(function(*args, **arguments))
        if (thread := thread_of(names, making.resources, ctx)) is not None:
            return await settled(await thread(functools.partial(function, *args, **arguments)))
        return await settled(await in_thread(function, *args, **arguments))

    return _bound_class()(function, call, names, *([] if context or not given else [CONTEXT]))


def function_tool(
    function: Callable[..., Any], making: Making, confirm: bool | Callable[..., Any] = False
) -> FunctionTool:
    """A tool of a function, which ADK declares to a model as it declares the function itself.

    Calls of functions that are not async take turns within a run, as ADK makes them, unless they may run in
    parallel.
    """
    made = _function_tool(function, making, confirm)
    return made if making.parallel or not is_blocking(function) else one_by_one(made)


def _function_tool(
    function: Callable[..., Any], making: Making, confirm: bool | Callable[..., Any]
) -> FunctionTool:
    call = bound(function, making, confirm)
    if call is function:
        return FunctionTool(function, require_confirmation=confirm)
    made = FunctionTool(call, require_confirmation=confirming(confirm, making))
    if (declared := _declared(function)) is not None:
        private.declare_like(made, FunctionTool(declared), wanted(function, making.resources))
    return made


def _declared(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """What ADK reads in place of a function, which ADK keeps: the same without the values that it holds.

    `None` for objects that ADK would keep; their bound function has the same declaration.
    """
    if isinstance(function, FunctionType):
        empty = tuple(CellType() for _ in function.__code__.co_freevars)
        twin: Any = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, empty
        )
        functools.update_wrapper(twin, function, updated=())
        del twin.__wrapped__
        twin.__kwdefaults__ = function.__kwdefaults__
        held = vars(function)
        if "__signature__" in held:
            twin.__signature__ = held["__signature__"]
        if (wrapped := held.get("__wrapped__")) is not None:
            twin.__wrapped__ = _declared(wrapped) or wrapped
        return twin
    if isinstance(function, MethodType) and (inner := _declared(function.__func__)) is not None:
        owner = function.__self__
        try:  # of a method without documentation, that of the same method of a base counts
            return MethodType(inner, owner if isinstance(owner, type) else object.__new__(type(owner)))
        except TypeError:
            return None
    is_object = not (inspect.isroutine(function) or isinstance(function, type))
    return None if is_object and private.keeps_functions() else function


def bound_tool(tool: FunctionTool, making: Making) -> FunctionTool:
    """A tool of ADK's, with its function bound; the tool itself where that changes nothing.

    Calls of functions that are not async take turns, as for `function_tool`.
    """
    made = _bound_tool(tool, making)
    return one_by_one(made) if is_blocking(tool.func) and not _calls_itself(tool) else made


def _bound_tool(tool: FunctionTool, making: Making) -> FunctionTool:
    if type(tool) not in (FunctionTool, LongRunningFunctionTool):
        return _threaded_tool(tool) if making.threads else tool
    confirm = private.confirmation_of(tool)
    function = bound(tool.func, making, confirm)
    if function is tool.func:
        return tool
    if isinstance(tool, LongRunningFunctionTool):
        made: FunctionTool = LongRunningFunctionTool(function)
    else:
        made = FunctionTool(function, require_confirmation=confirming(confirm, making))
    for name, value in vars(tool).items():
        if not name.startswith("_") and name != "func":
            setattr(made, name, value)
    told = copy.copy(tool)
    if (declared := _declared(tool.func)) is not None:
        told.func = declared
        private.declare_like(made, told, wanted(tool.func, making.resources))
    return made


def _threaded_tool(tool: FunctionTool) -> FunctionTool:
    """A tool of a subclass, whose function is called in a thread if it would block.

    A subclass that calls its function by itself expects what that gives, and stays as it is; those of ADK's,
    for tools of LangChain and CrewAI, leave the call to `FunctionTool`.
    """
    if _calls_itself(tool) or not is_blocking(tool.func) or not _has_signature(tool.func):
        return tool
    made = copy.copy(tool)
    function = tool.func

    async def call(*args: Any, **arguments: Any) -> Any:
        return await settled(await in_thread(function, *args, **arguments))

    made.func = _bound_class()(function, call)
    private.declare_like(made, tool)
    return made


def _calls_itself(tool: FunctionTool) -> bool:
    own = type(tool)
    return own.run_async is not FunctionTool.run_async and not own.__module__.startswith("google.adk.")


def in_threads(tool: BaseTool) -> BaseTool:
    """A tool whose function, if it would block, is called in a thread."""
    return bound_tool(tool, Making("", _no_agent)) if isinstance(tool, FunctionTool) else tool


def _no_agent(node: object) -> Any:
    raise AssertionError("a tool of ADK's holds no expression")


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


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
