"""Budgets: the remaining sum in USD is in state as text, so that every store keeps it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from adk_fluent.cost.prices import Amount, Price, amount, cost_of, tokens_of
from adk_fluent.errors import ADKFluentError, ModelError

COST: Final = "adk_fluent.cost_usd"
"""Metadata key of a response or its event: the cost in USD, as text, if the agent states the price."""
COUNTED: Final = "adk_fluent.budget"
"""Metadata key of a response or its event: the state key of the budget that paid for it."""

CACHED: Final = "adk_fluent.cached"
"""Metadata key of a response or its event: the response came from a cache and cost nothing."""


def countdown(left: Amount, cost: Decimal) -> str:
    """Subtract the cost of a call from a budget; the result is text for the state, 0 or more.

    >>> countdown("1.00", Decimal("0.0003")), countdown(0.1, Decimal("0.25"))
    ('0.9997', '0')
    """
    rest = amount(left, "countdown()") - cost
    return format(max(rest, Decimal(0)), "f")


def left_of(value: object, key: str, agent: str) -> Decimal | None:
    """Read the remaining budget from its state value; `None` if there is no value, and so no limit.

    Raises:
        ModelError: the value is negative, or not a number; the message names the agent and the key.

    >>> left_of("0.9997", "budget", "a")
    Decimal('0.9997')
    """
    if value is None:
        return None
    try:
        return amount(value, key)
    except ADKFluentError:
        raise ModelError(
            f'Agent {agent!r}: its budget "{key}" holds {value!r:.40}, which is no amount in USD from 0 up. '
            f'Set it to one, as in S.set({key.rpartition(":")[2]}="5.00").'
        ) from None


def cost_of_response(
    response: object, model: object = "", prices: Mapping[str, Price] | None = None
) -> Decimal | None:
    """The cost of a model's response in USD, or `None` if its price is unknown.

    Args:
        response: an `LlmResponse` of ADK, or an event made from one; a response without usage cost nothing.
        model: the model that was asked, for a response that does not name its model.
        prices: prices by model name that take precedence over all others.

    Raises:
        MissingExtraError: the price is not given, and `genai-prices` is not installed.
    """
    metadata: Mapping[str, object] = getattr(response, "custom_metadata", None) or {}
    if isinstance(said := metadata.get(COST), str):
        return Decimal(said)
    usage = getattr(response, "usage_metadata", None)
    if usage is None:
        return Decimal(0)
    named = getattr(response, "model_version", None)
    tokens = tokens_of(usage)
    cost = cost_of(named, tokens, prices) if named else None
    return cost if cost is not None else cost_of(model, tokens, prices)
