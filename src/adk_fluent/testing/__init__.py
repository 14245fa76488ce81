"""Testing pipelines without a model: scripted answers on ADK's real runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import ModelRequest
    from adk_fluent.backends.mock import MockBackend, call_tool, mock_backend
    from adk_fluent.contracts import check_contracts
    from adk_fluent.testing.contracts import assert_contracts
    from adk_fluent.testing.freezing import frozen_run
    from adk_fluent.testing.harness import AgentHarness, Response
    from adk_fluent.testing.snapshots import snapshot_events, snapshot_requests

__all__ = [
    "AgentHarness",
    "MockBackend",
    "ModelRequest",
    "Response",
    "assert_contracts",
    "call_tool",
    "check_contracts",
    "frozen_run",
    "mock_backend",
    "snapshot_events",
    "snapshot_requests",
]

if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
