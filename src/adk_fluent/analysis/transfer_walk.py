"""The part of the walk that follows transfers: to an agent elsewhere, or back to the start of a composite.

A transfer leaves its sequence or starts a composite again. The walk notes the state there, in `skipped` or
`restarts`; the composite joins it at its end or start. So each transfer adds ways to a composite, and the
walk itself still follows the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adk_fluent.analysis.agent_walk import ModelWalk
from adk_fluent.analysis.data_flow import Flow
from adk_fluent.analysis.plan import Branch, Step, coordinator_of, left_early, owner_of
from adk_fluent.analysis.values.fact import Fact, Why, one_of
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.analysis.values.updates import add_parallel_messages

ROUNDS: Final = 8
"""The most walks over a body that runs again; the next one needs something new in the last one."""


class TransferWalk(ModelWalk):
    """The part of the walk that passes transfers, and composites that a transfer may start again.

    Attributes:
        skipped: sequence or loop → states in which a transfer skipped its remaining steps.
        restarts: composite → states in which a transfer inside started it again.
        skipping: composites that a transfer may leave.
        restarting: composites that a transfer may start again.
        transferring: the targets of the transfers that the walk follows now; each at most twice.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.skipped: dict[Step, list[Knowledge]] = {}
        self.restarts: dict[Step, list[Knowledge]] = {}
        skipping, restarting = left_early(flow.plan)
        self.skipping: set[Step] = skipping
        self.restarting: set[Step] = restarting
        self.transferring: list[Step] = []
        self.shift: tuple[int, Branch] = (0, ())

    def _pass(self, step: Step, state: Knowledge) -> None:
        """Pass a step by its kind; `state_walk._Walk` knows them all."""

    def transfer(self, step: Step, state: Knowledge) -> None:
        """Pass a transfer: the target runs instead of the remaining steps around the transfer."""
        self.reads(step, state)
        target = step.target
        if target is not None:
            if target.index <= step.index < target.end:
                self.restarts.setdefault(target, []).append(state.snapshot(self.entered[target]))
            else:
                self._hand_over(step, target, state)
        if step.node.runs.condition is None:
            state.dead = True

    def _hand_over(self, step: Step, target: Step, state: Knowledge) -> None:
        owner = owner_of(step)
        moved = state.snapshot(self.entered[owner]) if owner else state.fork()
        if self.transferring.count(target) < 2:
            self.transferring.append(target)
            entered, shift = dict(self.entered), self.shift
            self.shift = (len(target.branch), self.branch(step))
            self.visit(target, moved)
            if (coordinator := coordinator_of(target)) is not None:
                self._hand_on_to_peers(coordinator, step, moved)
            self.entered = entered
            self.shift = shift
            self.transferring.pop()
        if owner is not None:
            add_parallel_messages(step, owner, moved, self.flow.plan)
            self.skipped.setdefault(owner, []).append(moved)

    def _hand_on_to_peers(self, coordinator: Step, step: Step, state: Knowledge) -> None:
        """Record that the target, a sub-agent, may hand over to the other agents of its coordinator."""
        among = state.fork()
        self.visit(coordinator, among)
        state.join([state.fork(), among], "delegate", step)

    def _run_again(self, step: Step, state: Knowledge) -> None:
        """Pass a composite that a transfer inside may start again."""
        self.entered[step] = state
        ends: list[Knowledge] = []
        scope, known = state.fork(), dict[str, Fact]()
        for _ in range(ROUNDS):
            self._pass(step, scope)
            ends.append(scope)
            self.entered[step] = state
            came = self.restarts.pop(step, None)
            if came is None:
                break
            scope = state.fork()
            scope.join(came, "loop", step)
            more = self._merged(step, known, scope)
            if more is None:
                break
            known = more
            for key, fact in list(scope.facts.items()):
                scope.set(key, fact.or_else(self.gathered[step, key]))
        state.join(ends, "loop", step)

    def _merged(self, step: Step, known: Mapping[str, Fact], scope: Knowledge) -> dict[str, Fact] | None:
        """The facts that the earlier rounds and this one leave; `None` if this one adds no possibility."""
        merged = dict(known)
        new = False
        for key in scope.facts:
            fact, before = scope.get(key), known.get(key)
            gathered = self.gather(step, key, fact)
            if before is None:
                merged[key], new = fact.or_else(gathered), True
            elif fact.mask | before.mask != before.mask:
                merged[key] = one_of([before, fact], lambda writers: Why("loop", step, writers))
                new = True
        return merged if new else None
