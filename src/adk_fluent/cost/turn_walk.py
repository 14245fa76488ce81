"""The expected model calls of one turn of a pipeline: the agents, their calls and their tokens.

All numbers are averages. Inside a branch, the outputs of its steps have their full size, because an agent
there runs only if the branch was taken. After the branch, they are weighted with the branch's probability.
Weighting at once would make the requests inside a branch too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil, inf
from typing import Any, Final

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.cost.agent_calls import CostWalk, number_of
from adk_fluent.cost.request_sizes import longest_answer
from adk_fluent.cost.traffic import TrafficAssumptions, branch_probabilities
from adk_fluent.cost.walk_state import ModelCalls, StepOutput, Transcript
from adk_fluent.ir import execution
from adk_fluent.ir.passage import Passage
from adk_fluent.ir.tools import ends_loops


class TurnWalk(CostWalk):
    """The walk through composites; `CostWalk` counts the calls of their agents."""

    __slots__ = ()

    asked: list[ModelCalls]
    talk: Transcript
    vague: bool
    sizes: dict[str, float]
    moved: float
    share: float

    def visit(self, step: Step, weight: float) -> None:
        """Visit a step that is reached `weight` times on average."""
        if weight > 0:
            _VISITS[type(step.node.runs)](self, step, weight)

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, weight: float) -> None:
        """Visit the children one after another, until one transfers."""
        left, passing = 1.0, self.shared.passing(step)
        before, spoken = self.talk, 0
        for place, child in enumerate(step.children):
            told, spoken = self.talk.said[spoken:], len(self.talk.said)
            passage = passing.get(place - 1)
            if passage is not None and passage.taking == "runs":
                self.per_chunk(child, weight * left, passage, before, told)
            else:
                if passing and passage is None:
                    before = Transcript(self.talk)
                self.visit(child, weight * left)
            left *= 1 - self.moved
            self.moved = 0
        # a transfer skips the steps after it; the work of its target is counted here

    def per_chunk(
        self, step: Step, weight: float, passage: Passage, before: Transcript, told: Iterable[StepOutput]
    ) -> None:
        """Visit a step that runs once for each chunk of the answer before it.

        Each run sees the earlier conversation and its chunk; the outputs are joined.
        """
        heard = [one for one in told if one.step.name in passage.speakers]
        characters = sum(one.tokens for one in heard) * self.traffic.characters_per_token
        pieces = max(1, ceil(characters / (passage.characters or inf)))
        whole, sizes, share = self.talk, self.sizes, self.share
        self.talk, self.share = Transcript(before), share / pieces
        self.talk.add_weighed((one._replace(tokens=one.tokens / pieces) for one in heard), 1)
        keys = {key for one in heard for key in self.fixed_of(one.step).answered}
        begun = sizes | {key: self.size(key) / pieces for key in keys}
        spoken, self.sizes = len(self.talk.said), dict(begun)
        self.visit(step, weight * pieces)
        for one in self.talk.said[spoken:]:
            whole.add(one.step, one.tokens * pieces, one.messages)
        written = {key: size * pieces for key, size in self.sizes.items() if size != begun.get(key)}
        self.talk, self.sizes, self.share = whole, sizes | written, share
        self.shared.note(step, "runs", f"on {pieces} pieces, and says to all as much as in one answer")

    def repeated(self, step: Step, weight: float) -> None:
        """Visit the rounds of a loop; a fraction of a round is visited with this probability."""
        rounds = self.rounds(step)
        for _ in range(int(rounds)):
            self.in_order(step, weight)
        if (rest := rounds - int(rounds)) > 0:
            self.weighed([(rest, partial(self.in_order, step))], weight)

    def rounds(self, step: Step) -> float:
        """The number of rounds of a loop."""
        runs: execution.Repeated = step.node.runs
        given = number_of(self.traffic.loop_iterations, step.origin, step.name)
        if given is not None:
            return min(given, runs.max_rounds)
        inside = step.walk(self.plan.steps)
        if runs.until is None and not any(ends_loops(one.node.given.get("tools", ())) for one in inside):
            return runs.max_rounds
        self.vague = True
        return {"expected": min(2, runs.max_rounds), "low": 1, "high": runs.max_rounds}[self.way]

    def in_parallel(self, step: Step, weight: float) -> None:
        """Visit all children; none sees a sibling's output, because each has a separate branch."""
        sizes = dict(self.sizes)
        for child in step.children:
            before, self.sizes = self.sizes, dict(sizes)
            self.visit(child, weight)
            self.sizes = {**before, **self.sizes}

    def first_match(self, step: Step, weight: float) -> None:
        """Visit the branches of a route with their probabilities."""
        named, left = branch_probabilities(step, self.traffic)
        free = [child for child in step.children if child not in named]
        fixed = [(share, partial(self.visit, child)) for child, share in named.items()]
        if not free:
            self.weighed(fixed, weight)
            return
        self.vague = True
        may_skip = step.node.may_be_skipped
        if self.way == "expected":
            self.weighed(
                [*fixed, *((left / len(free), partial(self.visit, child)) for child in free)], weight
            )
        else:
            self.weighed([*fixed, (left, partial(self.extreme, free, may_skip))], weight)

    def on_failure(self, step: Step, weight: float) -> None:
        """Visit a remote agent, whose own cost is unknown, or its fallback."""
        self.weighed(
            [(self.traffic.fallback_rate, partial(self.visit, one)) for one in step.children], weight
        )
        self.talk.add(step, self.traffic.avg_output_tokens, 1)

    def extreme(self, children: list[Step], may_skip: bool, weight: float) -> None:
        """Visit the cheapest or the most expensive of some children, since only one of them runs."""
        asked, talk, sizes = self.asked, self.talk, self.sizes
        ways: list[tuple[float, list[ModelCalls], Transcript, dict[str, float]]] = []
        if may_skip:
            ways.append((0.0, [], talk, sizes))
        for child in children:
            self.asked, self.talk, self.sizes = [], Transcript(talk), dict(sizes)
            self.visit(child, weight)
            ways.append((sum(one.cost for one in self.asked), self.asked, self.talk, self.sizes))
        best = (min if self.way == "low" else max)(ways, key=lambda way: way[0])
        self.asked, self.talk, self.sizes = asked + best[1], best[2], best[3]

    def race(self, step: Step, weight: float) -> None:
        """Visit all branches of a race, because all of them cost money."""
        children, self.vague = step.children, True
        if self.way == "low":
            self.extreme(list(children), False, weight)
            return
        before = self.talk
        self.talk = Transcript(before)
        for child in children:
            self.visit(child, weight)
        self._scale(before, 1 / len(children))

    def fallback(self, step: Step, weight: float) -> None:
        """Visit the alternatives of a fallback; each runs if the one before fails."""
        children, self.vague = step.children, True
        rate = {"expected": self.traffic.fallback_rate, "low": 0.0, "high": 1.0}[self.way]
        share, ways = 1.0, list[tuple[float, Callable[[float], None]]]()
        for child in children:
            ways.append((share, partial(self.visit, child)))
            share *= rate
        self.weighed(ways, weight)

    def per_item(self, step: Step, weight: float) -> None:
        """Visit the body of a map once per item; each item has a separate branch."""
        runs, items = step.node.runs, self.items(step)
        self.sizes[runs.item_key] = self.size(runs.items) / max(items, 1)
        before = self.talk
        self.talk = Transcript(before)
        self.visit(step.children[0], weight * items)
        answer = self.talk.said[-1].tokens if len(self.talk.said) > len(before.said) else 0.0
        self._scale(before, items)
        self.sizes[runs.output_key] = answer * items

    def items(self, step: Step) -> float:
        """The number of items of a map."""
        given = number_of(self.traffic.map_items, step.origin, step.name, step.node.runs.items)
        self.vague = self.vague or given is None
        return given if given is not None else {"expected": 3.0, "low": 1.0, "high": 6.0}[self.way]

    def wrapped(self, step: Step, weight: float) -> None:
        """Visit the only child."""
        self.visit(step.children[0], weight)

    def transfer(self, step: Step, weight: float) -> None:
        """Visit a transfer: the step that it names runs in its place."""
        runs = step.node.runs
        if step.target is not None and step.target not in self.active:
            share = self.traffic.branch_probabilities.get(runs.target)
            if share is None:
                self.vague = self.vague or runs.condition is not None
                likely = {"expected": 0.5, "low": 0.0, "high": 1.0}[self.way]
                share = 1.0 if runs.condition is None else likely
            self.active.append(step.target)
            self.weighed([(share, partial(self.visit, step.target))], weight)
            self.active.pop()
            self.moved = share

    def leaf(self, step: Step, weight: float) -> None:
        """A step that asks no model."""
        node = step.node
        for key in node.key_writes:
            if (value := _set_to(node, key)) is not None:
                self.sizes[key] = len(str(value)) / self.traffic.characters_per_token
            elif node.kind == "capture":
                self.sizes[key] = self.traffic.avg_input_tokens

    def weighed(self, ways: Iterable[tuple[float, Callable[[float], None]]], weight: float) -> None:
        """Visit alternatives with their probabilities; none sees the outputs of another."""
        before, sizes = self.talk, self.sizes
        whole, after = Transcript(before), dict(sizes)
        for share, go in ways:
            if share <= 0:
                continue
            self.talk, self.sizes = Transcript(before), dict(sizes)
            go(weight * share)
            whole.add_weighed(self.talk.said[len(before.said) :], share)
            after.update(self.sizes)
        self.talk, self.sizes = whole, after

    def _scale(self, before: Transcript, factor: float) -> None:
        """Multiply all outputs since `before` by a factor."""
        whole = Transcript(before)
        whole.add_weighed(self.talk.said[len(before.said) :], factor)
        self.talk = whole


