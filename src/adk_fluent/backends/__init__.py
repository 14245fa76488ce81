"""Backends: what turns the IR into something that runs, and what runs give back."""

from adk_fluent.backends.events import (
    AgentEvent,
    Pending,
    RunResult,
    ToolCallInfo,
    ToolResponseInfo,
    Usage,
    final_text,
)
from adk_fluent.backends.protocol import Backend

__all__ = [
    "AgentEvent",
    "Backend",
    "Pending",
    "RunResult",
    "ToolCallInfo",
    "ToolResponseInfo",
    "Usage",
    "final_text",
]
