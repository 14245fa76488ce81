"""The choice among several models for a call: the strategies of `.model_select`, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from adk_fluent.analysis.plan import Step
from adk_fluent.cost.prices import Price, name_of, price_of
from adk_fluent.errors import ArgumentError, ModelError
from adk_fluent.ir.annotations import ModelCandidate
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.nodes import ModelSelectorNode, agent_of


class Situation(NamedTuple):
    """The circumstances of a choice, beside the candidates.

    Attributes:
        unmet: the candidates whose condition does not hold.
        tokens: the tokens of the request.
        left: the remaining budget in USD; `None` if there is no budget.
        last: the model that answered the previous call in the same session.
        promoted: True if the quality of that answer was too low.
    """

    unmet: frozenset[str] = frozenset()
    tokens: int = 0
    left: Decimal | None = None
    last: str | None = None
    promoted: bool = False


def choose(selector: ModelSelectorNode, agent: str, at: Situation) -> str:
    """Choose the model that answers a call.

    Args:
        selector: the strategy and its candidates.
        agent: the agent's name, for messages.
        at: the circumstances.

    Raises:
        ModelError: no candidate can answer; the message names the agent and the reasons.
        ArgumentError: the strategy needs a price that is unknown.
        MissingExtraError: the strategy needs a price, and `genai-prices` is not installed.

    >>> small = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
    >>> large = ModelCandidate("gemini-2.5-pro", 1.25, 5.00, quality_tier=2)
    >>> selector = ModelSelectorNode(strategy="adaptive", candidates=(large, small))
    >>> choose(selector, "a", Situation())
    'gemini-2.5-flash'
    >>> choose(selector, "a", Situation(last="gemini-2.5-flash", promoted=True))
    'gemini-2.5-pro'
    """
    spent = selector.strategy == "budget_bounded" and at.left is not None and at.left <= 0
    able = [] if spent else [one for one in ranking(selector, agent) if _why_not(one, at) is None]
    if able:
        return (_adapted(able, selector, at) if selector.strategy == "adaptive" else able[0]).model
    if selector.fallback_model is not None:
        return selector.fallback_model
    raise ModelError(f"Agent {agent!r} has no model for this call: {_refusal(selector, at, spent)}")


def ranking(selector: ModelSelectorNode, agent: str) -> Sequence[ModelCandidate]:
    """The candidates in the order of the strategy; `adaptive` starts with the first and moves to the next.

    A candidate is cheaper if one input token and one output token cost less together; equal candidates keep
    their order.

    Raises:
        ArgumentError: the order depends on a price that is unknown.
        MissingExtraError: the order depends on a price, and `genai-prices` is not installed.
    """
    candidates = selector.candidates
    if len(candidates) == 1:
        return candidates
    if selector.strategy in ("cost_optimized", "budget_bounded"):
        return sorted(candidates, key=lambda one: _weight(one, agent))
    sign = 1 if selector.strategy == "adaptive" else -1
    tiers = [one.quality_tier for one in candidates]
    unique = len(set(tiers)) == len(tiers)
    return sorted(candidates, key=lambda one: (sign * one.quality_tier, 0 if unique else _weight(one, agent)))


def price_of_candidate(candidate: ModelCandidate, prices: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a candidate: its own if it states one, else that of the model.

    Raises:
        MissingExtraError: it states no price, and `genai-prices` is not installed.
    """
    if candidate.cost_per_1k_input is None or candidate.cost_per_1k_output is None:
        return price_of(candidate.model, prices)
    return Price.per_thousand(input=candidate.cost_per_1k_input, output=candidate.cost_per_1k_output)


def price_in(
    selector: ModelSelectorNode, model: str, prices: Mapping[str, Price] | None = None
) -> Price | None:
    """The price of a model that a selector chose; the model may also be the selector's fallback."""
    for candidate in selector.candidates:
        if candidate.model == model:
            return price_of_candidate(candidate, prices)
    return price_of(model, prices)


def gives_price(selector: ModelSelectorNode, model: str) -> bool:
    """True if the selector itself states the price of a model."""
    return any(
        one.model == model and one.cost_per_1k_input is not None and one.cost_per_1k_output is not None
        for one in selector.candidates
    )


def unpriced(agent: str, model: str) -> str:
    """The message for a model whose price is needed and unknown."""
    return (
        f"Agent {agent!r}: the price of model {model!r} is unknown. Give it: "
        f"ModelCandidate({model!r}, cost_per_1k_input, cost_per_1k_output), or "
        f"register_price({model!r}, Price.per_million(input=…, output=…)) of adk_fluent.cost."
    )


def _weight(candidate: ModelCandidate, agent: str) -> Decimal:
    price = price_of_candidate(candidate)
    if price is None:
        raise ArgumentError(unpriced(agent, candidate.model))
    return price.input + price.output


def _adapted(able: Sequence[ModelCandidate], selector: ModelSelectorNode, at: Situation) -> ModelCandidate:
    """The candidate of the previous call, or the next better one; `able` is in ascending quality."""
    tier = next((one.quality_tier for one in selector.candidates if one.model == at.last), None)
    if tier is None:
        return able[0]
    least = tier + at.promoted
    return next((one for one in able if one.quality_tier >= least), able[-1])


def _why_not(candidate: ModelCandidate, at: Situation) -> str | None:
    if candidate.model in at.unmet:
        return "its condition does not hold"
    if candidate.max_tokens is not None and at.tokens > candidate.max_tokens:
        return f"it may get {candidate.max_tokens:,} tokens, and the request has about {at.tokens:,}"
    return None


def _refusal(selector: ModelSelectorNode, at: Situation, spent: bool) -> str:
    if spent:
        key = selector.budget_key
        return (
            f'the budget "{key}" is used up. Fill it up, or add fallback_model= to go on with another model.'
        )
    reasons = "; ".join(f"{one.model!r}: {_why_not(one, at)}" for one in selector.candidates)
    return f"{reasons}. Add a candidate without such a limit, or fallback_model=."


# --- which of an agent ----------------------------------------------------------------------------


def without_price(step: Step, model: str, selected: bool) -> str:
    """The error message for a model whose price is unknown."""
    if selected:
        return unpriced(step.name, model)
    if not model:
        return (
            f"Agent {step.name!r} has no model, so its cost is unknown. Give it one: "
            f"Agent({step.origin!r}, 'gemini-2.5-flash'), or Preset(model=…) for several."
        )
    return (
        f"Agent {step.name!r}: the price of model {model!r} is unknown. Give it: "
        f"estimate_cost(…, prices={{{model!r}: Price.per_million(input=…, output=…)}}) of adk_fluent.cost."
    )


def chosen_by(step: Step) -> tuple[ModelSelectorNode | None, str]:
    """The selector of an agent's model, and the model's name; an agent without both takes its parent's."""
    for one in (step, *step.above()):
        agent = agent_of(one.node)
        if not agent:
            continue
        if agent.selector is not None:
            return agent.selector, ""
        if agent.model is not UNSET and agent.model:
            return None, name_of(agent.model)
    return None, ""
