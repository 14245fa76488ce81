"""What one model call used and cost, as far as the response and the price list tell."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import Any, Final

from adk_fluent.cost.prices import Tokens, cost_of, price_of
from adk_fluent.errors import MissingExtraError

logger: logging.Logger = logging.getLogger("adk_fluent.telemetry")

CHARACTERS_PER_TOKEN: Final = 4
"""The estimate for text that no model has counted, as in `C.budget`."""


def estimated_cost(request: Any) -> float | None:
    """The least a call can cost in USD: what the text of its request does; `None` if no price is known."""
    try:
        price = price_of(request.model or "")
    except MissingExtraError as error:
        _warn(str(error))
        return None
    if price is None:
        return None
    tokens = sum(map(len, _texts(request))) // CHARACTERS_PER_TOKEN
    return float(price.cost(Tokens(tokens)))


def _texts(request: Any) -> Iterable[str]:
    said = request.config.system_instruction if request.config else None
    if isinstance(said, str):
        yield said
    for content in request.contents:
        for part in content.parts or ():
            if part.text:
                yield part.text


def cost_in_usd(models: Iterable[str | None], tokens: Tokens) -> Decimal | None:
    """What a call cost in USD, by the first of the names whose price is known; `None` if none is."""
    try:
        for model in models:
            if model and (cost := cost_of(model, tokens)) is not None:
                return cost
    except MissingExtraError as error:
        _warn(str(error))
    return None


@cache
def _warn(what: str) -> None:
    """Say once that costs are missing: a run must not fail for want of a price."""
    logger.warning("no costs are measured: %s", what)
