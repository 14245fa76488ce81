"""All built-ins that stand around models, as production would have them."""

from __future__ import annotations

from typing import Any

from adk_fluent.cost import Price
from adk_fluent.middleware import (
    cache,
    circuit_breaker,
    cost_attribution,
    fallback_model,
    pii_filter,
    rate_limiter,
    retry,
    timeout,
    token_budget,
)


def everything() -> list[Any]:
    """They, in the recommended order, so generous that nothing is refused."""
    return [
        token_budget(1_000_000, per="session"),
        pii_filter(reversible=True),
        cache(),
        fallback_model("other"),
        retry(backoff_base=0),
        circuit_breaker(failure_threshold=1_000_000),
        rate_limiter(1e6),
        timeout(60),
        cost_attribution("budget", {"m": Price.per_million(input=1, output=10)}),
    ]
