"""Backends: what turns the IR into something that runs, and what runs give back.

`ADKBackend` runs expressions on ADK, `MockBackend` does so with scripted models, `ReplayerBackend` with what
was recorded, `DryRunBackend` with stand-ins, `TemporalBackend` on workers that outlive the caller,
`TraceBackend` logs what another one does, and `VizBackend` draws them. Everything that has the methods of
`Backend` is one, too.
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
from adk_fluent.backends.protocol import (
    Backend,
    LiveBackend,
    LiveConversation,
    SessionBackend,
    StoredSession,
)

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import ADKBackend
    from adk_fluent.backends.dry_run import DryRunBackend
    from adk_fluent.backends.mock import MockBackend
    from adk_fluent.backends.temporal.backend import TemporalBackend
    from adk_fluent.backends.temporal.policy import StepPolicy
    from adk_fluent.backends.trace import TraceBackend, TraceStep
    from adk_fluent.backends.viz import VizBackend
    from adk_fluent.debug.replaying import ReplayerBackend

__all__ = [
    "ADKBackend",
    "AgentEvent",
    "Backend",
    "DryRunBackend",
    "LiveBackend",
    "LiveConversation",
    "MockBackend",
    "Pending",
    "ReplayerBackend",
    "RunResult",
    "SessionBackend",
    "StepPolicy",
    "StoredSession",
    "TemporalBackend",
    "ToolCallInfo",
    "ToolResponseInfo",
    "TraceBackend",
    "TraceStep",
    "Usage",
    "VizBackend",
    "final_text",
]


if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
