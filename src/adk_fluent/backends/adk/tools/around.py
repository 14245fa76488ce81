"""What is done around the calls of a tool of ADK's, and the copies of tools that do it.

A copy of a tool is the tool in all but what a call does: its class, name, description, schema and flags are
those that ADK finds on the tool itself.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Protocol, cast

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.resources import in_turn
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.tools import confirms, sees_caller
from adk_fluent.middleware.retrying import Retry
from adk_fluent.state.delta import detached
from adk_fluent.tools.wrappers import needs_key

Native = BaseTool | BaseToolset


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        tool: the name of the tool.
        args: its arguments.
        context: ADK's context of the call.
        proceed: makes the call with some arguments.
        native: the tool itself.
    """

    tool: str
    args: dict[str, Any]
    context: ToolContext
    proceed: Callable[[dict[str, Any]], Awaitable[Any]]
    native: object = None


class Around(Protocol):
    """What is done in place of a call; it may proceed with it, also more than once."""

    async def __call__(self, call: Call) -> Any:
        """The result of the call."""
        ...


def around(tool: Native, what: Around) -> Native:
    """A tool, or a toolset with tools, around whose calls this is done."""
    return AroundToolset(tool, what) if isinstance(tool, BaseToolset) else around_tool(tool, what)


def around_tool(tool: BaseTool, what: Around) -> BaseTool:
    """A copy of a tool around whose calls this is done."""

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async def proceed(args: dict[str, Any]) -> Any:
            return await tool.run_async(args=args, tool_context=tool_context)

        return await what(Call(made.name, args, tool_context, proceed, tool))

    made = called_by(tool, run_async)
    vars(made)[_AROUND] = (tool, what)
    return made


def with_innermost(tool: BaseTool, replace: Callable[[BaseTool], BaseTool]) -> BaseTool:
    """The tool with another one inside all that is done around its calls."""
    layer: tuple[BaseTool, Around] | None = vars(tool).get(_AROUND)
    return replace(tool) if layer is None else around_tool(with_innermost(layer[0], replace), layer[1])


def called_by(tool: BaseTool, call: Callable[..., Awaitable[Any]]) -> BaseTool:
    """A copy of a tool that is the tool in all but what makes its calls; they take turns as those do."""
    made = copy.copy(tool)
    cast(Any, made).run_async = taking_turns(call) if takes_turns(tool) else call
    return made


def taking_turns(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """What makes the calls of a tool, one after another with others of their run."""

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async with in_turn(private.invocation(tool_context)):
            return await call(args=args, tool_context=tool_context)

    return run_async


def takes_turns(tool: BaseTool) -> bool:
    """Whether the calls of a tool take turns with others of their run."""
    return _TURNS in vars(tool)


def one_by_one(tool: FunctionTool) -> FunctionTool:
    """A copy of a tool whose calls, with all that is around them, take turns with others of their run."""
    marked = copy.copy(tool)
    vars(marked)[_TURNS] = True
    return cast(FunctionTool, called_by(marked, tool.run_async))


_AROUND: Final = "_adk_fluent_around"
_TURNS: Final = "_adk_fluent_turns"


async def asks(call: Call) -> bool:
    """Whether a person must approve a call: the tool says so, or an operation around it."""
    tool = call.native
    while (layer := vars(tool).get(_AROUND)) is not None:
        tool, what = layer
        if isinstance(what, Asking) and (what.when is None or await what.when(call)):
            return True
    confirm = private.confirmation_of(cast(Any, tool))
    if callable(confirm):
        given = accepted(confirm, {**call.args, "tool_context": call.context})
        return bool(await settled(confirm(**given)))
    return confirms(tool)


class AroundToolset(BaseToolset):
    """A toolset around whose tools' calls something is done.

    Attributes:
        inner: the toolset itself, which alone is opened and closed.
    """

    def __init__(self, inner: BaseToolset, what: Around) -> None:
        super().__init__()
        self.inner = inner
        self._what = what
        private.keep_no_tools(self)  # those of a connection that was closed are of no use

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools of the toolset, each with what is done around its calls."""
        tools = await self.inner.get_tools_with_prefix(readonly_context)
        return [around_tool(tool, self._what) for tool in tools]

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """As the toolset itself."""
        await self.inner.process_llm_request(tool_context=tool_context, llm_request=llm_request)

    async def close(self) -> None:
        """Close the toolset."""
        await self.inner.close()

    def get_auth_config(self) -> Any:
        """As the toolset itself; older ADKs do not ask."""
        asked = getattr(self.inner, "get_auth_config", None)
        return None if asked is None else asked()


# --- what can be done -----------------------------------------------------------------------------

REFUSED: Final = {"error": "This tool call is rejected."}
WAITS: Final = {"error": "This tool call requires confirmation, please approve or reject."}
"""What a model is told, as ADK says it for functions."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A person must approve the call."""

    when: Callable[[Call], Awaitable[Any]] | None

    async def __call__(self, call: Call) -> Any:
        """The result of the call, or that it waits, or was refused."""
        if self.when is not None and not await self.when(call):
            return await call.proceed(call.args)
        answer = call.context.tool_confirmation
        if answer is None:
            call.context.request_confirmation(hint="")
            call.context.actions.skip_summarization = True
            return dict(WAITS)
        return await call.proceed(call.args) if answer.confirmed else dict(REFUSED)


@dataclass(frozen=True, slots=True)
class Timing:
    """A call that takes longer is given up."""

    seconds: float

    async def __call__(self, call: Call) -> Any:
        """The result of the call.

        Raises:
            TimeoutError: it took too long.
        """
        limit = asyncio.timeout(self.seconds)
        try:
            async with limit:
                return await call.proceed(call.args)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"it took longer than {self.seconds:g} s") from error


