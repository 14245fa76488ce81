"""Serving an expression over A2A."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.ir.annotations import AuthConfig
    from adk_fluent.serve.limits import Authenticate, ServeLimits
    from adk_fluent.serve.server import A2AServer

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = ["A2AServer", "AuthConfig", "Authenticate", "ServeLimits"]
