"""Tools that are called as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.durable.contexts import act, actions_json, context_of, dumped
from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, Worker, do, jsonable
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.backends.adk.steps.asking_again import tool_asks
from adk_fluent.backends.adk.tools.around import called_by, takes_turns, taking_turns
from adk_fluent.backends.adk.tools.injecting import in_threads
from adk_fluent.errors import AskAgain


def call_as_steps(agents: Mapping[str, BaseAgent], table: Table, services: Worker) -> None:
    """Let the tools of compiled agents be called as steps; agents that are tools stay where they are."""
    for agent in agents.values():
        if isinstance(agent, LlmAgent):
            given: list[Any] = cast(Any, agent).tools
            agent.tools = [
                _as_steps(tool, f"{agent.name}.tools.{index}", agent.name, agents, table, services)
                for index, tool in enumerate(given)
            ]


def _as_steps(
    tool: Any, key: str, agent: str, agents: Mapping[str, BaseAgent], table: Table, services: Worker
) -> Any:
    if isinstance(tool, AgentTool):
        return tool
    if isinstance(tool, BaseToolset):
        table.add("tool", key, _ToolsetCaller(tool, agent, agents, services))
        return _DurableToolset(tool, key, agent, table)
    native = tool if isinstance(tool, BaseTool) else FunctionTool(tool)
    table.add("tool", key, _Caller(in_threads(native), agent, agents, services))
    return called_by(native, partial(_call, table, key, agent, native.name))


async def _call(
    table: Table, key: str, agent: str, name: str, *, args: dict[str, Any], tool_context: ToolContext
) -> Any:
    what = f"the arguments of the tool {name!r}"
    data = {"name": name, "args": jsonable(args, what, agent), "context": dumped(tool_context, agent)}
    done = await do(table, Step("tool", key, agent, data))
    act(tool_context, done)
    return done["result"]


class _Caller:
    """Calls a tool."""

    def __init__(self, tool: BaseTool, agent: str, agents: Mapping[str, BaseAgent], services: Worker) -> None:
        self._tool, self._agent, self._agents, self._services = tool, agent, agents, services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """Its result, and what it did to state and run."""
        return await _called(self._tool, data, self._agent, self._agents, self._services())


async def _called(
    tool: BaseTool, data: Mapping[str, Json], agent: str, agents: Mapping[str, BaseAgent], services: Services
) -> Json:
    context = context_of(data["context"], agents, services)
    try:
        result = await tool.run_async(args=dict(data["args"]), tool_context=context)
    except AskAgain as error:  # the result of the step, which is done
        result = tool_asks(tool, {}, context, error)
    told = jsonable(result, f"the result of the tool {tool.name!r}", agent)
    return {"result": told, **actions_json(context, agent)}


class _DurableToolset(BaseToolset):
    """A toolset whose tools are found and called by the worker."""

    def __init__(self, inner: BaseToolset, key: str, agent: str, table: Table) -> None:
        super().__init__()
        self._inner, self._key, self._agent, self._table = inner, key, agent, table
        private.keep_no_tools(self)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools that the worker has found."""
        data = {"context": None if readonly_context is None else _read_only(readonly_context, self._agent)}
        found = await do(self._table, Step("tool", self._key, self._agent, data))
        return [
            _Found(told, partial(_call, self._table, self._key, self._agent, told["name"])) for told in found
        ]


def _read_only(context: ReadonlyContext, agent: str) -> Json:
    return dumped(ToolContext(private.invocation(context)), agent)


class _Found(BaseTool):
    """A tool that the worker has found in a toolset."""

    def __init__(self, told: Mapping[str, Json], call: Callable[..., Any]) -> None:
        super().__init__(
            name=told["name"], description=told["description"], is_long_running=told["is_long_running"]
        )
        self._declared = told["declaration"]
        cast(Any, self).run_async = taking_turns(call) if told["takes_turns"] else call

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return None if self._declared is None else types.FunctionDeclaration.model_validate(self._declared)


class _ToolsetCaller:
    """Finds the tools of a toolset, and calls them."""

    def __init__(
        self, toolset: BaseToolset, agent: str, agents: Mapping[str, BaseAgent], services: Worker
    ) -> None:
        self._toolset, self._agent, self._agents, self._services = toolset, agent, agents, services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """The tools, or the result of a call of one of them."""
        services, told = self._services(), data["context"]
        context = None if told is None else context_of(told, self._agents, services)
        tools = await self._toolset.get_tools_with_prefix(context)
        if "name" not in data:
            return [_described(tool) for tool in tools]
        tool = next((tool for tool in tools if tool.name == data["name"]), None)
        if tool is None:
            return {
                "result": {"error": f"There is no tool {data['name']!r} any more."},
                "state": {},
                "others": {},
            }
        return await _called(in_threads(tool), data, self._agent, self._agents, services)


def _described(tool: BaseTool) -> Json:
    declaration = private.declaration(tool)
    return {
        "name": tool.name,
        "description": tool.description,
        "is_long_running": tool.is_long_running,
        "takes_turns": takes_turns(in_threads(tool)),
        "declaration": declaration and declaration.model_dump(mode="json", exclude_none=True),
    }
