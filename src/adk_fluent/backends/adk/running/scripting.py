"""What backends share on which no agent's own model is asked."""

from __future__ import annotations

from typing import Any

from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin

from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.backends.adk.running.runner import fresh_services
from adk_fluent.backends.adk.running.unscripted import Scripting, Unscripted, with_scripted_tools
from adk_fluent.backends.adk.steps.remote_observation import Answering
from adk_fluent.backends.adk.steps.tree import default_model
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode
from adk_fluent.middleware.keeping import Simulation


class ScriptedBackend(ADKBackend):
    """ADK's real runner, where something else answers in the place of every model.

    That holds for the agents inside tools, such as ADK's `AgentTool`, too. What the runs store is kept with
    this backend alone, unless services are given, and so is what middleware keeps beyond a run. `model_for`,
    `helper_for` and `another_model` say what answers, each with a `ScriptedLlm`.
    """

    def __init__(self, **services: Any) -> None:
        super().__init__(**services)
        self._services = self._services.over(fresh_services())
        self.simulation: Simulation | None = Simulation()

    def prepare(self, node: Node) -> Node:
        """The tree, in whose tools and native agents no agent has a model, or a process, of its own."""
        return with_scripted_tools(node, self.model_for, self.helper_for, self.remote_for)

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """What is said in place of another process: as for an agent of that name, without a call."""
        return model_of_name(self.model_for(agent_like(node), origin))

    def plugins(self) -> list[BasePlugin]:
        """Those of every run, and what answers for agents that no script could be given to before."""
        scripting = Scripting(self.model_for, self.helper_for, self.remote_for)
        return [*super().plugins(), Unscripted(self._answer, scripting, self.remote_for, self.simulation)]

    async def _answer(self, agent: str, request: LlmRequest) -> LlmResponse:
        model = self.model_for(AgentNode(name=agent), agent)
        assert isinstance(model, BaseLlm)
        return [response async for response in model.generate_content_async(request)][-1]


def agent_like(node: RemoteAgentNode) -> AgentNode:
    """An agent of the name of a remote one, which answers what that does."""
    named: dict[str, Any] = {} if node.output_schema is None else {"output_schema": node.output_schema}
    if node.output_key is not None:
        named["output_key"] = node.output_key
    return AgentNode(name=node.name, **named)


def model_of_name(model: str | BaseLlm | None) -> BaseLlm:
    """The model itself, of its name; `None` stands for ADK's default."""
    named = model or default_model()
    return LLMRegistry.new_llm(named) if isinstance(named, str) else named


def name_of_model(model: str | BaseLlm | None) -> str:
    """The name of a model; `None` stands for ADK's default."""
    named = model or default_model()
    return named if isinstance(named, str) else named.model
