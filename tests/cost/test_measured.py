"""Estimates against what a real model really used."""

from __future__ import annotations

import pytest

from adk_fluent.cost import Price, TrafficAssumptions, estimate_cost
from tests.cost.pipelines import LONG, QUESTION, cases
from tests.sampling import every

# `gemini-2.5-flash` at its list price of autumn 2026: the small model itself costs nothing.
LIST = Price.per_million(input=0.30, output=2.50)

pytestmark = pytest.mark.local


@pytest.mark.parametrize(
    "name", every(6, [name for name in cases("m") if name != "a race"], before_changes=6)
)
async def test_an_estimate_is_within_20_percent_of_what_a_model_used(name: str) -> None:
    """Four characters a token, and limits as lengths: within 20 % of the tokens that a model reports."""
    from adk_fluent.local import LocalLlm

    model = LocalLlm()
    case = cases(model)[name]
    cost = 0.0
    async with case.expression.session(state=dict(case.state)) as chat:
        for _ in range(case.turns):
            result = await chat.send(QUESTION)
            for used in result.usage.values():
                cost += float(LIST.input) * used.input_tokens + float(LIST.output) * used.output_tokens
    # This model is shown "[agent] said:" without ADK's warning around it.
    traffic = TrafficAssumptions(
        avg_input_tokens=len(QUESTION) / 4, avg_output_tokens=LONG, quote_tokens=5, **case.traffic
    )
    found = estimate_cost(case.expression, traffic, prices={model.model: LIST})
    assert found.per_invocation == pytest.approx(cost / case.turns / 1e6, rel=0.2)
