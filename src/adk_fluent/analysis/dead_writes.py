"""Dead writes: values that a later step certainly overwrites before any step reads them.

Idea: the liveness analysis of compilers. One walk passes the tree in reverse order. It carries `ahead`: the
keys that will certainly be written again before they are read, each with the step that does so. A write to a
key in `ahead` is dead.

Invariant: a key is in `ahead` only if this holds for every run. So a read, a step that may read anything, or
a way that may skip the write takes the key out of it. At a choice, only the keys that are ahead on all ways
stay. If a step may not run to its end, such as a branch of a fallback, its own writes enter `ahead` only
within `Limits`: the keys for which it does not matter how far it got.

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


Ahead = dict[str, Step]
"""Keys that will be written again before any step reads them, each with the step that does so."""

Limits = tuple[frozenset[str] | range, ...]
"""The keys that may enter `Ahead`: a set, or a range of steps for all keys that no step there reads."""

_FOLLOWED: Final = 64
"""The most keys that are followed into branches: those that are written again soonest. Limits the time."""


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
    walk.pass_by(facts.plan.root, {}, ())
    return sorted(walk.found, key=lambda found: (found[0].index, found[1]))


class _RelevantSteps:
    """The indexes, in order, of the steps that matter for the walk.

    Attributes:
        blind: steps that may read any key: undeclared functions, and gates, where a person may look at state.
        reading: key → the steps that read it, or may.
        all: every step that the walk must pass; it skips all others.
    """

    def __init__(self, facts: Facts, keys: frozenset[str]) -> None:
        steps = facts.steps
        self.blind = {*facts.unknown[0], *(step for step in steps if step.node.asks)}
        found: dict[str, list[int]] = {key: [] for key in keys}
        for read in facts.reads:
            if read.key in keys and read.via != "removal":
                found[read.key].append(read.step.index)
        for step in steps:
            if isinstance(step.node, Transform):  # some extend the old value, if there is one
                for key in keys & step.node.access.reads:
                    found[key].append(step.index)
                if not step.node.access.reads_known:
                    self.blind.add(step)
        anything = [step.index for step in self.blind]
        self.reading = {key: sorted(indexes + anything) for key, indexes in found.items()}
        self.all = sorted(
            {
                *anything,
                *(index for indexes in found.values() for index in indexes),
                *(step.index for key in keys for step in facts.writers[key]),
                *(
                    step.index
                    for step in steps
                    if agent_of(step.node) is not None and _may_go_on_elsewhere(step)
                ),
            }
        )

    def reads(self, key: str, start: int, end: int) -> bool:
        """True if a step of a range reads a key, or may."""
        return _any_within(self.reading[key], start, end)


def _may_go_on_elsewhere(step: Step) -> bool:
    """True if the run may continue elsewhere after an agent, so the next step may not run."""
    given = step.node.given
    return "children" in given or ("tools" in given and ends_loops(step.node.tools))


def _any_within(indexes: Sequence[int], start: int, end: int) -> bool:
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
        self._places = _RelevantSteps(facts, keys)

    def pass_by(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Change `ahead` from the keys after a step to the keys before it.

        Args:
            limits: the keys that may enter `ahead`. In a branch that may fail: those that are also ahead
                where the run continues then. In a parallel branch: those that no other branch reads.
        """
        if self._matters(step):
            PASS[type(step.node.runs)](self, step, ahead, limits)

    def _matters(self, step: Step) -> bool:
        """True if the walk must pass a step, because it or a step inside it matters."""
        return self._facts.reaches(step) and _any_within(self._places.all, step.index, step.end)

    def _each(self, step: Step, ahead: Ahead, limits: Limits) -> list[Ahead]:
        """The keys ahead before each child, if the same keys are ahead after each of them."""
        before, ways = _soonest(ahead), list[Ahead]()
        for child in step.children:
            ways.append(dict(before) if self._matters(child) else before)
            self.pass_by(child, ways[-1], limits)
        return ways

    def _note(self, step: Step, ahead: Ahead) -> None:
        self.found += [(step, key, ahead[key]) for key in self._facts.writes_of(step) if key in ahead]

    def _write(self, step: Step, keys: Collection[str], ahead: Ahead, limits: Limits) -> None:
        """Add keys that the step always writes."""
        for key in keys:
            if key in self.keys and all(self._admits(limit, key) for limit in limits):
                ahead.pop(key, None)  # keep the order: the last key is written again soonest
                ahead[key] = step

    def _admits(self, limit: frozenset[str] | range, key: str) -> bool:
        if isinstance(limit, range):
            return not self._places.reads(key, limit.start, limit.stop)
        return key in limit

    def _read(self, step: Step, ahead: Ahead) -> None:
        """Take out the keys that the step itself reads."""
        if step in self._places.blind:
            ahead.clear()
        for key in [key for key in ahead if self._places.reads(key, step.index, step.index + 1)]:
            del ahead[key]

    def _unread_in(self, ahead: Ahead, *places: range) -> Ahead:
        """A copy of `ahead` without the keys that a step in these ranges reads."""
        return {
            key: by
            for key, by in _soonest(ahead).items()
            if all(self._admits(place, key) for place in places)
        }

    # --- steps ------------------------------------------------------------------------------------

    def step(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        self._note(step, ahead)
        self._write(step, _always(step.node), ahead, limits)
        self._read(step, ahead)

    def agent(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        node: AgentNode = step.node
        elsewhere = _may_go_on_elsewhere(step) or may_hand_over(step)
        if elsewhere:
            ahead.clear()
        self._note(step, ahead)
        for child in step.children:
            self.pass_by(child, {}, ())
        if not (elsewhere or node.callbacks):
            keys = [node.output_key] if isinstance(node.output_key, str) else []
            keys += [*node.declared_writes, *(field.key for field in node.written_fields)]
            self._write(step, keys, ahead, limits)
        self._read(step, ahead)

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        for child in reversed(step.children):
            self.pass_by(child, ahead, limits)

    def loop(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Pass a loop: after its body, the next step follows, or the body again."""
        if ahead:
            unread = self._unread_in(ahead, range(step.index, step.end))
            ahead.clear()
            ahead.update(unread)
            self._read(step, ahead)
        self.in_order(step, ahead, limits)

    def parallel(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Pass parallel branches, which may read each other's writes."""
        ways: list[Ahead] = []
        for child in step.children:
            if self._matters(child):
                siblings = (range(step.index, child.index), range(child.end, step.end))
                ways.append(self._unread_in(ahead, *siblings))
                self.pass_by(child, ways[-1], (*limits, *siblings))
        if not step.node.runs.waits:
            _either(ahead, [*ways, *([_soonest(ahead)] if len(ways) < len(step.children) else ())])
            return
        ahead.clear()
        for way in ways:
            ahead.update(way)

    def race(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        _either(ahead, self._each(step, ahead, limits))

    def route(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        runs: execution.FirstMatch = step.node.runs
        ways = self._each(step, ahead, limits)
        open_end = not runs.default and not exhaustive(runs.tests)
        _either(ahead, [*ways, _soonest(ahead)] if open_end else ways)
        self._read(step, ahead)

    def fallback(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Pass a fallback: a branch may fail at any step, and then the next one runs."""
        after, ways = _soonest(ahead), list[Ahead]()
        for child in reversed(step.children):
            later = ways[-1] if ways else after
            ways.append({key: by for key, by in after.items() if key in later})
            self.pass_by(child, ways[-1], (*limits, frozenset(later)) if len(ways) > 1 else limits)
        _either(ahead, ways)

    def remote(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Pass a remote agent, or its fallback."""
        self._note(step, ahead)
        ways = self._each(step, ahead, limits)
        self._write(step, self._facts.writes_of(step), ahead, limits)
        _either(ahead, [_soonest(ahead), *ways])
        self._read(step, ahead)

    def over_items(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Pass a map: its body runs for several items at the same time, or for none."""
        self._note(step, ahead)
        self._write(step, self._facts.writes_of(step), ahead, limits)
        beside = range(step.index, step.end)
        way = self._unread_in(ahead, beside)
        self.pass_by(step.children[0], way, (*limits, beside))
        _either(ahead, [_soonest(ahead), way])
        ahead.pop(step.node.runs.item_key, None)
        self._read(step, ahead)


def _always(node: Node) -> Collection[str]:
    """The keys that a step other than an agent writes each time it runs."""
    if not isinstance(node, Transform):
        return node.access.writes
    return [key for effect in effects_of(node) for key in effect.always_writes]


def _soonest(ahead: Ahead) -> Ahead:
    """A copy for a branch, at most `_FOLLOWED` keys: those that are written again soonest."""
    if len(ahead) <= _FOLLOWED:
        return dict(ahead)
    return dict(islice(ahead.items(), len(ahead) - _FOLLOWED, None))


def _either(ahead: Ahead, ways: list[Ahead]) -> None:
    """Keep only the keys that are ahead on all ways; an empty composite has no ways, so no keys stay."""
    first, *others = ways or [{}]
    kept = [(key, by) for key, by in first.items() if all(key in other for other in others)]
    ahead.clear()
    ahead.update(kept)


_Pass = Callable[[_ReverseWalk, Step, Ahead, Limits], None]
PASS: Final[Mapping[type[execution.Execution], _Pass]] = {
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