def _set_to(node: Any, key: str) -> object:
    """The value that an `S.set` writes to a key."""
    for effect in getattr(getattr(node, "fn", None), "effects", ()):
        if getattr(effect, "key", None) == key:
            return getattr(effect, "value", None)
    return None


_VISITS: Final[Mapping[type[execution.Execution], Callable[[TurnWalk, Step, float], None]]] = {
    execution.InOrder: TurnWalk.in_order,
    execution.Repeated: TurnWalk.repeated,
    execution.InParallel: TurnWalk.in_parallel,
    execution.FirstMatch: TurnWalk.first_match,
    execution.OnFailure: TurnWalk.on_failure,
    execution.FirstSuccess: TurnWalk.fallback,
    execution.RaceToSuccess: TurnWalk.race,
    execution.PerItem: TurnWalk.per_item,
    execution.Wrapped: TurnWalk.wrapped,
    execution.ByModel: TurnWalk.agent,
    execution.Leaf: TurnWalk.leaf,
    execution.HandOver: TurnWalk.transfer,
}
"""The method that visits a composite, by the way in which it runs its children."""


def least_request_tokens(tree: Plan) -> Mapping[Step, float]:
    """The least tokens of each agent's request, as far as they are known before a run.

    Instructions and constant values count in full. An answer counts with its agent's limit. The user's
    message, answers without a limit and unknown values do not count.
    """
    limits = {
        step.name: float(longest_answer(step.node) or 0)
        for step in tree.steps
        if isinstance(step.node.runs, execution.ByModel)
    }
    nothing = TrafficAssumptions(
        avg_input_tokens=0,
        avg_output_tokens=0,
        key_tokens=0,
        tool_result_tokens=0,
        output_tokens=limits,
    )
    turn = TurnWalk(tree, nothing, {}, "low", priced=False)
    turn.visit(tree.root, 1.0)
    return turn.requests
