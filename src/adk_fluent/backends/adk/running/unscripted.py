"""What keeps a test or a preview from ever asking a real model, wherever ADK's tools run agents."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compile.compiler import ask_others
from adk_fluent.backends.adk.compile.scope import ModelFor, RemoteFor
from adk_fluent.backends.adk.context.helper_models import HelperFor
from adk_fluent.backends.adk.middleware.runs import SCRIPTED
from adk_fluent.backends.adk.steps.leaves import below
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent
from adk_fluent.backends.adk.steps.remote_agent import RemoteComposite
from adk_fluent.backends.adk.steps.remote_requests import context_for
from adk_fluent.backends.adk.steps.scripted import merge_state
from adk_fluent.backends.adk.steps.selecting import SelectingLlm, is_scripted
from adk_fluent.backends.adk.steps.tree import model_of
from adk_fluent.backends.adk.tools.around import with_innermost
from adk_fluent.errors import MockError
from adk_fluent.ir.adk_objects import Native
from adk_fluent.ir.base import UNSET, Node, rewrite
from adk_fluent.ir.nodes import AgentNode, KnownNativeNode, NativeNode, RemoteAgentNode
from adk_fluent.ir.tools import ToolSpec
from adk_fluent.middleware.keeping import Simulation

V = TypeVar("V")


def with_scripted_tools(
    root: Node, model_for: ModelFor, helper_for: HelperFor, remote_for: RemoteFor | None = None
) -> Node:
    """The tree, in whose tools and native agents no agent has a model, or a process, of its own."""
    return Scripting(model_for, helper_for, remote_for).of(root)


class Scripting:
    """Copies of tools and native agents with scripted models; one copy of each, so that equal stays equal.

    Args:
        model_for: the model that an agent gets.
        helper_for: the model that answers what an agent's context asks.
        remote_for: what answers in place of other processes; by default they do.
    """

    def __init__(
        self, model_for: ModelFor, helper_for: HelperFor, remote_for: RemoteFor | None = None
    ) -> None:
        self._model_for, self._helper_for, self._remote_for = model_for, helper_for, remote_for
        self._made: dict[int, tuple[object, object]] = {}  # with what it was made of, which keeps the id

    def of(self, value: V) -> V:
        """The value, or a copy of it if it is, or holds, a native agent or a tool that runs one.

        Lists, tuples, tools of `T` and trees are looked into.
        """
        if isinstance(value, list):
            return cast(V, [self.of(item) for item in cast("list[object]", value)])
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            made = tuple(map(self.of, items))
            return cast(V, items if all(map(_same, made, items)) else made)
        if isinstance(value, Node):
            return cast(V, rewrite(value, self._node))
        if isinstance(value, ToolSpec):
            fields = {name: (held, self.of(held)) for name, held in vars(value).items()}
            changed = {name: new for name, (old, new) in fields.items() if new is not old}
            return cast(V, value.replace(**changed)) if changed else value
        if not isinstance(value, BaseAgent | AgentTool):
            return value
        if id(value) not in self._made:
            make = self._agent if isinstance(value, BaseAgent) else self._tool
            self._made[id(value)] = (value, make(cast(Any, value)))
        return cast(V, self._made[id(value)][1])

    def _node(self, node: Node) -> Node:
        # Others are made over by their fields, which only their class knows.
        if isinstance(node, NativeNode | KnownNativeNode):
            value = self.of(node.native.value)
            return node if value is node.native.value else node.replace(native=Native(value))
        if isinstance(node, AgentNode) and (tools := self.of(node.tools)) is not node.tools:
            return node.replace(tools=tools)
        return node

    def _tool(self, tool: AgentTool) -> AgentTool:
        made = copy.copy(tool)
        made.agent = self.of(tool.agent)
        return made

    def _agent(self, agent: BaseAgent) -> BaseAgent:
        made = agent.clone()
        pairs = list(zip(below(agent), below(made), strict=True))
        self._made |= {id(old): (old, new) for old, new in pairs}
        for old, new in pairs:
            for name in type(new).model_fields:
                if name not in ("parent_agent", "sub_agents", "model"):
                    self._set(new, name)
            if isinstance(old, LlmAgent) and isinstance(new, LlmAgent):
                self._script(old, new)
            elif self._remote_for is not None:
                answer_remote(new, self._remote_for)
        return made

    def _set(self, agent: BaseAgent, field: str) -> None:
        """Put copies in the place of the agents and tools that a field holds."""
        value: object = getattr(agent, field)
        if (copied := self.of(value)) is not value:
            setattr(agent, field, copied)

    def _script(self, old: LlmAgent, new: LlmAgent) -> None:
        if is_scripted(old.model):  # by the test itself
            return
        ours = isinstance(new, FluentLlmAgent)
        node = cast(AgentNode, new.ir) if ours else _as_node(new)
        if isinstance(old.model, SelectingLlm):
            new.model = old.model.scripted(partial(self._model_for, node, new.name))
        else:
            new.model = self._model_for(node, new.name, model_of(old)) or new.model
        if ours:
            ask_others(new, self._helper_for)
        else:
            after: Any = new.after_model_callback or []
            new.after_model_callback = [merge_state, *(after if isinstance(after, list) else [after])]


def _same(one: object, other: object) -> bool:
    return one is other


def unanswered_remote(agent: BaseAgent) -> RemoteAgentNode | None:
    """The node of an agent that another process serves, if it would be called."""
    if isinstance(agent, RemoteComposite):
        return cast(RemoteAgentNode, agent.ir) if agent.calls_process else None
    named = (kind.__name__ for kind in type(agent).__mro__ if kind.__module__.startswith("google.adk."))
    if _BODY in vars(agent) or "RemoteA2aAgent" not in named:  # by name, since importing it takes an extra
        return None
    return RemoteAgentNode(name=agent.name, endpoint="")


def answer_remote(agent: BaseAgent, remote_for: RemoteFor) -> None:
    """Have a copy of an agent that another process serves answer from the script."""
    if (node := unanswered_remote(agent)) is None:
        return
    model = remote_for(node, node.name)
    if isinstance(agent, RemoteComposite):
        agent.answer_with(model)
    elif isinstance(model, BaseLlm):
        vars(agent)[_BODY] = partial(_answering, node, model)


_BODY: Final = "_run_async_impl"


def _answering(node: RemoteAgentNode, model: BaseLlm, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    return private.run_scripted(node.name, model, context_for(node, ctx, {}))


def _as_node(agent: LlmAgent) -> AgentNode:
    return AgentNode(name=agent.name, output_schema=agent.output_schema or UNSET)


class _Named(BaseLlm):
    """The name of a model, which is never asked, since the plugin answers first."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Refuse."""
        raise MockError(f"No script answers for model {self.model!r}.")
        yield  # pyright: ignore[reportUnreachable]  # which makes this a generator


