"""Which model answers an agent, as far as that is known before a run, and what it costs."""

from __future__ import annotations

from adk_fluent.analysis.plan import Step
from adk_fluent.cost.choosing import unpriced
from adk_fluent.cost.prices import name_of
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.nodes import AgentNode, ModelSelectorNode


def without_price(step: Step, model: str, selected: bool) -> str:
    """What an error says of a model whose price nobody knows."""
    if selected:
        return unpriced(step.name, model)
    if not model:
        return (
            f"Agent {step.name!r} has no model, so nobody knows what it costs. Give it one: "
            f"Agent({step.origin!r}, 'gemini-2.5-flash'), or Preset(model=…) for several."
        )
    return (
        f"Agent {step.name!r}: the price of model {model!r} is unknown. Give it: "
        f"estimate_cost(…, prices={{{model!r}: Price.per_million(input=…, output=…)}}) of adk_fluent.cost."
    )


def chosen_by(step: Step) -> tuple[ModelSelectorNode | None, str]:
    """What chooses the model of an agent, or its model: its own, or that of the agent above without one."""
    for one in (step, *step.above()):
        node = one.node
        if not isinstance(node, AgentNode):
            continue
        if node.selector is not None:
            return node.selector, ""
        if node.model is not UNSET and node.model:
            return None, name_of(node.model)
    return None, ""
