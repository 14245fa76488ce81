"""The card of an agent, as a2a-sdk has it."""

from __future__ import annotations

from adk_fluent.errors import MissingExtraError, install

try:
    from a2a.types import AgentCard
except ImportError as _error:
    raise MissingExtraError(f"AgentCard needs a2a-sdk. Install it: {install('a2a')}.") from _error

__all__ = ["AgentCard"]
