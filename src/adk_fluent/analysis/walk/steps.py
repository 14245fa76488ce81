"""The data-flow engine: one walk over the tree in running order that notes what is known at every step.

A loop's body is walked twice, once for the first round and once for the later ones, and again only if the
later rounds bring something new; everything else is walked once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from adk_fluent.analysis.flow import Flow
from adk_fluent.analysis.origins import InitialValue, Person, SpokenIn, captured
from adk_fluent.analysis.plan import Step, plan
from adk_fluent.analysis.talk.history import Talk
from adk_fluent.analysis.values.comparing import covers
from adk_fluent.analysis.values.fact import (
    ABSENT,
    PRESENT,
    STATUS,
    Fact,
    Why,
    alternatives,
    item_of,
    stored_values,
    written,
)
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.analysis.values.matches import exhaustive
from adk_fluent.analysis.values.operations import apply_transform, supposing
from adk_fluent.analysis.values.siblings import Siblings
from adk_fluent.analysis.walk.agents import ModelWalk
from adk_fluent.analysis.walk.side_effects import (
    coordinator_of,
    cross,
    fail,
    left_early,
    maybe_write,
    meanwhile,
    owner_of,
    pause,
)
from adk_fluent.ir import execution
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import (
    ArtifactNode,
    CaptureNode,
    GateNode,
    NativeNode,
    TransformNode,
)
from adk_fluent.ir.state_keys import is_temporary

_ROUNDS: Final = 8
"""Walks of a loop's body at most; each further one must have brought something new about some key."""


