"""The ADK backend: the one place that knows google-adk."""

from adk_fluent.backends.adk.backend import ADKBackend

__all__ = ["ADKBackend"]
