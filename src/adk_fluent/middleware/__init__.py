"""What happens around runs, agents, models and tools: write your own, or take one that is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy
from adk_fluent.errors import MiddlewareError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.debug.recorder import recorder
    from adk_fluent.middleware.approving import ToolApproval, tool_approval
    from adk_fluent.middleware.budgets import TokenBudget, token_budget
    from adk_fluent.middleware.caching import Cache, cache
    from adk_fluent.middleware.circuits import CircuitBreaker, circuit_breaker
    from adk_fluent.middleware.costs import CostAttribution, Spent, cost_attribution
    from adk_fluent.middleware.detecting import Detector, find_personal_data
    from adk_fluent.middleware.enriching import otel_enrichment
    from adk_fluent.middleware.hook_context import Context, State
    from adk_fluent.middleware.keeping import Kept
    from adk_fluent.middleware.limiting import FallbackModel, Timeout, fallback_model, timeout
    from adk_fluent.middleware.privacy import PiiFilter, pii_filter
    from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware
    from adk_fluent.middleware.rate_limiting import RateLimiter, rate_limiter
    from adk_fluent.middleware.retrying import Retry, retry
    from adk_fluent.middleware.visible import Visibility, visibility

__all__ = [
    "Cache",
    "CallModel",
    "CallTool",
    "CircuitBreaker",
    "Context",
    "CostAttribution",
    "Detector",
    "FallbackModel",
    "Kept",
    "Middleware",
    "MiddlewareError",
    "PiiFilter",
    "RateLimiter",
    "Retry",
    "Spent",
    "State",
    "Timeout",
    "TokenBudget",
    "ToolApproval",
    "Visibility",
    "cache",
    "circuit_breaker",
    "cost_attribution",
    "fallback_model",
    "find_personal_data",
    "otel_enrichment",
    "pii_filter",
    "rate_limiter",
    "recorder",
    "retry",
    "timeout",
    "token_budget",
    "tool_approval",
    "visibility",
]

__getattr__: Callable[[str], object] = lazy(__name__)