SIZE: Final = 1000
"""Results that one cache holds."""


@dataclass(frozen=True, slots=True)
class Caching:
    """What a call gave is given again for the same arguments."""

    ttl: float | None
    key: Callable[..., Hashable] | None
    kept: OrderedDict[Hashable, tuple[float, Any]] = field(
        default_factory=OrderedDict[Hashable, tuple[float, Any]]
    )

    async def __call__(self, call: Call) -> Any:
        """The result of the call, or of an earlier one.

        Raises:
            ArgumentError: a tool of a set sees who calls it, and there is no key.
        """
        place = (call.tool, self._same(call))
        if (found := self.kept.get(place)) is not None:
            until, result = found
            if monotonic() < until:
                self.kept.move_to_end(place)
                return detached(result)
            del self.kept[place]
        result = await call.proceed(call.args)
        if not is_error(result):
            until = float("inf") if self.ttl is None else monotonic() + self.ttl
            self.kept[place] = (until, detached(result))
            if len(self.kept) > SIZE:
                self.kept.popitem(last=False)
        return result

    def _same(self, call: Call) -> Hashable:
        if self.key is None:
            if sees_caller(call.native):
                raise ArgumentError(needs_key(call.tool))
            return json.dumps(call.args, sort_keys=True, default=repr)
        return self.key(call.args, call.context) if takes_two(self.key) else self.key(call.args)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A call that raises is made again."""

    policy: Retry

    async def __call__(self, call: Call) -> Any:
        """The result of the first attempt that gives one; else the error of the last."""
        agent = call.context.agent_name
        return await self.policy.called(
            lambda: call.proceed(detached(call.args)), call.native, call.tool, agent
        )


@dataclass(frozen=True, slots=True)
class Changing:
    """What goes in and comes out is changed."""

    pre: Callable[[dict[str, Any]], Any] | None
    post: Callable[[Any], Any] | None

    async def __call__(self, call: Call) -> Any:
        """The changed result of the call with changed arguments.

        Raises:
            TypeError: what `pre` gave are no arguments.
        """
        args = call.args if self.pre is None else await settled(self.pre(dict(call.args)))
        if not isinstance(args, dict):
            raise TypeError(f"pre= of T.transform gave {type(args).__name__} in place of a dict of arguments")
        result = await call.proceed(cast("dict[str, Any]", args))
        waits = call.context.function_call_id in call.context.actions.requested_tool_confirmations
        return result if self.post is None or waits else await settled(self.post(result))


@dataclass(slots=True)
class Pretending:
    """Gives what a script says in place of the call."""

    returns: Any
    side_effect: Any
    calls: int = 0

    async def __call__(self, call: Call) -> Any:
        """The next result of the script.

        Raises:
            Exception: the script has an error in this place.
        """
        side_effect: object = self.side_effect
        given = self.returns if side_effect is None else side_effect
        if isinstance(side_effect, tuple):
            script = cast("tuple[object, ...]", side_effect)
            given = script[min(self.calls, len(script) - 1)]
            self.calls += 1
        if isinstance(given, BaseException) or (isinstance(given, type) and issubclass(given, BaseException)):
            raise given
        if side_effect is not None and callable(cast(object, given)):
            function = cast("Callable[..., Any]", given)
            return await settled(function(**accepted(function, call.args)))
        return detached(given)


# --- functions ------------------------------------------------------------------------------------


async def settled(value: Any) -> Any:
    """The value, awaited where it must be."""
    return await value if inspect.isawaitable(value) else value


def accepted(function: Callable[..., Any], args: dict[str, Any]) -> dict[str, Any]:
    """Those of some arguments that a function takes; all, if Python cannot say which it takes."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # as of `dict`
        return args
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return args
    return {name: value for name, value in args.items() if name in parameters}


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function takes two arguments, by their places; one that is optional does not count."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return True
    except ValueError:  # one that is built in, of which nothing is known
        return False
    return False


def is_error(result: object) -> bool:
    """Whether a result says that the call did not succeed, as ADK's tools do."""
    return isinstance(result, dict) and "error" in result
