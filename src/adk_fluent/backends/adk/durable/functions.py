"""Functions of the user's, called as steps: transforms, taps, instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.tool_context import ToolContext

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.context.functions import resolved
from adk_fluent.backends.adk.durable.contexts import context_of, dumped
from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, Worker, do, jsonable, state_json
from adk_fluent.backends.adk.steps.instructions import compile_instruction
from adk_fluent.backends.adk.steps.leaves import TapAgent, TransformAgent
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent
from adk_fluent.backends.adk.threads import is_blocking, threaded
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir.annotations import InstructionSpec
from adk_fluent.ir.nodes import AgentNode, TapNode, TransformNode
from adk_fluent.state.delta import ReadOnlyState


def call_as_steps(agents: Mapping[str, BaseAgent], table: Table, services: Worker) -> None:
    """Let the functions of compiled agents be called as steps.

    Predicates stay what they are: they look at the state, and say yes or no.

    Raises:
        UnsupportedNodeError: a function takes what no step can be given.
    """
    for agent in agents.values():
        if isinstance(agent, TransformAgent | TapAgent):
            _state_function(agent, table)
        elif isinstance(agent, FluentLlmAgent) and isinstance(node := agent.ir, AgentNode):
            provider = node.given.get("instruction")
            if callable(provider) and not isinstance(provider, InstructionSpec):
                key = f"{agent.name}.instruction"
                table.add("function", key, _Provider(provider, agent.name, agents, services))
                agent.instruction = compile_instruction(_told(table, key, agent.name), agent.delivering) or ""


def _state_function(agent: TransformAgent | TapAgent, table: Table) -> None:
    node = agent.ir
    assert isinstance(node, TransformNode | TapNode)
    if not any(True for _ in node.calls()):
        return
    if isinstance(node, TransformNode) and node.takes_pieces:
        raise UnsupportedNodeError(
            f"Step {agent.name!r} takes an answer piece by piece, which no durable step can. "
            "Let it take the state, or run it on ADKBackend()."
        )
    if injected := agent.wanted_by(node.function if isinstance(node, TransformNode) else node.fn):
        names = ", ".join(injected)
        raise UnsupportedNodeError(
            f"Step {agent.name!r} is given {names} by .inject(), which a durable step cannot be yet. "
            "Let a tool or a callback use it, or run it on ADKBackend()."
        )
    table.add("function", agent.name, _Caller(agent.name, node))
    agent.bind(node.replace(fn=_of_state(table, agent.name)))


def _of_state(table: Table, name: str) -> Callable[..., Any]:
    async def call(told: Mapping[str, Any] | str) -> Any:
        seen = told if isinstance(told, str) else state_json(told, name)
        return await do(table, Step("function", name, name, {"told": seen}))

    return call


class _Caller:
    """Calls a function of the state, or of a piece of text."""

    def __init__(self, name: str, node: TransformNode | TapNode) -> None:
        self._name, self._returns = name, isinstance(node, TransformNode)
        self._fn: Any = threaded(node.fn) if is_blocking(node.fn) else node.fn

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """What it gives."""
        told: Json = data["told"]
        if not isinstance(told, str):
            place = f"step {self._name!r}" if self._returns else f"tap {self._name!r}"
            told = ReadOnlyState(told).at(place, returns=self._returns)
        given: object = await resolved(self._fn(told))
        return jsonable(given, "what is returned by the function", self._name) if self._returns else None


def _told(table: Table, key: str, agent: str) -> Callable[..., Any]:
    async def provide(context: ReadonlyContext) -> str:
        told = dumped(ToolContext(private.invocation(context)), agent)
        return await do(table, Step("function", key, agent, {"context": told}))

    return provide


class _Provider:
    """Asks a function for an instruction."""

    def __init__(self, function: Any, agent: str, agents: Mapping[str, BaseAgent], services: Worker) -> None:
        self._function: Any = threaded(function) if is_blocking(function) else function
        self._agent, self._agents, self._services = agent, agents, services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """The instruction."""
        context = context_of(data["context"], self._agents, self._services())
        return str(await resolved(self._function(ReadonlyContext(private.invocation(context)))))
