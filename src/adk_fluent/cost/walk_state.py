"""The values that a cost walk collects or keeps: model calls, outputs, prices as floats, and its cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from adk_fluent.analysis.audience import VisibleHistory
from adk_fluent.analysis.plan import Step, passages_of
from adk_fluent.context.spec import Context
from adk_fluent.cost.prices import Price
from adk_fluent.cost.traffic import Place, ToolAgents
from adk_fluent.ir.nodes import ModelSelectorNode
from adk_fluent.ir.passage import Passage


class ModelCalls(NamedTuple):
    """The expected calls of one agent in a turn.

    Attributes:
        step: the agent.
        model: the model that answers.
        calls: the average number of calls.
        input_tokens: the input tokens of all these calls.
        output_tokens: the output tokens of all these calls.
        cost: the cost of all these calls in USD.
    """

    step: Step
    model: str
    calls: float
    input_tokens: float
    output_tokens: float
    cost: float


class StepOutput(NamedTuple):
    """The output of a step: the average number of tokens and messages."""

    step: Step
    tokens: float
    messages: float


class Transcript:
    """The conversation so far, with sums of the outputs that every agent sees.

    The sums avoid adding up the whole conversation for each agent, which would take quadratic time.

    Attributes:
        said: all outputs in order.
        on_branches: the outputs on a branch of the conversation, which only some agents see.
        tokens: the tokens of all other outputs.
        messages: the messages of all other outputs.
        own: for each speaker, its messages among these.
    """

    __slots__ = ("messages", "on_branches", "own", "said", "tokens")

    def __init__(self, before: Transcript | None = None) -> None:
        self.said: list[StepOutput] = list(before.said) if before else []
        self.on_branches: list[StepOutput] = list(before.on_branches) if before else []
        self.own: dict[Step, float] = dict(before.own) if before else {}
        self.tokens: float = before.tokens if before else 0.0
        self.messages: float = before.messages if before else 0.0

    def add(self, step: Step, tokens: float, messages: float) -> None:
        """Add the output of a step."""
        one = StepOutput(step, tokens, messages)
        self.said.append(one)
        if step.branch:
            self.on_branches.append(one)
            return
        self.tokens += tokens
        self.messages += messages
        self.own[step] = self.own.get(step, 0.0) + messages

    def add_weighed(self, said: Iterable[StepOutput], share: float) -> None:
        """Add outputs that occur with the probability `share`."""
        for step, tokens, messages in said:
            self.add(step, tokens * share, messages * share)


class AgentConstants(NamedTuple):
    """The parts that are equal in every call of an agent."""

    tokens: float
    keys: tuple[str, ...]
    around: float
    visible: VisibleHistory
    spec: Context | None
    turns: int | None
    answer: float
    answered: tuple[str, ...]
    selector: ModelSelectorNode | None
    model: str
    inside: Mapping[ToolAgents, float]


class Rates(NamedTuple):
    """A price in USD per token, as floats, which are faster than decimals."""

    input: float
    output: float
    tiers: tuple[tuple[int, float, float], ...]

    @classmethod
    def of(cls, price: Price) -> Rates:
        """Convert a `Price`."""
        above = tuple((more, float(tier.input) / 1e6, float(tier.output) / 1e6) for more, tier in price.tiers)
        return cls(float(price.input) / 1e6, float(price.output) / 1e6, above)

    def cost(self, each: float, tokens: float, output: float) -> float:
        """The cost of calls with these tokens in sum; the request of each call has `each` tokens."""
        rates = (self.input, self.output)
        for more_than, higher_input, higher_output in self.tiers:
            if each > more_than:
                rates = (higher_input, higher_output)
        return tokens * rates[0] + output * rates[1]


@dataclass(slots=True)
class WalkCache:
    """Values that all walks through a tree, and through the agents in its tools, share.

    Attributes:
        fixed: the parts that are equal in every call of an agent.
        rates: the prices of models.
        notes: the assumptions about helper models, in words.
        places: the positions of agents; an agent in a tool comes after the agent that has the tool.
        passages: for each sequence or loop, the steps that pass their answers on in chunks, by index.
    """

    fixed: dict[Step, AgentConstants] = field(default_factory=dict[Step, AgentConstants])
    rates: dict[tuple[str, ModelSelectorNode | None], Rates] = field(
        default_factory=dict["tuple[str, ModelSelectorNode | None]", Rates]
    )
    notes: dict[tuple[str, str], str] = field(default_factory=dict["tuple[str, str]", str])
    places: dict[Step, Place] = field(default_factory=dict[Step, Place])
    passages: dict[Step, Mapping[int, Passage]] = field(default_factory=dict[Step, Mapping[int, Passage]])

    def passing(self, step: Step) -> Mapping[int, Passage]:
        """The steps of a sequence or loop that pass their answers on in chunks, by index; cached."""
        if (found := self.passages.get(step)) is None:
            found = self.passages[step] = passages_of(step)
        return found

    def note(self, step: Step, what: str, told: str) -> None:
        """Record an assumption about a step, unless it is recorded already."""
        self.notes.setdefault((step.name, what), f"{step.name}: {what} {told}")
