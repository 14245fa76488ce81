"""What a walk keeps: calls that are made, what was said, and prices to reckon with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from adk_fluent.analysis.audience import Sight
from adk_fluent.analysis.plan import Step
from adk_fluent.context.spec import Context
from adk_fluent.cost.branching import ToolAgents
from adk_fluent.cost.prices import Price
from adk_fluent.ir.nodes import ModelSelectorNode


class ModelCalls(NamedTuple):
    """Calls that one agent makes in a turn.

    Attributes:
        step: the agent.
        model: the model that answers.
        calls: how often, on average.
        input_tokens: of all these calls.
        output_tokens: likewise.
        cost: likewise, in USD.
    """

    step: Step
    model: str
    calls: float
    input_tokens: float
    output_tokens: float
    cost: float


class StepOutput(NamedTuple):
    """What a step said: tokens and messages, on average."""

    step: Step
    tokens: float
    messages: float


class Transcript:
    """The conversation so far, with sums of what everybody hears.

    Attributes:
        said: all of it, in order.
        apart: what was said on a branch of the conversation.
        tokens: of what was said on none.
        messages: likewise.
        own: speaker → its messages among these.
    """

    __slots__ = ("apart", "messages", "own", "said", "tokens")

    def __init__(self, before: Transcript | None = None) -> None:
        self.said: list[StepOutput] = list(before.said) if before else []
        self.apart: list[StepOutput] = list(before.apart) if before else []
        self.own: dict[Step, float] = dict(before.own) if before else {}
        self.tokens: float = before.tokens if before else 0.0
        self.messages: float = before.messages if before else 0.0

    def add(self, step: Step, tokens: float, messages: float) -> None:
        """Note what was said."""
        one = StepOutput(step, tokens, messages)
        self.said.append(one)
        if step.branch:
            self.apart.append(one)
            return
        self.tokens += tokens
        self.messages += messages
        self.own[step] = self.own.get(step, 0.0) + messages

    def add_weighed(self, said: Iterable[StepOutput], share: float) -> None:
        """Note what was said if it was said, which is this likely."""
        for step, tokens, messages in said:
            self.add(step, tokens * share, messages * share)


class Fixed(NamedTuple):
    """What is the same in every call of an agent."""

    tokens: float
    keys: tuple[str, ...]
    around: float
    sight: Sight
    spec: Context | None
    turns: int | None
    answer: float
    answered: tuple[str, ...]
    selector: ModelSelectorNode | None
    model: str
    inside: Mapping[ToolAgents, float]


class Rates(NamedTuple):
    """A price in numbers that are quick to reckon with, in USD per token."""

    input: float
    output: float
    tiers: tuple[tuple[int, float, float], ...]

    @classmethod
    def of(cls, price: Price) -> Rates:
        """Those of a price."""
        above = tuple((more, float(tier.input) / 1e6, float(tier.output) / 1e6) for more, tier in price.tiers)
        return cls(float(price.input) / 1e6, float(price.output) / 1e6, above)

    def cost(self, each: float, tokens: float, output: float) -> float:
        """What calls cost in sum, each with a request of so many tokens."""
        rates = (self.input, self.output)
        for more_than, higher_input, higher_output in self.tiers:
            if each > more_than:
                rates = (higher_input, higher_output)
        return tokens * rates[0] + output * rates[1]
