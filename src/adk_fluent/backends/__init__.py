"""Backends: what turns the IR into something that runs, and what runs give back.

`ADKBackend` runs expressions on ADK, `MockBackend` does so with scripted models, and `VizBackend` draws them.
Everything that has the methods of `Backend` is one, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy
from adk_fluent.backends.events import (
    AgentEvent,
    Pending,
    RunResult,
    ToolCallInfo,
    ToolResponseInfo,
    Usage,
    final_text,
)
from adk_fluent.backends.protocol import Backend, SessionBackend, StoredSession

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.backend import ADKBackend
    from adk_fluent.backends.mock import MockBackend
    from adk_fluent.backends.viz import VizBackend

__all__ = [
    "ADKBackend",
    "AgentEvent",
    "Backend",
    "MockBackend",
    "Pending",
    "RunResult",
    "SessionBackend",
    "StoredSession",
    "ToolCallInfo",
    "ToolResponseInfo",
    "Usage",
    "VizBackend",
    "final_text",
]


if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
