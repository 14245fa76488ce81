"""Agents that other processes serve over A2A: calling and finding them. Serving is in `serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.a2a.card import AgentCard
    from adk_fluent.a2a.directory import AgentDirectory, FoundAgent
    from adk_fluent.a2a.hosting import DirectoryServer
    from adk_fluent.expr.remote import RemoteAgent
    from adk_fluent.ir.annotations import AuthConfig, RetryConfig

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = [
    "AgentCard",
    "AgentDirectory",
    "AuthConfig",
    "DirectoryServer",
    "FoundAgent",
    "RemoteAgent",
    "RetryConfig",
]