class Unscripted(AddedPlugin):
    """Answers for every model that no script plays, such as that of an agent which a tool makes as it runs.

    A remote agent that such code reaches is answered for, too, instead of called.

    Args:
        answer: the answer to a request of the agent of this name.
        scripting: makes copies, with scripted models, of agents that run without plugins.
        remote_for: what answers in place of other processes.
        simulation: what is kept for the runs of the backend; `None` where they count as live.
    """

    def __init__(
        self,
        answer: Callable[[str, LlmRequest], Awaitable[LlmResponse]],
        scripting: Scripting,
        remote_for: RemoteFor,
        simulation: Simulation | None,
    ) -> None:
        super().__init__(name=SCRIPTED)
        self._answer, self._scripting, self._remote_for = answer, scripting, remote_for
        self.simulation: Simulation | None = simulation

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Answer in place of another process, and keep ADK from looking up a model by its name.

        ADK does so before it asks this plugin for the answer, and fails where it does not know the name. The
        backend has left an agent of ours that still has a name to ADK.
        """
        own = isinstance(agent, FluentLlmAgent)
        if isinstance(agent, LlmAgent) and not own and not isinstance(model := model_of(agent), BaseLlm):
            ctx = private.invocation(callback_context)
            ctx.agent = agent.model_copy(update={"model": _Named(model=model or "")})
        if (node := unanswered_remote(agent)) is None:
            return None
        model = self._remote_for(node, node.name)
        if not isinstance(model, BaseLlm):
            return None
        events = private.run_scripted(node.name, model, private.invocation(callback_context))
        said = [event.content async for event in events if event.content]
        return said[-1] if said else types.Content(role="model")

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Answer in place of a real model, and script agents in tools that no plugin will reach."""
        tools = llm_request.tools_dict
        for name, tool in tools.items():
            if isinstance(tool, AgentTool) and not tool.include_plugins:
                tools[name] = with_innermost(tool, self._scripting.of)
        agent = private.invocation(callback_context).agent
        if isinstance(agent, LlmAgent) and is_scripted(model_of(agent)):
            return None
        return await self._answer(callback_context.agent_name, llm_request)
