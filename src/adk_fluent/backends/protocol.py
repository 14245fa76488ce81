"""What a backend is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig
from adk_fluent.ir.base import Node


@runtime_checkable
class Backend(Protocol):
    """Turns an IR tree into something that runs, and runs it."""

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> Any:
        """What this backend runs for `node`; compiled once per expression and configuration."""
        ...

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        """Run to the end and give all events."""
        ...

    # Positional and keyword arguments of any kind together let a backend declare the options it has.
    def stream(self, compiled: Any, prompt: Any, *_: Any, **options: Any) -> AsyncIterator[AgentEvent]:
        """Give events as they happen."""
        ...
