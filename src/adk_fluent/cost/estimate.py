"""`estimate_cost`: the expected cost of a pipeline, before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from adk_fluent import _html as html
from adk_fluent._tracebacks import brief
from adk_fluent.analysis.facts import was_built
from adk_fluent.analysis.plan import Plan, Step, plan
from adk_fluent.cost.agent_calls import Way
from adk_fluent.cost.model_selection import gives_price
from adk_fluent.cost.prices import Price, price_of
from adk_fluent.cost.traffic import (
    Place,
    TrafficAssumptions,
    branch_names,
    branch_probabilities,
    label_tokens,
    native_agent_names,
    trees_in_tools,
)
from adk_fluent.cost.turn_walk import TurnWalk
from adk_fluent.cost.walk_state import ModelCalls, StepOutput
from adk_fluent.errors import ArgumentError
from adk_fluent.ir import execution
from adk_fluent.ir.base import root_of
from adk_fluent.ir.nodes import (
    ModelSelectorNode,
    agent_of,
)


@dataclass(frozen=True, slots=True)
class AgentCost:
    """The average cost of one agent with one model, per invocation of the pipeline.

    Attributes:
        agent: the agent's unique name in the pipeline.
        origin: the name that the user gave to the agent.
        model: the name of the model.
        calls: the number of model calls.
        input_tokens: the tokens of all requests.
        output_tokens: the tokens of all answers.
        cost: the cost in USD.
    """

    agent: str
    origin: str
    model: str
    calls: float
    input_tokens: float
    output_tokens: float
    cost: float


@dataclass(frozen=True)
class CostEstimate:
    """The average cost of a pipeline; all sums are in USD.

    Attributes:
        agents: the cost of each agent per invocation, in the order of the pipeline.
        invocations_per_day: the number of runs per day.
        per_invocation: the cost of one run.
        low: the cost of a day if everything that the assumptions leave open takes the cheapest way.
        high: the cost of a day if it takes the most expensive way.
        assumptions: the assumptions of the estimate, in words.
    """

    agents: tuple[AgentCost, ...]
    invocations_per_day: float
    per_invocation: float
    low: float
    high: float
    assumptions: tuple[str, ...]

    @property
    def total_estimated(self) -> float:
        """The cost of a day."""
        return self.per_invocation * self.invocations_per_day

    @property
    def per_agent(self) -> Mapping[str, float]:
        """The cost of each agent per day, by the name that the user gave to it."""
        return self._per("origin")

    @property
    def per_model(self) -> Mapping[str, float]:
        """The cost of each model per day."""
        return self._per("model")

    @property
    def per_step(self) -> Mapping[str, float]:
        """The cost of each agent per invocation, by its unique name; for pictures."""
        return self._per("agent", 1)

    def _per(self, what: str, times: float | None = None) -> Mapping[str, float]:
        often = self.invocations_per_day if times is None else times
        found: dict[str, float] = {}
        for one in self.agents:
            name: str = getattr(one, what)
            found[name] = found.get(name, 0.0) + one.cost * often
        return MappingProxyType(found)

    def notes(self) -> Mapping[str, str]:
        """The cost of each agent as text, by its unique name, for a picture (`expr.visualize(cost=…)`)."""
        return {name: f"{dollars(cost)} per invocation" for name, cost in self.per_step.items()}

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON-able values; the layout is stable, and its `version` is in the dict."""
        names = AgentCost.__slots__
        return {
            "version": 1,
            "invocations_per_day": self.invocations_per_day,
            "total_estimated": self.total_estimated,
            "per_invocation": self.per_invocation,
            "low": self.low,
            "high": self.high,
            "per_agent": dict(self.per_agent),
            "per_model": dict(self.per_model),
            "agents": [{name: getattr(one, name) for name in names} for one in self.agents],
            "assumptions": list(self.assumptions),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each agent and one for the sum: calls and tokens per invocation, USD per day."""
        shown = [
            (
                one.agent,
                one.model,
                f"{one.calls:.2f}",
                f"{one.input_tokens:,.0f}",
                f"{one.output_tokens:,.0f}",
                dollars(one.cost * self.invocations_per_day),
            )
            for one in self.agents
        ]
        total = dollars(self.total_estimated)
        return [*shown, ("total", "", "", "", "", total)]

    def __str__(self) -> str:
        rows = [HEAD, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", *self._sums(), *(f"- {said}" for said in self.assumptions)])

    def _sums(self) -> list[str]:
        sure = self.low == self.high
        between = "" if sure else f", between {dollars(self.low)} and {dollars(self.high)}"
        return [
            f"{dollars(self.per_invocation)} per invocation; {dollars(self.total_estimated)} a day{between}.",
            "Assumed:",
        ]

    def _repr_html_(self) -> str:
        """HTML for a notebook: the table and the assumptions."""
        between = f"{dollars(self.low)} to {dollars(self.high)}"
        sums = [("per invocation", dollars(self.per_invocation)), ("a day", dollars(self.total_estimated))]
        facts = html.facts([*sums, ("between", between), ("assumed", "\n".join(self.assumptions))])
        return html.table(HEAD, self.rows()) + facts


HEAD: Final = ("agent", "model", "calls", "tokens in", "out", "per day")


def dollars(amount: float) -> str:
    """Format a sum in USD for people.

    >>> dollars(1234.5), dollars(0.5), dollars(0.0001234), dollars(0)
    ('$1,234.50', '$0.50', '$0.000123', '$0.00')
    """
    return f"${amount:,.2f}" if amount == 0 or amount >= 0.1 else f"${amount:.6f}"


def estimate_cost(
    subject: object,
    traffic: TrafficAssumptions | None = None,
    *,
    prices: Mapping[str, Price] | None = None,
) -> CostEstimate:
    """Estimate the cost of a pipeline, without running it and without importing google.adk.

    The estimate walks the pipeline: routes by their probabilities, loops by their rounds, maps by their
    items. For each agent it counts the tokens of the request (the instruction, the user's message, and the
    conversation that the agent's context selects) and of the answer, at the price of the model. It includes
    the calls of helper models for context and prompt, and of the agents in tools.

    Args:
        subject: an expression, an IR node, or a native agent or `App` that adk-fluent built.
        traffic: the use of the pipeline; by default 1,000 messages a day of 500 tokens, and answers of 200.
        prices: prices by model name that take precedence over all others.

    Raises:
        ArgumentError: a price is unknown, a name in `traffic` does not exist in the pipeline, or
            probabilities do not add up; the message names the agent and the remedy.
        ModelError: no candidate of a `.model_select` can take an agent's request.
        MissingExtraError: a price is not given, and `genai-prices` is not installed.

    Example:
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("draft", "m").instruct("Draft.") >> Agent("edit", "m").reads("x")
        >>> price = Price.per_million(input=1, output=2)
        >>> found = estimate_cost(pipeline, TrafficAssumptions(invocations_per_day=10), prices={"m": price})
        >>> round(found.per_invocation, 4), list(found.per_agent)
        (0.0019, ['draft', 'edit'])
    """
    root = root_of(subject)
    if traffic is not None and not isinstance(traffic, TrafficAssumptions):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"estimate_cost() takes TrafficAssumptions(…), not {type(traffic).__name__}.")
    traffic = traffic or TrafficAssumptions()
    tree = plan(root, resolved=was_built(subject))
    traffic.check_names(_names(tree))
    walk = TurnWalk(tree, traffic, prices or {}, labels=label_tokens(tree, traffic))
    with brief():
        expected, vague = _walked(walk, "expected")
        per_invocation = low = high = sum(one.cost for one in expected)
        if vague:
            low, high = (sum(one.cost for one in _walked(walk, way)[0]) for way in ("low", "high"))
    day = traffic.invocations_per_day
    return CostEstimate(
        tuple(_merged(expected, walk.shared.places)),
        day,
        per_invocation,
        min(low, per_invocation) * day,
        max(high, per_invocation) * day,
        tuple(_assumed(walk, expected)),
    )


def _walked(walk: TurnWalk, way: Way) -> tuple[list[ModelCalls], bool]:
    """The calls of a turn, and True if an assumption is missing for it."""
    said: tuple[StepOutput, ...] = ()
    while True:
        turn = TurnWalk(walk.plan, walk.traffic, walk.prices, way, said, walk.labels, walk.shared)
        turn.visit(walk.plan.root, 1.0)
        if said or walk.traffic.turns_per_session <= 1 or not turn.talk.said:
            return turn.asked, turn.vague
        said = tuple(turn.talk.said)  # later turns see these, as far as their contexts allow


def _merged(asked: Iterable[ModelCalls], places: Mapping[Step, Place]) -> Iterable[AgentCost]:
    """Sum the calls to one entry for each agent and model."""
    found: dict[tuple[Step, str], list[float]] = {}
    for one in asked:
        sums = found.setdefault((one.step, one.model), [0.0, 0.0, 0.0, 0.0])
        for number, value in enumerate(one[2:]):
            sums[number] += value
    ordered = sorted(found.items(), key=lambda entry: places[entry[0][0]])
    return (AgentCost(step.name, step.origin, model, *sums) for (step, model), sums in ordered)


def _names(tree: Plan) -> Mapping[str, dict[str, None]]:
    """For each field of the assumptions, the names that it may use; agents in tools are included."""
    found: dict[str, dict[str, None]] = {
        field: {}
        for field in ("branch_probabilities", "output_tokens", "loop_iterations", "map_items", "tool_calls")
    }
    for step in tree.steps:
        node = step.node
        both = dict.fromkeys((step.origin, step.name))
        if node.children and isinstance(
            node.runs, (execution.FirstMatch, execution.OnFailure, execution.ByModel)
        ):
            names = sorted({name for _, names in branch_names(step) for name in names})
            found["branch_probabilities"] |= dict.fromkeys(names)
        if isinstance(node.runs, execution.HandOver):
            found["branch_probabilities"][node.runs.target] = None
        if node.speaks:
            found["output_tokens"] |= both
        elif isinstance(node.runs, execution.Repeated):
            found["loop_iterations"] |= both
        elif isinstance(node.runs, execution.PerItem):
            found["map_items"] |= {**both, node.runs.items: None}
        if (agent := agent_of(node)) is not None and agent.tools:
            found["tool_calls"] |= both
            for inner in trees_in_tools(agent):
                found["branch_probabilities"] |= dict.fromkeys((inner.root.name, inner.root.origin))
                for field, names in _names(inner).items():
                    found[field] |= names
    return found


# --- in words -------------------------------------------------------------------------------------


def _assumed(walk: TurnWalk, asked: list[ModelCalls]) -> Iterable[str]:
    """The assumptions of an estimate, as sentences."""
    tree, traffic = walk.plan, walk.traffic
    yield (
        f"{traffic.invocations_per_day:,g} invocations a day, of {traffic.avg_input_tokens:,g} tokens, "
        f"answered in {traffic.avg_output_tokens:,g} unless a label or a limit says less"
    )
    if traffic.turns_per_session > 1:
        turns = f"{traffic.turns_per_session:g}"
        yield f"sessions of {turns} turns, which see the turns before as far as contexts let them"
    for step in tree.steps:
        if step.children or step.node.speaks:
            yield from _of_step(step, traffic, walk)
    yield from walk.shared.notes.values()
    if any(isinstance(step.node.runs, execution.UNTIL_SUCCESS) for step in tree.steps):
        failing = f"{traffic.fallback_rate:.0%}"
        yield f"an alternative before a // fails in {failing} of runs; all branches of a race are paid for"
    if any((agent := agent_of(step.node)) is not None and agent.retries for step in tree.steps):
        yield f"{traffic.wrong_answer_rate:.0%} of answers do not fit where an agent may be asked again"
    if traffic.retries:
        yield f"{traffic.retries:g} more attempts per model call"
    yield (
        f"{traffic.characters_per_token:g} characters per token of instructions, "
        f"{traffic.tokens_per_message:g} tokens around each message; no cached input, images or audio"
    )
    if acting := dict.fromkeys(type(one).__name__ for step in tree.steps for one in _middleware(step)):
        yield f"the effect of middleware ({', '.join(acting)}) is not included"
    yield _dated(walk, asked)


def _middleware(step: Step) -> tuple[object, ...]:
    return step.node.annotations.middleware


def _of_step(step: Step, traffic: TrafficAssumptions, walk: TurnWalk) -> Iterable[str]:
    node = step.node
    for name, what in (("planner", "planner"), ("code_executor", "code executor")):
        if node.given.get(name) is not None:
            yield f"{step.name}: the tokens of its {what} are not included"
    if node.given.get("tools"):
        for name in native_agent_names(node):
            yield f"{step.name}: the cost of {name}, a native agent in one of its tools, is not included"
    if (fixed := walk.shared.fixed.get(step)) is not None and fixed.inside:
        shares = ", ".join(f"{tree.plan.root.name} {share:.0%}" for tree, share in fixed.inside.items())
        yield f"{step.name}: of its calls of tools, {shares}"
    if isinstance(node.runs, execution.FirstMatch) and step.children:
        yield f"{step.name}: {_shares(step, traffic)}"
    elif isinstance(node.runs, execution.Repeated):
        yield f"{step.name}: {walk.rounds(step):g} rounds"
    elif isinstance(node.runs, execution.PerItem):
        yield f"{step.name}: {walk.items(step):g} items"
    elif isinstance(node.runs, execution.ByModel) and step.children:
        yield f"{step.name}: {_shares(step, traffic)}"
    elif node.opaque:
        yield f"{step.name} is a native agent whose models are unknown; its cost is not included"
    elif node.speaks and not isinstance(node.runs, execution.ByModel):
        yield f"{step.name} is served elsewhere; its cost there is not included"


def _shares(step: Step, traffic: TrafficAssumptions) -> str:
    named, left = branch_probabilities(step, traffic)
    free = [child for child in step.children if child not in named]
    own = isinstance(step.node.runs, execution.ByModel)
    usual = left / (len(free) + own) if len(free) + own else 0.0
    shares = [f"{child.name} {named.get(child, usual):.0%}" for child in step.children]
    return ", ".join([*([f"answers itself {left - usual * len(free):.0%}"] if own else []), *shares])


def _dated(walk: TurnWalk, asked: list[ModelCalls]) -> str:
    """The sources of the prices."""
    sources: dict[str, None] = {}
    found: dict[tuple[str, ModelSelectorNode | None], None] = {}
    for one in asked:
        found[one.model, walk.shared.fixed[one.step].selector] = None
    for model, selector in found:
        if selector is not None and gives_price(selector, model):
            sources["the candidates"] = None
        elif (price := price_of(model, walk.prices)) is not None:
            sources[price.source] = None
    return f"prices as of {', '.join(sources)}" if sources else "no model is asked"
