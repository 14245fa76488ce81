"""Cost of model calls: prices, estimates before a run, and budgets.

Read `price_of` in `prices` first, then `estimate_cost` in `estimate`, which walks the tree (`turn_walk`,
`agent_calls`) and sums the expected calls. `model_selection` chooses the model of a call, and `countdown`
keeps the remaining sum of a budget in state. The package may import `analysis` and all packages below it; it
needs no ADK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.cost.estimate import AgentCost, CostEstimate, estimate_cost
    from adk_fluent.cost.prices import (
        Price,
        Tokens,
        cost_of,
        cost_of_response,
        countdown,
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
