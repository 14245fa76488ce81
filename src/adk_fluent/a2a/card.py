"""The card of an agent, as a2a-sdk has it."""

from __future__ import annotations

from adk_fluent.errors import MissingExtraError

try:
    from a2a.types import AgentCard
except ImportError as _error:
    raise MissingExtraError("AgentCard needs a2a-sdk. Install it: pip install 'adk-fluent[a2a]'.") from _error

__all__ = ["AgentCard"]
