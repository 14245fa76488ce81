"""What backends have in common that run expressions as another one does, and do something beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.errors import ArgumentError

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from google.adk.plugins.base_plugin import BasePlugin

    from adk_fluent.backends.adk.steps.remote_observation import Answering
    from adk_fluent.ir.base import Node
    from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode


class BackendOver(ADKBackend):
    """Base of such backends: models, plugins and trees are those of the other one.

    Args:
        backend: the other one; by default ADK itself.
        services: where sessions and artifacts are kept, if not where the other one keeps them.

    Raises:
        ArgumentError: the other one does not run on ADK's runner.
    """

    def __init__(self, backend: ADKBackend | None = None, **services: Any) -> None:
        super().__init__(**services)
        inner = ADKBackend() if backend is None else backend
        if not isinstance(inner, ADKBackend):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
            raise ArgumentError(
                f"{type(self).__name__} runs on ADKBackend() or mock_backend({{...}}), not on {inner!r:.60}."
            )
        self._inner = inner
        self._overrides = inner._overrides

    def model_for(
        self, node: AgentNode, origin: str, model: str | BaseLlm | None = None
    ) -> str | BaseLlm | None:
        """The model that the other backend gives."""
        return self._inner.model_for(node, origin, model)

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> str | BaseLlm | None:
        """The model that the other backend gives."""
        return self._inner.helper_for(node, origin, operation, model)

    def another_model(self, node: AgentNode, origin: str, model: str | BaseLlm) -> str | BaseLlm:
        """The model that the other backend gives."""
        return self._inner.another_model(node, origin, model)

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """What the other backend gives."""
        return self._inner.remote_for(node, origin)

    def plugins(self) -> list[BasePlugin]:
        """The plugins of the other backend."""
        return self._inner.plugins()

    def prepare(self, node: Node) -> Node:
        """The tree that the other backend compiles."""
        return self._inner.prepare(node)

    def services(self, given: Mapping[str, Any] | None = None) -> Services:
        """The services given for a run, else this backend's, else the other's."""
        return Services(**(given or {})).over(self._services).over(self._inner.services())
