"""How each `T` operation becomes a tool of ADK's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool

from adk_fluent.backends.adk.threads import is_blocking
from adk_fluent.backends.adk.tools.agents import ExpressionTool
from adk_fluent.backends.adk.tools.around import (
    Asking,
    Caching,
    Changing,
    Native,
    Pretending,
    Retrying,
    Timing,
    around,
    around_tool,
)
from adk_fluent.backends.adk.tools.injecting import bound_tool, deciding, function_tool
from adk_fluent.backends.adk.tools.scope import Making
from adk_fluent.backends.adk.tools.sources import mcp, openapi, search, skill, url_context, vertex_ai_search
from adk_fluent.middleware.retrying import retry
from adk_fluent.tools.sources import (
    AgentTool,
    FunctionTool,
    GoogleSearch,
    Mcp,
    Mock,
    OpenApi,
    RemoteTool,
    Skill,
    Toolset,
    UrlContext,
    VertexAiSearch,
)
from adk_fluent.tools.spec import ArtifactTool, Tool, ToolGroup
from adk_fluent.tools.wrappers import CachedTool, ConfirmedTool, RetriedTool, TimedTool, TransformedTool


def native_tools(tools: Iterable[object], making: Making) -> list[Any]:
    """What ADK's agent gets for the tools of ours; what ADK takes itself stays as it is."""
    return [_as_it_is(tool, making) for tool in tools]


def _as_it_is(tool: object, making: Making) -> object:
    if isinstance(tool, Tool):
        return made(tool, making)
    if isinstance(tool, ArtifactTool):
        return _artifact(tool)
    if isinstance(tool, AdkFunctionTool):
        return bound_tool(tool, making)
    if isinstance(tool, BaseTool | BaseToolset) or not callable(tool):
        return tool
    native = function_tool(tool, making)
    return tool if native.func is tool and not is_blocking(tool) else native


def _artifact(tool: ArtifactTool) -> BaseTool:
    from adk_fluent.backends.adk.artifacts.tools import native_tool  # with a part of ADK that few need

    return native_tool(tool)


def made(tool: object, making: Making) -> Native:
    """The tool of ADK's for one that is an operation, a function, or one of ADK's already."""
    if isinstance(tool, Tool):
        return MAKERS[type(tool)](tool, making)
    if isinstance(tool, ArtifactTool):
        return _artifact(tool)
    if isinstance(tool, AdkFunctionTool):
        return bound_tool(tool, making)
    if isinstance(tool, BaseTool | BaseToolset):
        return tool
    return function_tool(cast("Callable[..., Any]", tool), making)


# --- one function for each operation --------------------------------------------------------------


def _fn(tool: FunctionTool, making: Making) -> Native:
    there = replace(making, threads=making.threads and tool.in_thread, parallel=tool.parallel)
    return function_tool(tool.function, there, tool.require_confirmation)


def _toolset(tool: Toolset, making: Making) -> Native:
    return tool.toolset


def _agent(tool: AgentTool, making: Making) -> Native:
    return ExpressionTool(*making.compiled(tool.body))


def _mock(tool: Mock, making: Making) -> Native:
    script = Pretending(tool.returns, tool.side_effect)
    if not isinstance(tool.tool, str):
        return around(made(tool.tool, making), script)
    like = tool.side_effect if inspect.isroutine(tool.side_effect) else _anything
    return around_tool(AdkFunctionTool(_named(like, tool.tool)), script)


def _anything(**arguments: Any) -> None:
    """A tool that takes whatever it is called with."""


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    named.__name__ = name
    return named


def _confirm(tool: ConfirmedTool, making: Making) -> Native:
    when = None if tool.when is None else deciding(tool.when, making)
    return around(made(tool.tool, making), Asking(when))


def _timeout(tool: TimedTool, making: Making) -> Native:
    return around(made(tool.tool, replace(making, threads=True)), Timing(tool.seconds))


def _cache(tool: CachedTool, making: Making) -> Native:
    return around(made(tool.tool, making), Caching(tool.ttl, tool.key))


def _retry(tool: RetriedTool, making: Making) -> Native:
    policy = retry(tool.attempts, tool.backoff_base, tool.on, tools=True, jitter=tool.jitter)
    return around(made(tool.tool, making), Retrying(policy))


def _transform(tool: TransformedTool, making: Making) -> Native:
    return around(made(tool.tool, making), Changing(tool.pre, tool.post))


def _together(tool: ToolGroup, making: Making) -> Native:
    raise AssertionError("an agent holds the parts of what stands for several tools")


MAKERS: Final[Mapping[type[Tool], Callable[[Any, Making], Native]]] = {
    FunctionTool: _fn,
    AgentTool: _agent,
    RemoteTool: _agent,
    Toolset: _toolset,
    GoogleSearch: search,
    UrlContext: url_context,
    VertexAiSearch: vertex_ai_search,
    Mcp: mcp,
    OpenApi: openapi,
    Skill: skill,
    Mock: _mock,
    ConfirmedTool: _confirm,
    TimedTool: _timeout,
    CachedTool: _cache,
    RetriedTool: _retry,
    TransformedTool: _transform,
    ToolGroup: _together,
}
"""Operation → what makes ADK's tool of it."""
