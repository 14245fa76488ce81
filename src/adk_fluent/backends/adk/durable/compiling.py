"""`DurableBackend`: ADK's real runner, where everything that has an effect is a step of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from google.adk.models import BaseLlm

from adk_fluent.backends.adk.context.helper_models import embedding, is_embedding
from adk_fluent.backends.adk.durable import callbacks, functions, remotes, tools
from adk_fluent.backends.adk.durable.around import Surroundings
from adk_fluent.backends.adk.durable.artifacts import DurableArtifacts
from adk_fluent.backends.adk.durable.models import Asker, DurableLlm, models_in
from adk_fluent.backends.adk.durable.steps import Table, Worker
from adk_fluent.backends.adk.running.backend import ADKBackend, Compiled
from adk_fluent.backends.adk.running.runner import Services, fresh_services
from adk_fluent.backends.adk.running.scripting import model_of_name, name_of_model
from adk_fluent.backends.adk.running.telemetry import observed
from adk_fluent.backends.adk.running.toolsets import every_agent
from adk_fluent.backends.adk.running.unscripted import with_scripted_tools
from adk_fluent.backends.adk.steps.remote_observation import Answering
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode

Models = Mapping[str, "str | BaseLlm"]
"""Agent → its model; `agent:operation` → the model that its context asks."""


class DurableBackend(ADKBackend):
    """ADK's real runner on trees that decide and have no effect themselves.

    Args:
        table: gets what really does each step.
        services: those of the process that does steps.
        models: what agents get in place of their own models; a `MockBackend`, whose scripts answer.
        telemetry: what is told of runs, beside what ADK tells.
    """

    def __init__(
        self,
        table: Table,
        services: Worker,
        models: Models | ADKBackend = MappingProxyType({}),
        telemetry: TelemetryConfig | None = None,
    ) -> None:
        super().__init__()
        self._telemetry = telemetry
        self._table, self._worker = table, services
        self._around = Surroundings(services)
        self._nodes: dict[str, tuple[AgentNode, str]] = {}
        table.make("model", self._beside)
        self._real: ADKBackend = models if isinstance(models, ADKBackend) else ADKBackend()
        self._models: Models = MappingProxyType({}) if isinstance(models, ADKBackend) else models

    def model_for(self, node: AgentNode, origin: str, model: str | BaseLlm | None = None) -> BaseLlm:
        """The agent's model, asked as a step."""
        self._nodes[node.name] = node, origin
        key = f"{node.name}@{name_of_model(model)}"
        given = self._models.get(node.name, self._models.get(origin))
        real = given or self._real.model_for(node, origin, model) or model
        return DurableLlm.of(self._table, key, node.name, real, self._around)

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> BaseLlm | None:
        """The model that the agent's context asks, asked as a step."""
        named = self._helper(node, origin, operation, model)
        key = f"{node.name}:{operation}@{name_of_model(model)}"
        of = {"agent": node.name, "operation": operation, "model": name_of_model(model)}
        beside = {**of, "embeds": is_embedding(model)}
        if not named:
            return None
        return DurableLlm.of(self._table, key, node.name, named, self._around, beside)

    def _helper(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> str | BaseLlm | None:
        asked = self._models.get(f"{origin}:{operation}")
        return asked or self._real.helper_for(node, origin, operation, model)

    def another_model(self, node: AgentNode, origin: str, model: str | BaseLlm) -> BaseLlm:
        """A model that a middleware names, asked as a step."""
        real = self._real.another_model(node, origin, model)
        key = f"{node.name}@@{name_of_model(model)}"
        beside = {"agent": node.name, "operation": None, "model": name_of_model(model)}
        return DurableLlm.of(self._table, key, node.name, real, self._around, beside)

    def _beside(self, data: Mapping[str, Any]) -> Asker | None:
        """What asks a model that is named as the run goes on, by a context or a middleware."""
        asked: Mapping[str, Any] | None = data.get("beside")
        if asked is None or (found := self._nodes.get(asked["agent"])) is None:
            return None
        node, origin = found
        name, operation = asked["model"], asked["operation"]
        within = (node.annotations.context, node.given.get("instruction"), self._around.everything)
        model = next((llm for llm in models_in(within) if name_of_model(llm) == name), name)
        if operation is None:
            return Asker(self._real.another_model(node, origin, model), self._around)
        if asked["embeds"]:
            model = embedding(name)
        helper = self._helper(node, origin, operation, model)
        return None if helper is None else Asker(helper, self._around)

    def prepare(self, node: Node) -> Node:
        """The tree, in whose tools no agent asks a model itself."""
        return with_scripted_tools(node, self.model_for, self.helper_for)

    def compile(
        self,
        node: Node,
        config: ExecutionConfig | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> Compiled:
        """A native app whose effects are steps; the contract check is the caller's."""
        return self.in_steps(super().compile(self.telling(node), config, state=state, origins=origins))

    def telling(self, node: Node) -> Node:
        """The tree, of which is told what this process tells of runs."""
        return node if self._telemetry is None else observed(node, self._telemetry)

    def in_steps(self, compiled: Compiled) -> Compiled:
        """A native app, whose effects are steps from now on."""
        agents = {agent.name: agent for agent in reversed([*every_agent(compiled.app.root_agent)])}
        self._around.learn(compiled.app.root_agent, agents)
        for steps in (functions, callbacks, tools, remotes):
            steps.call_as_steps(agents, self._table, self._worker)
        return compiled

    def services(self, given: Mapping[str, Any] | None = None) -> Services:
        """The services of a run; artifacts are those of the worker."""
        artifacts = Services(artifact_service=DurableArtifacts(self._table, self._worker))
        return Services(**(given or {})).over(artifacts).over(fresh_services())

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """What answers in place of a remote agent, if anything does; either is asked as a step."""
        given = self._models.get(node.name, self._models.get(origin))
        return self._real.remote_for(node, origin) if given is None else model_of_name(given)
