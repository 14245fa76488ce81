"""The data-flow analysis: one walk over the tree, in the order in which steps run.

Idea: an abstract interpreter. `visit` passes a step with the `Knowledge` at that point. It adds the facts to
the reads of the step, then changes the knowledge as the step would change the state. A composite forks the
knowledge for its children and joins the forks: `join` if one child runs, `both` if all run in parallel.

Invariant: the knowledge at a step includes every run that reaches it. So "present" and "never" are proofs.

Loops: the body is walked once for the first round, and then for later rounds until a round adds no new
possibility, at most `ROUNDS` times. The first round is kept apart because a key is often missing only there.
A transfer leaves its sequence or starts a composite again; the walk notes the state in `skipped` or
`restarts`, and the composite joins it at its end or start. The usual fixed point over a control-flow graph
would lose which composite made a key uncertain, and the messages name that (`Why`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from adk_fluent.analysis.agent_walk import ROUNDS, TransferWalk
from adk_fluent.analysis.data_flow import Flow
from adk_fluent.analysis.history import ConversationSoFar
from adk_fluent.analysis.plan import Step, plan
from adk_fluent.analysis.values import updates
from adk_fluent.analysis.values.fact import (
    ABSENT,
    PRESENT,
    STATUS,
    Fact,
    InitialValue,
    Person,
    SpokenIn,
    Why,
    capture_sources,
    item_of,
    one_of,
    stored_values,
    written_fact,
)
from adk_fluent.analysis.values.key_effects import Siblings
from adk_fluent.analysis.values.kinds import covers, exhaustive
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.ir import execution
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import ArtifactNode, CaptureNode, GateNode, NativeNode, TransformNode
from adk_fluent.ir.state_keys import is_temporary


def flow_of(
    root: Node,
    state: Mapping[str, Any] | None = None,
    *,
    open_state: bool = False,
    resolved: bool = False,
    later_run: bool = False,
) -> Flow:
    """Walk a tree and find the facts about its reads, writes and conversation.

    Args:
        state: the session's state before the run; a key that holds `None` may be missing.
        open_state: true if the state may hold more keys.
        resolved: true if `resolve_names` has named the tree.
        later_run: true if an earlier run of the session may have left every key that the tree writes.
    """
    flow = Flow(plan(root, resolved=resolved))
    start = Knowledge()
    if later_run:
        for key in dict.fromkeys(key for step in flow.plan.steps for key in flow.keys.writes(step)):
            if not is_temporary(key):
                start.set(key, Fact(PRESENT | ABSENT, of=(InitialValue(key),)))
    if open_state:
        start.forget(flow.plan.root)
    for key, value in (state or {}).items():
        mask = PRESENT | ABSENT if value is None else PRESENT
        start.set(key, Fact(mask, type=type(cast(object, value)), of=(InitialValue(key),)))
    _Walk(flow).visit(flow.plan.root, start)
    return flow


class _Walk(TransferWalk):
    """The walk over all kinds of steps.

    Attributes:
        later: loop → the facts at the start of its later rounds, for the keys that its body changes.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.later: dict[Step, dict[str, Fact]] = {}

    def visit(self, step: Step, state: Knowledge) -> None:
        """Pass a step: note the facts in `state` that it reads, then change `state` as the step does."""
        if state.dead:
            return
        self.flow.visits[step] = self.flow.visits.get(step, 0) + 1
        annotations = step.node.annotations
        if annotations is not NO_ANNOTATIONS and annotations.boundary is not None:
            updates.record_boundary(step, state)
        if annotations.middleware:
            updates.apply_middleware(state, step)
        if state.conversation.edges and not isinstance(step.node.runs, _PASSING):
            self._note_stream(step, state)
        if step in self.restarting:
            self._run_again(step, state)
        else:
            self._pass(step, state)
        if annotations is not NO_ANNOTATIONS and annotations.edge is not None:
            speakers = state.conversation.last if annotations.edge.buffering != "full" else ()
            state.conversation = state.conversation._replace(edges=speakers)

    def _pass(self, step: Step, state: Knowledge) -> None:
        """Pass a step with the function for its way to run children, or for its type.

        A composite may also read keys before its children run, and write keys after them.
        """
        node = step.node
        if isinstance(node.runs, _FRAMES):
            self.reads(step, state)
        _visitor(node)(self, step, state)
        if isinstance(node.runs, execution.SILENT_FRAMES) and not state.dead:
            for key in self.flow.keys.writes(step):
                state.set(key, written_fact(step))

    def _note_stream(self, step: Step, state: Knowledge) -> None:
        for speaker in state.conversation.edges:
            self.flow.edges[speaker, step] = None
        state.conversation = state.conversation._replace(edges=())

    # --- steps ------------------------------------------------------------------------------------

    def transform(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        updates.apply_transform(state, step, step.node)
        updates.apply_sightings(state, step, step.node.seen, always=True)

    def step(self, step: Step, state: Knowledge) -> None:
        """Pass a step that only reads and writes keys."""
        self.reads(step, state)
        for key in self.flow.keys.writes(step):
            state.set(key, written_fact(step))

    def gate(self, step: Step, state: Knowledge) -> None:
        """Pass a gate: the run may pause here, and an approval may write its payload."""
        self.reads(step, state)
        updates.record_pause(step, state)
        for key in self.flow.keys.writes(step):
            state.maybe(key, written_fact(step, of=(Person.USER,)), Why("gate", step, (step,)))

    def capture(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        for key in self.flow.keys.writes(step):
            state.set(key, written_fact(step, str, of=capture_sources(step.node)))

    # --- composites -------------------------------------------------------------------------------

    def sequence(self, step: Step, state: Knowledge) -> None:
        """Pass the children in order; a transfer may skip the remaining ones."""
        if step not in self.skipping:
            self._in_turn(step, state)
            return
        self.entered[step] = state
        inside = state.fork()
        self._in_turn(step, inside)
        state.join([inside, *self.skipped.pop(step, ())], "moved", step)

    def _in_turn(self, step: Step, state: Knowledge) -> None:
        passages = self.flow.passages.get(step)
        if passages is None:
            for child in step.children:
                self.visit(child, state)
            return
        before = state.conversation
        for place, child in enumerate(step.children):
            passage = passages.get(place - 1)
            if passage is not None and passage.taking == "runs":
                self._on_chunks(child, state, before)
                continue
            if passage is None or not passage.taking:
                before = state.conversation
            self.visit(child, state)

    def _on_chunks(self, step: Step, state: Knowledge, before: ConversationSoFar) -> None:
        """Pass a step that runs for each chunk of an answer; it sees the answer and the history `before`."""
        whole, chunk = state.conversation, before
        for speaker in whole.last:
            chunk = chunk.with_message(speaker, self.branch(speaker), certain=len(whole.last) == 1)
        state.conversation = chunk._replace(last=whole.last, edges=whole.edges)
        self.visit(step, state)
        after = state.conversation
        state.conversation = ConversationSoFar.both([whole, after], before)._replace(
            last=after.last, edges=after.edges
        )

    def loop(self, step: Step, state: Knowledge) -> None:
        known = self.later.get(step, {})
        scope = state.fork()
        for key, fact in known.items():
            scope.set(key, one_of([state.get(key), fact], lambda writers: Why("loop", step, writers)))
        ends = self._round(step, state, scope)
        more = self._merged(step, known, scope)
        first = step not in self.later
        for _ in range(ROUNDS if step.node.runs.max_rounds > 1 else 0):
            if scope.dead or (more is None and not first):
                break
            known, first = more or known, False
            scope = self._next(state, scope, known)
            ends += self._round(step, state, scope)
            more = self._merged(step, known, scope)
        self.later[step] = more or known
        state.join(ends, "loop", step)

    def _round(self, step: Step, state: Knowledge, scope: Knowledge) -> list[Knowledge]:
        """Pass one round; give the states in which the loop may end after it."""
        self.entered[step] = state
        self.sequence(step, scope)
        exits = [end.snapshot(state) for end in self.loop_exits.pop(step, ())]
        if not scope.dead:
            self.reads(step, scope)
        return [scope, *exits]

    def _next(self, state: Knowledge, scope: Knowledge, known: Mapping[str, Fact]) -> Knowledge:
        """The state at the start of the next round, with the facts that all earlier rounds left."""
        again = scope.snapshot(state)
        for key, fact in known.items():
            again.set(key, fact.with_mask(fact.mask))
        again.conversation = again.conversation._replace(edges=())
        return again

    def parallel(self, step: Step, state: Knowledge) -> None:
        siblings = Siblings(step, [self.flow.keys.effects(child) for child in step.children])
        branches = [state.beside(siblings, index) for index in range(len(step.children))]
        for child, branch in zip(step.children, branches, strict=True):
            self.visit(child, branch)
        if step.node.runs.waits:
            self._wait_for_others(step, branches)
            state.both(branches, siblings)
            return
        if branches:
            state.join(branches, "race", step)
        for child in step.children:
            updates.record_failure(self.flow.keys, state, child, step)

    def _wait_for_others(self, step: Step, branches: list[Knowledge]) -> None:
        """Record that a pause in one branch may lose the `temp:` keys that other branches have written."""
        stops = [self.flow.keys.effects(child).pauses for child in step.children]
        for index, branch in enumerate(branches):
            other = next((stop for number, stop in enumerate(stops) if stop and number != index), None)
            if other is not None:
                updates.record_pause(other, branch, [key for key in branch.facts if is_temporary(key)])

    def race(self, step: Step, state: Knowledge) -> None:
        if step.children:
            state.join(self.each(step, state), "race", step)

    def fallback(self, step: Step, state: Knowledge) -> None:
        ways: list[Knowledge] = []
        failed = state.fork()
        for child in step.children:
            attempt = failed.fork()
            self.visit(child, attempt)
            ways.append(attempt.snapshot(state))
            updates.record_failure(self.flow.keys, failed, child, step)
            failed.conversation = failed.conversation.either([failed.conversation, attempt.conversation])
        if ways:
            state.join(ways, "fallback", step)

    def route(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        runs: execution.FirstMatch = step.node.runs
        ways = [state.fork() for _ in step.children]
        tests = [*runs.tests, *([None] if runs.default else ())]
        for child, way, test in zip(step.children, ways, tests, strict=True):
            updates.with_assumption(way, test, partial(self.visit, child, way))
        open_end = not runs.default and not self._chooses_always(step, state)
        state.join(ways, "branch", step, or_none=open_end)

    def _chooses_always(self, step: Step, state: Knowledge) -> bool:
        """True if one of the tests of a route without `otherwise` always holds."""
        tests, key = step.node.runs.tests, step.node.runs.key
        if exhaustive(tests):
            return True
        fact = state.get(key) if key else None
        if fact is None or fact.mask & STATUS != PRESENT:
            return False
        values = stored_values(fact)
        return values is not None and covers(tests, cast(str, key), values)

    def over_items(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        runs: execution.PerItem = step.node.runs
        state.mark_present(runs.items)
        outside = state.fork()
        updates.record_failure(self.flow.keys, outside, step.children[0], step)
        item_after = outside.get(runs.item_key)
        item = state.fork()
        item.set(runs.item_key, item_of(step, state.get(runs.items)))
        self.visit(step.children[0], item)
        state.join([item], "map", step, or_none=True)
        state.set(runs.item_key, item_after.with_mask(item_after.mask))
        state.set(runs.output_key, written_fact(step, list, of=(SpokenIn(step.children[0]),)))

    def body(self, step: Step, state: Knowledge) -> None:
        for child in step.children:
            self.visit(child, state)


_Visitor = Callable[[_Walk, Step, Knowledge], None]
COMPOSITES: Final[Mapping[type[execution.Execution], _Visitor]] = {
    execution.HandOver: _Walk.transfer,
    execution.InOrder: _Walk.sequence,
    execution.Repeated: _Walk.loop,
    execution.InParallel: _Walk.parallel,
    execution.FirstMatch: _Walk.route,
    execution.OnFailure: _Walk.remote,
    execution.FirstSuccess: _Walk.fallback,
    execution.RaceToSuccess: _Walk.race,
    execution.PerItem: _Walk.over_items,
    execution.Wrapped: _Walk.body,
    execution.ByModel: _Walk.agent,
}
"""The function that passes a composite, for each way to run children."""

LEAVES: Final[Mapping[type[Node], _Visitor]] = {
    TransformNode: _Walk.transform,
    ArtifactNode: _Walk.transform,
    GateNode: _Walk.gate,
    CaptureNode: _Walk.capture,
    NativeNode: _Walk.native,
}
"""The function that passes a step without children, unless it only reads and writes keys."""


def _visitor(node: Node) -> _Visitor:
    return COMPOSITES.get(type(node.runs)) or LEAVES.get(type(node), _Walk.step)


_FRAMES: Final = tuple(way for way in execution.SILENT_FRAMES if way is not execution.Repeated)
"""Composites that read state before their children run; a loop reads it after each round."""

_PASSING: Final = (*execution.SILENT_FRAMES, execution.PerItem)
"""Composites that pass a streamed answer on to their first steps."""
