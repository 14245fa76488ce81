"""The expected model calls of an agent: their number, and the tokens of each request.

An agent may be called several times in a turn, since each tool call leads to another request, and a wrong
answer to a correction. The walk counts all of them with their probabilities. The number is an expectation and
not a simulation, so that one pass over the tree suffices and equal assumptions give equal estimates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from adk_fluent.analysis.audience import visible_history
from adk_fluent.analysis.history import branch_is_visible
from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ExpectedRequest, Volume
from adk_fluent.cost.model_selection import Situation, choose, chosen_by, price_in, without_price
from adk_fluent.cost.prices import Price, name_of, price_of
from adk_fluent.cost.request_sizes import constant_parts, longest_answer, quotation_size, rewritten_parts
from adk_fluent.cost.traffic import Place, TrafficAssumptions, agents_in_tools, branch_probabilities
from adk_fluent.cost.walk_state import AgentConstants, ModelCalls, Rates, StepOutput, Transcript, WalkCache
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.nodes import AgentNode, ModelSelectorNode, agent_of

Way = Literal["expected", "low", "high"]
"""The way of a run if the assumptions leave it open: the average, the cheapest, or the most expensive one."""

CALL: Final = 25
"""Tokens of a tool call; a transfer is one, too."""

CORRECTION: Final = 30
"""Tokens of the message that explains to a model the fault of its answer."""


@dataclass(slots=True)
class CostWalk(ABC):
    """A walk through the tree that collects the expected model calls of one turn.

    Attributes:
        plan: the tree.
        traffic: the assumptions.
        prices: prices by model name that take precedence over all others.
        way: the way of a run if the assumptions leave it open.
        earlier: the outputs of one turn, to estimate what agents see of earlier turns.
        labels: for each state key, the tokens of the labels that a route compares it with.
        shared: values that walks share.
        caller: for agents in a tool: the place of the agent that has the tool, its selector and its model.
        asked: the calls so far.
        requests: the tokens of the longest request of each agent.
        priced: True if calls are priced; False if only requests are measured.
        talk: the conversation of this turn so far.
        share: the fraction of a usual answer that agents write if each runs on one chunk.
        vague: True if an assumption is missing, so that the cheapest and the most expensive way differ.
    """

    plan: Plan
    traffic: TrafficAssumptions
    prices: Mapping[str, Price]
    way: Way = "expected"
    earlier: tuple[StepOutput, ...] = ()
    labels: Mapping[str, float] = field(default_factory=dict[str, float])
    shared: WalkCache = field(default_factory=WalkCache)
    caller: tuple[Place, ModelSelectorNode | None, str] = ((), None, "")
    asked: list[ModelCalls] = field(default_factory=list[ModelCalls])
    talk: Transcript = field(default_factory=Transcript)
    vague: bool = False
    sizes: dict[str, float] = field(default_factory=dict[str, float])
    requests: dict[Step, float] = field(default_factory=dict[Step, float])
    priced: bool = True
    moved: float = 0
    share: float = 1.0
    active: list[Step] = field(default_factory=list[Step])

    @abstractmethod
    def visit(self, step: Step, weight: float) -> None:
        """Visit a step that is reached `weight` times on average."""

    @abstractmethod
    def weighed(self, ways: Iterable[tuple[float, Callable[[float], None]]], weight: float) -> None:
        """Visit alternatives with their probabilities; none sees the outputs of another."""

    @abstractmethod
    def extreme(self, children: list[Step], may_skip: bool, weight: float) -> None:
        """Visit the cheapest or the most expensive of some children, since only one of them runs."""

    def agent(self, step: Step, weight: float) -> None:
        """Count the calls of an agent, with those that its tools cause, and visit its delegates."""
        traffic, fixed = self.traffic, self.fixed_of(step)
        answer = fixed.answer * self.share
        shares, left = branch_probabilities(step, traffic) if step.children else ({}, 1.0)
        free = [child for child in step.children if child not in shares]
        self.vague = self.vague or bool(free)
        usual = left / (len(free) + 1) if self.way == "expected" else 0.0
        handed = sum(shares.values()) + usual * len(free)
        tools = self._tool_calls(step)
        spoken = (1 - handed) * answer + handed * CALL
        request, questions = self.request(step, fixed)
        self.requests[step] = max(request, self.requests.get(step, 0.0))
        each = CALL + self._tool_result(step, fixed, weight * tools) + 2 * traffic.tokens_per_message
        wrong, corrections = self._wrong_answers(step)
        shown = answer + CORRECTION + 2 * traffic.tokens_per_message
        tokens = request * (1 + tools) + each * tools * (tools + 1) / 2
        tokens += (request + each * tools) * wrong + shown * corrections
        output = spoken + CALL * tools + answer * wrong
        again = 1 + traffic.retries
        self._charge(step, fixed, weight, (1 + tools + wrong) * again, tokens * again, output * again)
        for question in questions:
            self._ask_helper(step, fixed, question, weight * again)
        self.talk.add(step, (1 - handed) * answer + handed * 2 * CALL, 1)
        for key in fixed.answered:
            self.sizes[key] = answer
        ways = [(share, partial(self.visit, child)) for child, share in shares.items()]
        if self.way == "expected":
            ways += [(usual, partial(self.visit, child)) for child in free]
        elif free:
            ways.append((left, partial(self.extreme, free, True)))
        if ways:
            self.weighed(ways, weight)

    def _wrong_answers(self, step: Step) -> tuple[float, float]:
        """The expected number of wrong answers, and the number of them in all later requests together."""
        agent = agent_of(step.node)
        retries = agent.retries if agent else 0
        self.vague = self.vague or retries > 0
        rate = {"expected": self.traffic.wrong_answer_rate, "low": 0.0, "high": 1.0}[self.way]
        likely = [rate**number for number in range(1, retries + 1)]
        return sum(likely), sum(number * share for number, share in enumerate(likely, 1))

    def _tool_calls(self, step: Step) -> float:
        if not step.node.tools:
            return 0.0
        given = number_of(self.traffic.tool_calls, step.origin, step.name)
        self.vague = self.vague or given is None
        return given if given is not None else {"expected": 1.0, "low": 0.0, "high": 2.0}[self.way]

    def _tool_result(self, step: Step, fixed: AgentConstants, calls: float) -> float:
        """The average tokens of a tool's result; also counts the calls of the agents in tools."""
        found = self.traffic.tool_result_tokens
        if not fixed.inside or calls <= 0 or not self.priced:
            return found
        result = found * (1 - sum(fixed.inside.values()))
        alone = replace(self.traffic, avg_input_tokens=CALL, turns_per_session=1)
        for tree, share in fixed.inside.items():
            caller = self.shared.places[step], fixed.selector, fixed.model
            turn = type(self)(
                tree.plan, alone, self.prices, self.way, (), tree.labels, self.shared, caller, self.asked,
                vague=self.vague, sizes=dict(self.sizes),
            )  # fmt: skip
            turn.visit(tree.plan.root, calls * share)
            self.vague, self.sizes = turn.vague, turn.sizes
            result += share * (turn.talk.said[-1].tokens if turn.talk.said else 0.0)
        return result

    def _charge(
        self, step: Step, fixed: AgentConstants, weight: float, calls: float, tokens: float, output: float
    ) -> None:
        if not self.priced:
            return
        model, rates = self.price(step, fixed, tokens / calls)
        cost = rates.cost(tokens / calls, tokens, output)
        self.asked.append(
            ModelCalls(step, model, calls * weight, tokens * weight, output * weight, cost * weight)
        )

    def _ask_helper(self, step: Step, fixed: AgentConstants, question: ExpectedRequest, calls: float) -> None:
        """Count a call of a helper model for the context or the prompt of an agent."""
        if not self.priced:
            return
        if question.answer is None:
            self.shared.note(step, question.of, "asks an embedding model; its cost is not included")
            return
        if question.model is None:
            model, rates = self.price(step, fixed, question.tokens)
        else:
            model = name_of(question.model)
            rates = self._rates(step, model, None)
        cost = rates.cost(question.tokens, question.tokens, question.answer)
        tokens, answer = question.tokens * calls, question.answer * calls
        self.asked.append(ModelCalls(step, model, calls, tokens, answer, cost * calls))
        told = f"asks {model} once for each of its answers, and gets {question.answer:,.0f} tokens"
        self.shared.note(step, question.of, told)

    def request(self, step: Step, fixed: AgentConstants) -> tuple[float, Sequence[ExpectedRequest]]:
        """The tokens of an agent's first request, and the requests to helper models for it."""
        traffic = self.traffic
        if fixed.visible.history == "last":
            heard = (
                one for one in reversed(self.talk.said) if branch_is_visible(one.step.branch, step.branch)
            )
            last = next(heard, None)
            shown = traffic.avg_input_tokens if last is None else last.tokens + fixed.around
            questions: Sequence[ExpectedRequest] = ()
        else:
            volume, questions = self._conversation(step, fixed)
            shown = traffic.avg_input_tokens + volume
        tokens = fixed.tokens + sum(map(self.size, fixed.keys)) + shown + traffic.tokens_per_message
        for written in rewritten_parts(step.node, self.size, traffic):
            tokens -= written.shorter
            if written.every_run:
                questions = (*questions, written.question)
            else:
                told = "asks once for all runs of a process; the cost is not included"
                self.shared.note(step, written.question.of, told)
        return tokens, questions

    def _conversation(self, step: Step, fixed: AgentConstants) -> tuple[float, Sequence[ExpectedRequest]]:
        """The tokens of the conversation that an agent sees, and the requests to helper models about it."""
        if fixed.visible.history == "none":
            return 0.0, ()
        traffic, talk = self.traffic, self.talk
        around = fixed.around + traffic.tokens_per_message
        if fixed.visible.is_whole:
            tokens, messages = self._heard(talk.on_branches, step, fixed)
            tokens += talk.tokens + talk.messages * around - talk.own.get(step, 0.0) * fixed.around
            messages += talk.messages
        else:
            tokens, messages = self._heard(talk.said, step, fixed)
        turns, earlier = self._before(step, fixed)
        spec = fixed.spec
        if spec is None or not spec.asks:
            return tokens + earlier, ()
        given = Volume(tokens + earlier, messages, earlier, turns, traffic.avg_input_tokens)
        questions, left = spec.expected(given, traffic.avg_output_tokens)
        if questions:
            self.sizes.update(dict.fromkeys(spec.extracted_keys, traffic.avg_output_tokens))
        return left.tokens, questions

    def _heard(self, said: Iterable[StepOutput], step: Step, fixed: AgentConstants) -> tuple[float, float]:
        """The tokens and the number of messages that an agent sees of some outputs."""
        tokens, count, each, visible = 0.0, 0.0, self.traffic.tokens_per_message, fixed.visible
        for speaker, words, messages in said:
            if branch_is_visible(speaker.branch, step.branch) and visible.admits(speaker) != "no":
                tokens += words + messages * (each + fixed.around * (speaker is not step))
                count += messages
        return tokens, count

    def _before(self, step: Step, fixed: AgentConstants) -> tuple[float, float]:
        """The average number of earlier turns, which is half the session's turns, and the tokens of them."""
        turns = (self.traffic.turns_per_session - 1) / 2
        if fixed.turns is not None:
            turns = min(turns, fixed.turns - 1)
        if turns <= 0 or not fixed.visible.earlier:
            return 0.0, 0.0
        traffic, visible = self.traffic, fixed.visible
        tokens = traffic.avg_input_tokens + traffic.tokens_per_message if visible.user else 0.0
        return turns, (tokens + self._heard(self.earlier, step, fixed)[0]) * turns

    def size(self, key: str) -> float:
        """The tokens of a state value."""
        if (found := self.sizes.get(key)) is not None:
            return found
        given = self.traffic.key_tokens
        return given.get(key, 50) if isinstance(given, Mapping) else given

    def fixed_of(self, step: Step) -> AgentConstants:
        """The parts that are equal in every call of an agent; cached."""
        if (found := self.shared.fixed.get(step)) is None:
            found = self.shared.fixed[step] = self._fix(step)
            self.shared.places[step] = (*self.caller[0], step.index)
        return found

    def _fix(self, step: Step) -> AgentConstants:
        node, traffic = step.node, self.traffic
        characters, keys = constant_parts(step, self.plan.root.node)
        spec = node.annotations.context
        context = spec if isinstance(spec, Context) else None
        selector, model = chosen_by(step)
        if selector is None and not model:
            _, selector, model = self.caller
        quoting = traffic.quote_tokens
        tokens = characters / traffic.characters_per_token + traffic.tokens_per_message
        return AgentConstants(
            tokens,
            keys,
            quotation_size(step) / traffic.characters_per_token if quoting is None else quoting,
            visible_history(node),
            context,
            None if context is None else context.view().turns,
            self._answer(step),
            _answered(node),
            selector,
            model,
            agents_in_tools(step, traffic) if node.given.get("tools") else {},
        )

    def _answer(self, step: Step) -> float:
        """The tokens of an agent's answer."""
        node, given = step.node, self.traffic.output_tokens
        for name in (step.name, step.origin):
            if name in given:
                return given[name]
        key = node.output_key
        usual = self.labels.get(key) if isinstance(key, str) else None
        answer = self.traffic.avg_output_tokens if usual is None else usual
        most = longest_answer(node)
        return answer if most is None else min(answer, most)

    def price(self, step: Step, fixed: AgentConstants, tokens: float) -> tuple[str, Rates]:
        """The model that an agent asks with a request of so many tokens, and its price."""
        selector, model = fixed.selector, fixed.model
        if selector is not None:
            model = self._chosen(step, selector, tokens)
        return model, self._rates(step, model, selector)

    def _rates(self, step: Step, model: str, selector: ModelSelectorNode | None) -> Rates:
        rates = self.shared.rates.get((model, selector))
        if rates is None:
            given = self.prices
            price = price_of(model, given) if selector is None else price_in(selector, model, given)
            if price is None:
                raise ArgumentError(without_price(step, model, selector is not None))
            rates = self.shared.rates[model, selector] = Rates.of(price)
        return rates

    def _chosen(self, step: Step, selector: ModelSelectorNode, tokens: float) -> str:
        at = Situation(tokens=int(tokens))
        self.vague = self.vague or selector.strategy == "adaptive"
        if selector.strategy == "adaptive" and self.way == "high":
            best = max(selector.candidates, key=lambda one: one.quality_tier)
            at = at._replace(last=best.model)
        return choose(selector, step.name, at)


def _answered(node: AgentNode) -> tuple[str, ...]:
    own = (node.output_key,) if isinstance(node.output_key, str) else ()
    return (*own, *(written.key for written in node.written_fields))


def number_of(numbers: float | Mapping[str, float] | None, *names: str) -> float | None:
    """The number that the user gave for one of these names, or for all; else `None`."""
    if isinstance(numbers, Mapping):
        return next((numbers[name] for name in names if name in numbers), None)
    return numbers
