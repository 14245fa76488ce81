"""Dead writes: values that a later step certainly overwrites before any step reads them.

Idea: the liveness analysis of compilers. One walk passes the tree in reverse order. It carries `rewrites`:
the keys that will certainly be written again before they are read, each with the step that does so. A write
to a key in `rewrites` is dead.

Invariant: a key is in `rewrites` only if this holds for every run. So the walk removes a key at a read, at a
step that may read anything, and where the run may skip the later write. At a choice, only the keys that all
branches have stay. A step that may not run to its end, such as a branch of a fallback, adds its own writes
only within `Limits`: the keys for which it does not matter how far the step got.

Why not compare writers and readers by their order? That is wrong for loops, parallel branches and failures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from adk_fluent.analysis.plan import Step, may_hand_over
from adk_fluent.analysis.values.kinds import exhaustive
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode, agent_of
from adk_fluent.ir.state_keys import is_shared
from adk_fluent.ir.tools import ends_loops
from adk_fluent.state.effects import Transform, effects_of

if TYPE_CHECKING:
    from adk_fluent.analysis.facts import Facts


Rewrites = dict[str, Step]
"""Keys that will be written again before any step reads them, each with the step that does so."""

Limits = tuple[frozenset[str] | range, ...]
"""The keys that may enter `Rewrites`: a set, or a range of steps for all keys that no step there reads."""

_MOST_FOLLOWED: Final = 64
"""The most keys that the walk follows into a branch, to limit its time: those that are rewritten soonest."""


def overwritten(facts: Facts) -> list[tuple[Step, str, Step]]:
    """The dead writes: each the step that writes, the key, and the step that writes it again.

    A transfer may skip any step, so the list is empty for a tree with transfers.
    """
    if any(isinstance(step.node.runs, execution.HandOver) for step in facts.steps):
        return []
    several = (key for key, writers in facts.writers.items() if len(writers) > 1)
    keys = frozenset(key for key in several if not is_shared(key))
    if not keys:
        return []
    walk = _ReverseWalk(facts, keys)
    walk.visit(facts.plan.root, {}, ())
    return sorted(walk.found, key=lambda found: (found[0].index, found[1]))


class _RelevantSteps:
    """The indexes, in order, of the steps that matter for the walk.

    Attributes:
        reads_anything: steps that may read any key: functions that declare nothing, and gates, where a person
            may look at the state.
        readers: key → the steps that read it, or may.
        indexes: every step that the walk must pass; it skips all others.
    """

    def __init__(self, facts: Facts, keys: frozenset[str]) -> None:
        steps = facts.steps
        self.reads_anything = {*facts.unknown[0], *(step for step in steps if step.node.asks)}
        readers: dict[str, list[int]] = {key: [] for key in keys}
        for read in facts.reads:
            if read.key in keys and read.via != "removal":
                readers[read.key].append(read.step.index)
        for step in steps:
            if isinstance(step.node, Transform):  # some extend the old value, if there is one
                for key in keys & step.node.access.reads:
                    readers[key].append(step.index)
                if not step.node.access.reads_known:
                    self.reads_anything.add(step)
        everywhere = [step.index for step in self.reads_anything]
        self.readers = {key: sorted(indexes + everywhere) for key, indexes in readers.items()}
        self.indexes = sorted(
            {
                *everywhere,
                *(index for indexes in readers.values() for index in indexes),
                *(step.index for key in keys for step in facts.writers[key]),
                *(step.index for step in steps if agent_of(step.node) is not None and _may_leave(step)),
            }
        )

    def reads(self, key: str, start: int, end: int) -> bool:
        """True if a step of a range reads a key, or may."""
        return _any_in_range(self.readers[key], start, end)


def _may_leave(step: Step) -> bool:
    """True if the run may continue elsewhere after an agent, so the next step may not run."""
    given = step.node.given
    return "children" in given or ("tools" in given and ends_loops(step.node.tools))


def _any_in_range(indexes: Sequence[int], start: int, end: int) -> bool:
    """True if one of these sorted numbers is in a range."""
    position = bisect_left(indexes, start)
    return position < len(indexes) and indexes[position] < end


class _ReverseWalk:
    """The walk in reverse order.

    Attributes:
        keys: the keys that more than one step writes.
        found: the dead writes so far.
    """

    def __init__(self, facts: Facts, keys: frozenset[str]) -> None:
        self._facts = facts
        self.keys = keys
        self.found: list[tuple[Step, str, Step]] = []
        self._relevant = _RelevantSteps(facts, keys)

    def visit(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass a step: change `rewrites` from the keys after it to the keys before it.

        Args:
            limits: the keys that may enter `rewrites`. In a branch that may fail: those that are also in it
                where the run continues then. In a parallel branch: those that no other branch reads.
        """
        if self._is_relevant(step):
            VISITORS[type(step.node.runs)](self, step, rewrites, limits)

    def _is_relevant(self, step: Step) -> bool:
        """True if the walk must pass a step, because it or a step inside it matters."""
        return self._facts.reaches(step) and _any_in_range(self._relevant.indexes, step.index, step.end)

    def _visit_children(self, step: Step, rewrites: Rewrites, limits: Limits) -> list[Rewrites]:
        """The rewrites before each child, if the same rewrites follow each of them."""
        start, branches = _limited_copy(rewrites), list[Rewrites]()
        for child in step.children:
            branches.append(dict(start) if self._is_relevant(child) else start)
            self.visit(child, branches[-1], limits)
        return branches

    def _report(self, step: Step, rewrites: Rewrites) -> None:
        self.found += [(step, key, rewrites[key]) for key in self._facts.writes_of(step) if key in rewrites]

    def _add(self, step: Step, keys: Collection[str], rewrites: Rewrites, limits: Limits) -> None:
        """Add keys that the step always writes."""
        for key in keys:
            if key in self.keys and all(self._allows(limit, key) for limit in limits):
                rewrites.pop(key, None)  # keep the order: the last key is written again soonest
                rewrites[key] = step

    def _allows(self, limit: frozenset[str] | range, key: str) -> bool:
        if isinstance(limit, range):
            return not self._relevant.reads(key, limit.start, limit.stop)
        return key in limit

    def _remove_read_keys(self, step: Step, rewrites: Rewrites) -> None:
        """Take out the keys that the step itself reads."""
        if step in self._relevant.reads_anything:
            rewrites.clear()
        for key in [key for key in rewrites if self._relevant.reads(key, step.index, step.index + 1)]:
            del rewrites[key]

    def _without_keys_read_in(self, rewrites: Rewrites, *ranges: range) -> Rewrites:
        """A copy of `rewrites` without the keys that a step in these ranges reads."""
        return {
            key: writer
            for key, writer in _limited_copy(rewrites).items()
            if all(self._allows(steps, key) for steps in ranges)
        }

    # --- steps ------------------------------------------------------------------------------------

    def step(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        self._report(step, rewrites)
        self._add(step, _certain_writes(step.node), rewrites, limits)
        self._remove_read_keys(step, rewrites)

    def agent(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        node: AgentNode = step.node
        leaves = _may_leave(step) or may_hand_over(step)
        if leaves:
            rewrites.clear()
        self._report(step, rewrites)
        for child in step.children:
            self.visit(child, {}, ())
        if not (leaves or node.callbacks):
            keys = [node.output_key] if isinstance(node.output_key, str) else []
            keys += [*node.declared_writes, *(field.key for field in node.written_fields)]
            self._add(step, keys, rewrites, limits)
        self._remove_read_keys(step, rewrites)

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        for child in reversed(step.children):
            self.visit(child, rewrites, limits)

    def loop(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass a loop: after its body, the next step follows, or the body again."""
        if rewrites:
            unread = self._without_keys_read_in(rewrites, range(step.index, step.end))
            rewrites.clear()
            rewrites.update(unread)
            self._remove_read_keys(step, rewrites)
        self.in_order(step, rewrites, limits)

    def parallel(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass parallel branches, which may read each other's writes."""
        branches: list[Rewrites] = []
        for child in step.children:
            if self._is_relevant(child):
                siblings = (range(step.index, child.index), range(child.end, step.end))
                branches.append(self._without_keys_read_in(rewrites, *siblings))
                self.visit(child, branches[-1], (*limits, *siblings))
        if not step.node.runs.waits:
            skipped = [_limited_copy(rewrites)] if len(branches) < len(step.children) else []
            _keep_common(rewrites, [*branches, *skipped])
            return
        rewrites.clear()
        for branch in branches:
            rewrites.update(branch)

    def race(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        _keep_common(rewrites, self._visit_children(step, rewrites, limits))

    def route(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        runs: execution.FirstMatch = step.node.runs
        branches = self._visit_children(step, rewrites, limits)
        may_match_none = not runs.default and not exhaustive(runs.tests)
        _keep_common(rewrites, [*branches, _limited_copy(rewrites)] if may_match_none else branches)
        self._remove_read_keys(step, rewrites)

    def fallback(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass a fallback: a branch may fail at any step, and then the next one runs."""
        after, branches = _limited_copy(rewrites), list[Rewrites]()
        for child in reversed(step.children):
            next_branch = branches[-1] if branches else after
            branches.append({key: writer for key, writer in after.items() if key in next_branch})
            within = (*limits, frozenset(next_branch)) if len(branches) > 1 else limits
            self.visit(child, branches[-1], within)
        _keep_common(rewrites, branches)

    def remote(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass a remote agent, or its fallback."""
        self._report(step, rewrites)
        branches = self._visit_children(step, rewrites, limits)
        self._add(step, self._facts.writes_of(step), rewrites, limits)
        _keep_common(rewrites, [_limited_copy(rewrites), *branches])
        self._remove_read_keys(step, rewrites)

    def over_items(self, step: Step, rewrites: Rewrites, limits: Limits) -> None:
        """Pass a map: its body runs for several items at the same time, or for none."""
        self._report(step, rewrites)
        self._add(step, self._facts.writes_of(step), rewrites, limits)
        body = range(step.index, step.end)
        inside = self._without_keys_read_in(rewrites, body)
        self.visit(step.children[0], inside, (*limits, body))
        _keep_common(rewrites, [_limited_copy(rewrites), inside])
        rewrites.pop(step.node.runs.item_key, None)
        self._remove_read_keys(step, rewrites)


def _certain_writes(node: Node) -> Collection[str]:
    """The keys that a step other than an agent writes each time it runs."""
    if not isinstance(node, Transform):
        return node.access.writes
    return [key for effect in effects_of(node) for key in effect.always_writes]


def _limited_copy(rewrites: Rewrites) -> Rewrites:
    """A copy for a branch, at most `_MOST_FOLLOWED` keys: those that are written again soonest."""
    if len(rewrites) <= _MOST_FOLLOWED:
        return dict(rewrites)
    return dict(islice(rewrites.items(), len(rewrites) - _MOST_FOLLOWED, None))


def _keep_common(rewrites: Rewrites, branches: list[Rewrites]) -> None:
    """Keep only the keys that all branches have; an empty composite has no branches, so no keys stay."""
    first, *others = branches or [{}]
    common = [(key, writer) for key, writer in first.items() if all(key in other for other in others)]
    rewrites.clear()
    rewrites.update(common)


_Visitor = Callable[[_ReverseWalk, Step, Rewrites, Limits], None]
VISITORS: Final[Mapping[type[execution.Execution], _Visitor]] = {
    execution.Leaf: _ReverseWalk.step,
    execution.HandOver: _ReverseWalk.step,
    execution.ByModel: _ReverseWalk.agent,
    execution.InOrder: _ReverseWalk.in_order,
    execution.Wrapped: _ReverseWalk.in_order,
    execution.Repeated: _ReverseWalk.loop,
    execution.InParallel: _ReverseWalk.parallel,
    execution.FirstMatch: _ReverseWalk.route,
    execution.OnFailure: _ReverseWalk.remote,
    execution.FirstSuccess: _ReverseWalk.fallback,
    execution.RaceToSuccess: _ReverseWalk.race,
    execution.PerItem: _ReverseWalk.over_items,
}
"""The function that passes a step, for each way to run children."""
