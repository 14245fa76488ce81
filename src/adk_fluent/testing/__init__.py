"""Testing pipelines without a model: scripted answers on ADK's real runner."""

from adk_fluent.backends.mock import MockBackend, call_tool, mock_backend

__all__ = ["MockBackend", "call_tool", "mock_backend"]
