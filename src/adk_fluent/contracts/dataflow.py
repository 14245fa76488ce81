"""The data-flow engine: one walk over the tree in running order that notes what is known at every step.

A loop's body is walked twice, once for the first round and once for the later ones, and again only if the
later rounds bring something new; everything else is walked once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from adk_fluent.contracts.effects import effects_of, writes_of
from adk_fluent.contracts.knowledge import (
    ABSENT,
    PRESENT,
    Fact,
    Siblings,
    State,
    Why,
    alternatives,
    written,
)
from adk_fluent.contracts.matches import exhaustive
from adk_fluent.contracts.plan import Branch, Plan, Step, plan
from adk_fluent.contracts.reads import Read, reads_of
from adk_fluent.contracts.talk import History, heard
from adk_fluent.contracts.touches import ends_loops, tool_access, unknown_functions
from adk_fluent.contracts.transforms import apply_transform, supposing
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.functions import access
from adk_fluent.ir.nodes import (
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransferNode,
    TransformNode,
)

_ROUNDS: Final = 8
"""Walks of a loop's body at most; each further one must have brought something new about some key."""


@dataclass(slots=True)
class Flow:
    """What the walk found.

    Attributes:
        plan: the steps of the tree.
        situations: model step → what was said before it ran, and the conversation branch it ran on, once per
            time the walk came by.
        upstream: model step → steps whose answer it is the first to react to.
        edges: pairs of steps: the answer of the first is passed on in pieces to the second.
    """

    plan: Plan
    situations: dict[Step, list[tuple[History | None, Branch]]] = field(
        default_factory=dict[Step, "list[tuple[History | None, Branch]]"]
    )
    upstream: dict[Step, dict[Step, None]] = field(default_factory=dict[Step, "dict[Step, None]"])
    edges: dict[tuple[Step, Step], None] = field(default_factory=dict["tuple[Step, Step]", None])

    @property
    def reads(self) -> list[Read]:
        """Everything that is read where the walk came by, in order of the steps."""
        return [read for step in self.plan.steps if step.visits for read in reads_of(step)]

    def speakers(self, step: Step) -> Mapping[Step, bool]:
        """Whose text may be in the conversation that `step` could see; true where it certainly is."""
        return heard(self.situations.get(step, ()))


def analyse(root: Node, state: Mapping[str, Any] | None = None, *, open_state: bool = False) -> Flow:
    """Walk a tree.

    Args:
        state: what is in the session's state before the run; `None` values count as absent.
        open_state: whether there may be more in it.
    """
    flow = Flow(plan(root))
    start = State()
    if open_state:
        start.blur(flow.plan.root)
    for key, value in (state or {}).items():
        if value is not None:
            start.set(key, Fact(PRESENT, type=type(cast(object, value))))
    _Walk(flow).visit(flow.plan.root, start)
    return flow