def flow_of(
    root: Node,
    state: Mapping[str, Any] | None = None,
    *,
    open_state: bool = False,
    resolved: bool = False,
    later_run: bool = False,
) -> Flow:
    """Walk a tree.

    Args:
        state: what is in the session's state before the run; a key that holds `None` may be missing.
        open_state: whether there may be more in it.
        resolved: whether `resolve_names` has named the tree.
        later_run: whether an earlier run of the session may have left there whatever the tree writes.
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


class _Walk(ModelWalk):
    """The walk itself.

    Attributes:
        later: loop → what is known at the start of its rounds but the first, of the keys its body touches.
        skipped: sequence or loop → states in which a transfer skipped the rest of it.
        restarts: composite → states in which a transfer inside started it again.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.later: dict[Step, dict[str, Fact]] = {}
        self.skipped: dict[Step, list[Knowledge]] = {}
        self.restarts: dict[Step, list[Knowledge]] = {}
        self.skipping, self.restarting = left_early(flow.plan)
        self.transferring: list[Step] = []

    def visit(self, step: Step, state: Knowledge) -> None:
        """Record what the step meets in `state` and what it does to it."""
        if state.dead:
            return
        self.flow.visits[step] = self.flow.visits.get(step, 0) + 1
        annotations = step.node.annotations
        if annotations is not NO_ANNOTATIONS and annotations.boundary is not None:
            cross(step, state)
        if state.talk.edges and not isinstance(step.node.runs, _PASSING):
            self._take_pieces(step, state)
        if step in self.restarting:
            self._run_again(step, state)
        else:
            self._pass(step, state)
        if annotations is not NO_ANNOTATIONS and annotations.edge is not None:
            speakers = state.talk.last if annotations.edge.buffering != "full" else ()
            state.talk = state.talk._replace(edges=speakers)

    def _pass(self, step: Step, state: Knowledge) -> None:
        """Pass a step by how it runs its children, or by its type; a frame may touch keys, too."""
        node = step.node
        if isinstance(node.runs, _FRAMES):
            self.reads(step, state)
        _visitor(node)(self, step, state)
        if isinstance(node.runs, execution.SILENT_FRAMES) and not state.dead:
            for key in self.flow.keys.writes(step):
                state.set(key, written(step))

    def _take_pieces(self, step: Step, state: Knowledge) -> None:
        for speaker in state.talk.edges:
            self.flow.edges[speaker, step] = None
        state.talk = state.talk._replace(edges=())

    # --- steps ------------------------------------------------------------------------------------

    def transform(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        apply_transform(state, step, step.node)
        maybe_write(state, step, step.node.seen, always=True)

    def step(self, step: Step, state: Knowledge) -> None:
        """What only reads and writes keys."""
        self.reads(step, state)
        for key in self.flow.keys.writes(step):
            state.set(key, written(step))

    def gate(self, step: Step, state: Knowledge) -> None:
        """The run may stop here; what is written is the payload of an approval, if one is asked for."""
        self.reads(step, state)
        pause(step, state)
        for key in self.flow.keys.writes(step):
            state.maybe(key, written(step, of=(Person.USER,)), Why("gate", step, (step,)))

    def capture(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        for key in self.flow.keys.writes(step):
            state.set(key, written(step, str, of=captured(step.node)))

    def transfer(self, step: Step, state: Knowledge) -> None:
        """The target runs instead of the rest of what encloses the transfer."""
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
            if (boss := coordinator_of(target)) is not None:
                self._pass_on(boss, step, moved)
            self.entered, self.shift = entered, shift
            self.transferring.pop()
        if owner is not None:
            meanwhile(step, owner, moved, self.flow.plan)
            self.skipped.setdefault(owner, []).append(moved)

    def _pass_on(self, boss: Step, step: Step, state: Knowledge) -> None:
        """A sub-agent that got control by a transfer step may hand over to the agents it stands among."""
        among = state.fork()
        self.visit(boss, among)
        state.join([state.fork(), among], "delegate", step)

    # --- composites -------------------------------------------------------------------------------

    def _run_again(self, step: Step, state: Knowledge) -> None:
        """A composite that a transfer inside may start again."""
        self.entered[step] = state
        ends: list[Knowledge] = []
        scope, known = state.fork(), dict[str, Fact]()
        for _ in range(_ROUNDS):
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

    def sequence(self, step: Step, state: Knowledge) -> None:
        """The children in order; a transfer may skip the rest of them."""
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
        before = state.talk
        for place, child in enumerate(step.children):
            passage = passages.get(place - 1)
            if passage is not None and passage.taking == "runs":
                self._on_pieces(child, state, before)
                continue
            if passage is None or not passage.taking:
                before = state.talk
            self.visit(child, state)

    def _on_pieces(self, step: Step, state: Knowledge, before: Talk) -> None:
        """A step that runs on each piece of the last answer hears it, and what was said `before` that."""
        whole, piece = state.talk, before
        for speaker in whole.last:
            piece = piece.spoke(speaker, self.branch(speaker), certain=len(whole.last) == 1)
        state.talk = piece._replace(last=whole.last, edges=whole.edges)
        self.visit(step, state)
        after = state.talk
        state.talk = Talk.both([whole, after], before)._replace(last=after.last, edges=after.edges)

    def loop(self, step: Step, state: Knowledge) -> None:
        known = self.later.get(step, {})
        scope = state.fork()
        for key, fact in known.items():
            scope.set(key, alternatives([state.get(key), fact], lambda writers: Why("loop", step, writers)))
        ends = self._round(step, state, scope)
        more = self._merged(step, known, scope)
        first = step not in self.later
        for _ in range(_ROUNDS if step.node.runs.max_rounds > 1 else 0):
            if scope.dead or (more is None and not first):
                break
            known, first = more or known, False
            scope = self._next(state, scope, known)
            ends += self._round(step, state, scope)
            more = self._merged(step, known, scope)
        self.later[step] = more or known
        state.join(ends, "loop", step)

    def _round(self, step: Step, state: Knowledge, scope: Knowledge) -> list[Knowledge]:
        """One round; gives the states in which the loop may end with it."""
        self.entered[step] = state
        self.sequence(step, scope)
        left = [end.snapshot(state) for end in self.left.pop(step, ())]
        if not scope.dead:
            self.reads(step, scope)
        return [scope, *left]

    def _next(self, state: Knowledge, scope: Knowledge, known: Mapping[str, Fact]) -> Knowledge:
        """The state at the start of the next round, given all that any round before left behind."""
        again = scope.snapshot(state)
        for key, fact in known.items():
            again.set(key, fact.with_mask(fact.mask))
        again.talk = again.talk._replace(edges=())
        return again

    def _merged(self, step: Step, known: Mapping[str, Fact], scope: Knowledge) -> dict[str, Fact] | None:
        """What rounds leave behind, those before and this one; `None` if this one brings nothing new."""
        merged = dict(known)
        new = False
        for key in scope.facts:
            fact, before = scope.get(key), known.get(key)
            gathered = self.gather(step, key, fact)
            if before is None:
                merged[key], new = fact.or_else(gathered), True
            elif fact.mask | before.mask != before.mask:
                merged[key] = alternatives([before, fact], lambda writers: Why("loop", step, writers))
                new = True
        return merged if new else None

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
            fail(self.flow.keys, state, child, step)

    def _wait_for_others(self, step: Step, branches: list[Knowledge]) -> None:
        """A pause in one branch takes the `temp:` keys that others have written by then."""
        stops = [self.flow.keys.effects(child).pauses for child in step.children]
        for index, branch in enumerate(branches):
            other = next((stop for number, stop in enumerate(stops) if stop and number != index), None)
            if other is not None:
                pause(other, branch, [key for key in branch.facts if is_temporary(key)])

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
            fail(self.flow.keys, failed, child, step)
            failed.talk = failed.talk.either([failed.talk, attempt.talk])
        if ways:
            state.join(ways, "fallback", step)

    def route(self, step: Step, state: Knowledge) -> None:
        self.reads(step, state)
        runs: execution.FirstMatch = step.node.runs
        ways = [state.fork() for _ in step.children]
        tests = [*runs.tests, *([None] if runs.default else ())]
        for child, way, test in zip(step.children, ways, tests, strict=True):
            supposing(way, test, partial(self.visit, child, way))
        open_end = not runs.default and not self._chooses_always(step, state)
        state.join(ways, "branch", step, or_none=open_end)

    def _chooses_always(self, step: Step, state: Knowledge) -> bool:
        """Whether one of the tests of a route without `otherwise` holds in any case."""
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
        state.is_there(runs.items)
        outside = state.fork()
        fail(self.flow.keys, outside, step.children[0], step)
        item_after = outside.get(runs.item_key)
        item = state.fork()
        item.set(runs.item_key, item_of(step, state.get(runs.items)))
        self.visit(step.children[0], item)
        state.join([item], "map", step, or_none=True)
        state.set(runs.item_key, item_after.with_mask(item_after.mask))
        state.set(runs.output_key, written(step, list, of=(SpokenIn(step.children[0]),)))

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
"""How the walk passes a node that runs others, in it or elsewhere, by how it runs them."""

LEAVES: Final[Mapping[type[Node], _Visitor]] = {
    TransformNode: _Walk.transform,
    ArtifactNode: _Walk.transform,
    GateNode: _Walk.gate,
    CaptureNode: _Walk.capture,
    NativeNode: _Walk.native,
}
"""How it passes steps that do more than read and write keys."""


def _visitor(node: Node) -> _Visitor:
    return COMPOSITES.get(type(node.runs)) or LEAVES.get(type(node), _Walk.step)


_FRAMES: Final = tuple(way for way in execution.SILENT_FRAMES if way is not execution.Repeated)
"""What reads before its children run; a loop looks at the state after each round."""

_PASSING: Final = (*execution.SILENT_FRAMES, execution.PerItem)
"""What comes to these in pieces goes on to their first steps."""
