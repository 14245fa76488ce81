"""What is left of a budget: sums in USD, kept in state as text so that every store keeps them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from adk_fluent.cost.prices import Amount, Price, amount, cost_of, tokens_of
from adk_fluent.errors import ADKFluentError, ModelError

COST: Final = "adk_fluent.cost_usd"
"""Metadata of a response, or of its event: what it cost in USD, as text, where the agent gives the price."""
COUNTED: Final = "adk_fluent.budget"
"""Metadata of a response, or of its event: the state key of the budget that it was counted against."""

CACHED: Final = "adk_fluent.cached"
"""Metadata of a response, or of its event: it came from a store of answers, and nothing was used for it."""


def countdown(left: Amount, cost: Decimal) -> str:
    """What is left of a budget after a call, as it is kept in state: never less than nothing.

    >>> countdown("1.00", Decimal("0.0003")), countdown(0.1, Decimal("0.25"))
    ('0.9997', '0')
    """
    rest = amount(left, "countdown()") - cost
    return format(max(rest, Decimal(0)), "f")


def left_of(value: object, key: str, agent: str) -> Decimal | None:
    """What is left of a budget, of the value in state; `None` where there is no such value, and so no limit.

    Raises:
        ModelError: the value is negative, or no number; the message names the agent and the key.

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
    """What a model's response cost in USD, or `None` if its price is unknown.

    Args:
        response: an `LlmResponse` of ADK, or an event made of one; one without usage cost nothing.
        model: the model that was asked, for a response that does not name one.
        prices: prices by model name that win over all others.

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