class _Walk:
    """The walk itself.

    Attributes:
        later: loop → what is known at the start of its rounds but the first, of the keys its body touches.
        entered: composite → the state in which it was entered last.
        skipped: sequence or loop → states in which a transfer skipped the rest of it.
        left: loop → states in which an agent ended it.
        restarts: composite → states in which a transfer inside started it again.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.later: dict[Step, dict[str, Fact]] = {}
        self.entered: dict[Step, State] = {}
        self.skipped: dict[Step, list[State]] = {}
        self.left: dict[Step, list[State]] = {}
        self.restarts: dict[Step, list[State]] = {}
        self.skipping, self.restarting = _left_early(flow.plan)
        self.transferring: list[Step] = []
        self.shift: tuple[int, Branch] = (0, ())

    def visit(self, step: Step, state: State) -> None:
        """Record what the step meets in `state` and what it does to it."""
        if state.dead:
            return
        step.visits += 1
        annotations = step.node.annotations
        if annotations is not NO_ANNOTATIONS and annotations.boundary is not None:
            _cross(step, state)
        if state.talk.edges and not isinstance(step.node, _PASSING):
            self._take_pieces(step, state)
        if step in self.restarting:
            self._run_again(step, state)
        else:
            VISITORS[type(step.node)](self, step, state)
        if annotations is not NO_ANNOTATIONS and annotations.edge is not None:
            speakers = state.talk.last if annotations.edge.buffering != "full" else ()
            state.talk = state.talk._replace(edges=speakers)

    def branch(self, step: Step) -> Branch:
        """The conversation branch a step runs on now: after a transfer, that of the transfer."""
        depth, base = self.shift
        return base + step.branch[depth:]

    def _take_pieces(self, step: Step, state: State) -> None:
        for speaker in state.talk.edges:
            self.flow.edges[speaker, step] = None
        state.talk = state.talk._replace(edges=())

    def reads(self, step: Step, state: State) -> None:
        """Note what is known about everything the step reads."""
        for read in reads_of(step):
            read.meets(state.look(read.key))

    # --- steps ------------------------------------------------------------------------------------

    def agent(self, step: Step, state: State) -> None:
        node: AgentNode = step.node
        given = node.given
        self._listen(step, state)
        if "before_agent_callback" in given:
            _call(state, step, given["before_agent_callback"])
        late: list[Read] = []
        for read in reads_of(step):
            if read.via in ("tool", "callback"):
                late.append(read)
            else:
                read.meets(state.look(read.key))
        if node.tools:
            _use_tools(state, step, node)
        for name in ("before_model_callback", "after_model_callback"):
            if name in given:
                _call(state, step, given[name])
        for read in late:
            read.meets(state.look(read.key))
        if node.tools and ends_loops(node):
            self._leave_loop(step, state)
        if node.children:
            self._delegate(step, state)
        else:
            self._answer(step, state)
        if "after_agent_callback" in given:
            _call(state, step, given["after_agent_callback"])

    def _answer(self, step: Step, state: State) -> None:
        node: AgentNode = step.node
        if isinstance(node.output_key, str):
            schema = node.output_schema
            state.set(node.output_key, written(step, str if schema in (UNSET, None) else schema, (step,)))
        for key in node.declared_writes:
            state.set(key, written(step))
        for field_ref in node.written_fields:
            text = (step,) if field_ref.is_text and len(node.written_fields) == 1 else ()
            state.set(field_ref.key, written(step, field_ref.type, text))
        if (spec := node.annotations.context) is not None:
            for key in spec.access.writes:
                state.set(key, written(step))
        state.talk = state.talk.spoke(step, self.branch(step), certain=not node.children)

    def _listen(self, step: Step, state: State) -> None:
        situation = (state.talk.history, self.branch(step))
        self.flow.situations.setdefault(step, []).append(situation)
        self.flow.upstream.setdefault(step, {}).update(dict.fromkeys(state.talk.last))

    def _delegate(self, step: Step, state: State) -> None:
        """The agent answers, or hands over to one of its sub-agents, and that one perhaps to another."""
        answered = state.fork()
        self._answer(step, answered)
        handed = state.fork()
        ways = self._each(step, handed)
        if step.visits == 1:
            again = state.fork()
            again.join([way.snapshot(state) for way in ways], "delegate", step)
            ways += self._each(step, again)
        state.join([answered, *(way.snapshot(state) for way in ways)], "delegate", step)
        state.talk = state.talk._replace(last=tuple(dict.fromkeys(state.talk.last)))

    def _each(self, step: Step, state: State) -> list[State]:
        ways = [state.fork() for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.visit(child, way)
        return ways

    def _leave_loop(self, step: Step, state: State) -> None:
        """The agent may end the nearest loop here."""
        loop = next((outer for outer in step.above() if isinstance(outer.node, LoopNode)), None)
        if loop is not None:
            left = state.snapshot(self.entered[loop])
            self._answer(step, left)
            self.left.setdefault(loop, []).append(left)

    def remote(self, step: Step, state: State) -> None:
        self._listen(step, state)
        self.reads(step, state)
        answered = state.fork()
        if step.node.output_key:
            answered.set(step.node.output_key, written(step, step.node.output_schema or str, (step,)))
        answered.talk = answered.talk.spoke(step, self.branch(step))
        ways = [answered]
        for child in step.children:
            instead = state.fork()
            self.visit(child, instead)
            ways.append(instead)
        state.join(ways, "fallback", step)

    def transform(self, step: Step, state: State) -> None:
        self.reads(step, state)
        apply_transform(state, step, step.node)

    def look(self, step: Step, state: State) -> None:
        self.reads(step, state)

    def write(self, step: Step, state: State) -> None:
        self.reads(step, state)
        for key in writes_of(step):
            state.set(key, written(step, str))

    def artifact(self, step: Step, state: State) -> None:
        self.reads(step, state)
        for key in writes_of(step):
            state.set(key, written(step))

    def transfer(self, step: Step, state: State) -> None:
        """The target runs instead of the rest of what encloses the transfer."""
        self.reads(step, state)
        target = step.target
        if target is not None:
            if target.index <= step.index < target.end:
                self.restarts.setdefault(target, []).append(state.snapshot(self.entered[target]))
            else:
                self._hand_over(step, target, state)
        if step.node.condition is None:
            state.dead = True

    def _hand_over(self, step: Step, target: Step, state: State) -> None:
        owner = _owner(step)
        moved = state.snapshot(self.entered[owner]) if owner else state.fork()
        if self.transferring.count(target) < 2:
            self.transferring.append(target)
            entered, shift = dict(self.entered), self.shift
            self.shift = (len(target.branch), self.branch(step))
            self.visit(target, moved)
            self.entered, self.shift = entered, shift
            self.transferring.pop()
        if owner is not None:
            _meanwhile(step, owner, moved, self.flow.plan)
            self.skipped.setdefault(owner, []).append(moved)

    # --- composites -------------------------------------------------------------------------------

    def _run_again(self, step: Step, state: State) -> None:
        """A composite that a transfer inside may start again."""
        self.entered[step] = state
        ends: list[State] = []
        scope, known = state.fork(), dict[str, Fact]()
        for _ in range(_ROUNDS):
            VISITORS[type(step.node)](self, step, scope)
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
        state.join(ends, "loop", step)

    def sequence(self, step: Step, state: State) -> None:
        """The children in order; a transfer may skip the rest of them."""
        if step not in self.skipping:
            for child in step.children:
                self.visit(child, state)
            return
        self.entered[step] = state
        inside = state.fork()
        for child in step.children:
            self.visit(child, inside)
        state.join([inside, *self.skipped.pop(step, ())], "moved", step)

    def loop(self, step: Step, state: State) -> None:
        known = self.later.get(step, {})
        scope = state.fork()
        for key, fact in known.items():
            scope.set(key, alternatives([state.get(key), fact], lambda writers: Why("loop", step, writers)))
        ends = self._round(step, state, scope)
        known = self._merged(step, known, scope) or known
        if step.node.max_iterations > 1:
            for _ in range(_ROUNDS):
                if scope.dead:
                    break
                scope = self._next(state, scope, known)
                ends += self._round(step, state, scope)
                more = self._merged(step, known, scope)
                if more is None:
                    break
                known = more
        self.later[step] = known
        state.join(ends, "loop", step)

    def _round(self, step: Step, state: State, scope: State) -> list[State]:
        """One round; gives the states in which the loop may end with it."""
        self.entered[step] = state
        self.sequence(step, scope)
        left = [end.snapshot(state) for end in self.left.pop(step, ())]
        if not scope.dead:
            self.reads(step, scope)
        return [scope, *left]

    def _next(self, state: State, scope: State, known: Mapping[str, Fact]) -> State:
        """The state at the start of the next round, given all that any round before left behind."""
        again = scope.snapshot(state)
        for key, fact in known.items():
            again.set(key, fact.with_mask(fact.mask))
        again.talk = again.talk._replace(edges=())
        return again

    def _merged(self, step: Step, known: Mapping[str, Fact], scope: State) -> dict[str, Fact] | None:
        """What rounds leave behind, those before and this one; `None` if this one brings nothing new."""
        merged = dict(known)
        new = False
        for key in scope.facts:
            fact, before = scope.get(key), known.get(key)
            if before is None:
                merged[key], new = fact, True
            elif fact.mask | before.mask != before.mask:
                merged[key] = alternatives([before, fact], lambda writers: Why("loop", step, writers))
                new = True
        return merged if new else None

    def parallel(self, step: Step, state: State) -> None:
        siblings = Siblings(step, [effects_of(child) for child in step.children])
        branches = [state.beside(siblings, index) for index in range(len(step.children))]
        for child, branch in zip(step.children, branches, strict=True):
            self.visit(child, branch)
        if step.node.merge != "first_complete":
            state.both(branches, siblings)
            return
        state.join(branches, "race", step)
        for child in step.children:
            _fail(state, child, step)

    def race(self, step: Step, state: State) -> None:
        state.join(self._each(step, state), "race", step)

    def fallback(self, step: Step, state: State) -> None:
        ways: list[State] = []
        failed = state.fork()
        for child in step.children:
            attempt = failed.fork()
            self.visit(child, attempt)
            ways.append(attempt.snapshot(state))
            _fail(failed, child, step)
            failed.talk = failed.talk.either([failed.talk, attempt.talk])
        state.join(ways, "fallback", step)

    def route(self, step: Step, state: State) -> None:
        self.reads(step, state)
        node: RouteNode = step.node
        ways = [state.fork() for _ in step.children]
        tests = [*(test for test, _ in node.rules), *([None] if node.default else ())]
        for child, way, test in zip(step.children, ways, tests, strict=True):
            supposing(way, test, partial(self.visit, child, way))
        open_end = node.default is None and not exhaustive([test for test, _ in node.rules])
        state.join(ways, "branch", step, or_none=open_end)

    def over_items(self, step: Step, state: State) -> None:
        self.reads(step, state)
        node: MapOverNode = step.node
        state.is_there(node.list_key)
        outside = state.fork()
        _fail(outside, step.children[0], step)
        item_after = outside.get(node.item_key)
        item = state.fork()
        item.set(node.item_key, written(step))
        self.visit(step.children[0], item)
        state.join([item], "map", step, or_none=True)
        state.set(node.item_key, item_after.with_mask(item_after.mask))
        state.set(node.output_key, written(step, list))

    def body(self, step: Step, state: State) -> None:
        for child in step.children:
            self.visit(child, state)


VISITORS: Final[Mapping[type[Node], Callable[[_Walk, Step, State], None]]] = {
    AgentNode: _Walk.agent,
    SequenceNode: _Walk.sequence,
    ParallelNode: _Walk.parallel,
    LoopNode: _Walk.loop,
    TransformNode: _Walk.transform,
    RouteNode: _Walk.route,
    FallbackNode: _Walk.fallback,
    RaceNode: _Walk.race,
    GateNode: _Walk.look,
    TapNode: _Walk.look,
    MapOverNode: _Walk.over_items,
    TimeoutNode: _Walk.body,
    TransferNode: _Walk.transfer,
    CaptureNode: _Walk.write,
    ModelSelectorNode: _Walk.look,
    RemoteAgentNode: _Walk.remote,
    ArtifactNode: _Walk.artifact,
}
"""How the walk passes each node type."""

_PASSING: Final = (
    SequenceNode, ParallelNode, LoopNode, FallbackNode, RaceNode, TimeoutNode, MapOverNode,
)  # fmt: skip
"""Composites: what comes to them in pieces goes on to their first steps."""


# --- what single steps do -------------------------------------------------------------------------


def _call(state: State, step: Step, callbacks: tuple[object, ...]) -> None:
    """Functions that always run."""
    touched = access(*callbacks)
    if not touched.writes_known:
        state.blur(step)
    for key in touched.writes:
        state.set(key, written(step))


def _use_tools(state: State, step: Step, node: AgentNode) -> None:
    """Functions that run if the model likes."""
    if unknown_functions(node)[1]:
        state.blur(step)
    given = node.given
    touched = [tool_access(tool) for tool in node.tools]
    for name in ("before_tool_callback", "after_tool_callback", "on_tool_error_callback"):
        touched += [access(callback) for callback in given.get(name, ())]
    for facts in touched:
        for key in sorted(facts.writes):
            state.maybe(key, written(step), Why("tool", step, (step,)))


def _fail(state: State, child: Step, step: Step) -> None:
    """Record that a child may have done any part of what it does, and then failed or been stopped."""
    effects = effects_of(child)
    for key, writer in effects.writes.items():
        state.maybe(key, written(writer), Why("fallback", step, (writer,)))
    gone = dict(effects.removes)
    if effects.clears is not None:
        gone = {**dict.fromkeys(state.session_keys(), effects.clears), **gone}
    for key, writer in gone.items():
        fact = state.get(key)
        if not fact.mask & ABSENT:
            made = fact.with_mask(fact.mask | ABSENT, Why("fallback", step, fact.writers))
            made.removed_by = writer
            state.set(key, made)
    if effects.unknown is not None:
        state.blur(effects.unknown)


def _cross(step: Step, state: State) -> None:
    """`temp:` keys do not cross an execution boundary."""
    for key in state.temp_keys():
        fact = state.get(key)
        if fact.mask & PRESENT:
            state.set(key, fact.with_mask(fact.mask | ABSENT, Why("boundary", step, fact.writers)))


def _left_early(steps: Plan) -> tuple[set[Step], set[Step]]:
    """The composites of which a transfer may skip the rest, and those which it may start again."""
    skipping: set[Step] = set()
    restarting: set[Step] = set()
    for step in steps.steps:
        if isinstance(step.node, TransferNode):
            target, owner = step.target, _owner(step)
            if target is not None and target.index <= step.index < target.end:
                restarting.add(target)
            elif owner is not None:
                skipping.add(owner)
    return skipping, restarting


def _owner(step: Step) -> Step | None:
    """The sequence, or the loop's round, of which a transfer skips the rest."""
    return next((outer for outer in step.above() if isinstance(outer.node, SequenceNode | LoopNode)), None)


def _meanwhile(step: Step, owner: Step, moved: State, steps: Plan) -> None:
    """Branches beside a transfer run to their end; they may have spoken by then."""
    inner = step
    for outer in step.above():
        if outer is owner:
            return
        if isinstance(outer.node, ParallelNode):
            for other in steps.steps[outer.index : outer.end]:
                if other.is_model and not inner.index <= other.index < inner.end:
                    moved.talk = moved.talk.spoke(other, other.branch, certain=False)
        inner = outer
