"""What models cost: prices, estimates before a run, and budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.cost.budget import cost_of_response, countdown
    from adk_fluent.cost.estimate import AgentCost, CostEstimate, estimate_cost
    from adk_fluent.cost.prices import (
        Price,
        Tokens,
        cost_of,
        price_of,
        register_price,
        tokens_of,
        unregister_price,
    )
    from adk_fluent.cost.traffic import TrafficAssumptions
    from adk_fluent.ir.annotations import ModelCandidate

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = [
    "AgentCost",
    "CostEstimate",
    "ModelCandidate",
    "Price",
    "Tokens",
    "TrafficAssumptions",
    "cost_of",
    "cost_of_response",
    "countdown",
    "estimate_cost",
    "price_of",
    "register_price",
    "tokens_of",
    "unregister_price",
]
