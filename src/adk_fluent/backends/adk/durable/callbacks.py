"""Callbacks of agents, called as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adk_fluent.backends.adk.context.functions import resolved
from adk_fluent.backends.adk.durable.contexts import act, actions_json, context_of, dumped
from adk_fluent.backends.adk.durable.failures import raised, told_of
from adk_fluent.backends.adk.durable.models import NamedTool, dumped_request
from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, Worker, do, jsonable
from adk_fluent.backends.adk.threads import is_blocking, threaded
from adk_fluent.ir.nodes import CALLBACK_FIELDS

_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    model.__name__: model for model in (LlmRequest, LlmResponse, types.Content)
}


def call_as_steps(agents: Mapping[str, BaseAgent], table: Table, services: Worker) -> None:
    """Let the callbacks of compiled agents be called as steps."""
    for agent in agents.values():
        for field in sorted(CALLBACK_FIELDS.intersection(type(agent).model_fields)):
            given: object = getattr(agent, field)
            if not given:
                continue
            functions = cast("list[Any]", given) if isinstance(given, list) else [given]
            calls = list[Any]()
            for index, function in enumerate(functions):
                key = f"{agent.name}.{field}.{index}"
                table.add("callback", key, _Caller(function, agent.name, agents, services))
                calls.append(_proxy(table, key, agent.name))
            setattr(agent, field, calls)


def _proxy(table: Table, key: str, agent: str) -> Callable[..., Any]:
    async def call(**given: Any) -> Any:
        context: ToolContext = given.get("callback_context") or given["tool_context"]
        what = f"what the callback {key!r} is given"
        args = {name: _encoded(value, what, agent) for name, value in given.items() if value is not context}
        place = "callback_context" if "callback_context" in given else "tool_context"
        data = {"args": args, "place": place, "context": dumped(context, agent)}
        done = await do(table, Step("callback", key, agent, data))
        act(context, done)
        for name, value in done["changed"].items():
            _change(given[name], _decoded(value))
        return _decoded(done["given"])

    return call


class _Caller:
    """Calls a callback."""

    def __init__(self, function: Any, agent: str, agents: Mapping[str, BaseAgent], services: Worker) -> None:
        self._function: Any = threaded(function) if is_blocking(function) else function
        self._agent, self._agents, self._services = agent, agents, services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """What it gives, what it changed of what it was given, and what it did to state and run."""
        context = context_of(data["context"], self._agents, self._services())
        args = {name: _decoded(value) for name, value in data["args"].items()}
        given = await resolved(self._function(**args, **{data["place"]: context}))
        what, agent = "what a callback gives", self._agent
        now = {name: _encoded(value, what, agent) for name, value in args.items()}
        changed = {name: value for name, value in now.items() if value != data["args"][name]}
        return {"given": _encoded(given, what, agent), "changed": changed, **actions_json(context, agent)}


def _encoded(value: object, what: str, agent: str) -> Json:
    """A value with its kind, as JSON."""
    if isinstance(value, LlmRequest):
        return {"kind": "LlmRequest", "value": dumped_request(value), "tools": [*value.tools_dict]}
    if isinstance(value, LlmResponse | types.Content):
        return {"kind": type(value).__name__, "value": value.model_dump(mode="json", exclude_none=True)}
    if isinstance(value, BaseTool):
        return {"kind": "tool", "value": value.name, "description": value.description}
    if isinstance(value, BaseException):
        return {"kind": "error", "value": told_of(value)}
    return {"kind": "json", "value": jsonable(value, what, agent)}


def _decoded(told: Mapping[str, Json]) -> Any:
    """The value that was encoded."""
    kind, value = told["kind"], told["value"]
    if kind == "tool":
        return NamedTool(name=value, description=told["description"])
    if kind == "error":
        return raised(value)
    if kind == "json":
        return value
    made: Any = _MODELS[kind].model_validate(value)
    if isinstance(made, LlmRequest):
        made.tools_dict = {name: NamedTool(name=name, description="") for name in told["tools"]}
    return made


def _change(value: Any, now: Any) -> None:
    """Let a value be what a callback made of its copy."""
    if isinstance(value, dict):
        cast("dict[str, Any]", value).clear()
        cast("dict[str, Any]", value).update(now)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if name not in ("tools_dict", "live_connect_config"):
                setattr(value, name, getattr(now, name))
