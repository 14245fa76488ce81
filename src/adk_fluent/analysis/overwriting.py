"""Which values are written again before anybody reads them.

One walk over the tree against the order in which it runs. It carries the keys that will certainly be written
again before they are read, each with the step that does so; what is written while its key is among them is
written for nothing. Where it is not certain what runs, a key leaves them, so that nothing is said wrongly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.matches import exhaustive
from adk_fluent.analysis.walk.side_effects import may_hand_over
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import (
    AgentNode,
)
from adk_fluent.ir.state_keys import is_shared
from adk_fluent.ir.tools import ends_loops
from adk_fluent.state.effects import Transform, effects_of

if TYPE_CHECKING:
    from adk_fluent.analysis.facts import Facts

Ahead = dict[str, Step]
"""Keys that will be written again before anybody reads them, each with the step that does so."""

Limits = tuple[frozenset[str] | range, ...]
"""Which keys may join those ahead: only some, or only those that no step of a range of indexes reads."""

_FOLLOWED: Final = 64
"""So many keys are followed into branches, those that are written again soonest; more would take too long."""


def overwritten(facts: Facts) -> list[tuple[Step, str, Step]]:
    """Every step whose value of a key nobody reads, the key, and the step that writes it again.

    A transfer may skip anything, so of a tree with transfers nothing is said.
    """
    if any(isinstance(step.node.runs, execution.HandOver) for step in facts.steps):
        return []
    several = (key for key, writers in facts.writers.items() if len(writers) > 1)
    keys = frozenset(key for key in several if not is_shared(key))
    if not keys:
        return []
    walk = _Backwards(facts, keys)
    walk.pass_by(facts.plan.root, {}, ())
    return sorted(walk.found, key=lambda found: (found[0].index, found[1]))


class _Places:
    """Where the steps stand that matter, as indexes in order.

    Attributes:
        blind: steps that may look at anything: functions that do not say, and gates, at which a person may.
        reading: key → the steps that read it, or may.
        all: every step of which the walk has to take notice.
    """

    def __init__(self, facts: Facts, keys: frozenset[str]) -> None:
        steps = facts.steps
        self.blind = {*facts.unknown[0], *(step for step in steps if step.node.asks)}
        found: dict[str, list[int]] = {key: [] for key in keys}
        for read in facts.reads:
            if read.key in keys and read.via != "removal":
                found[read.key].append(read.step.index)
        for step in steps:
            if isinstance(step.node, Transform):  # some grow what is there, without minding when nothing is
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
                *(step.index for step in steps if step.node.agent is not None and _may_go_on_elsewhere(step)),
            }
        )

    def reads(self, key: str, start: int, end: int) -> bool:
        """Whether a step of a range reads a key, or may."""
        return _any_within(self.reading[key], start, end)


def _may_go_on_elsewhere(step: Step) -> bool:
    """Whether what follows an agent may not run after it."""
    given = step.node.given
    return "children" in given or ("tools" in given and ends_loops(step.node.tools))


def _any_within(indexes: Sequence[int], start: int, end: int) -> bool:
    """Whether one of some numbers in order is in a range."""
    position = bisect_left(indexes, start)
    return position < len(indexes) and indexes[position] < end


class _Backwards:
    """The walk itself.

    Attributes:
        keys: the keys that more than one step writes.
        found: what it found.
    """

    def __init__(self, facts: Facts, keys: frozenset[str]) -> None:
        self._facts = facts
        self.keys = keys
        self.found: list[tuple[Step, str, Step]] = []
        self._places = _Places(facts, keys)

    def pass_by(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Turn what is ahead of what follows a step into what is ahead of the step.

        Args:
            limits: the keys that may join those ahead. In a branch that may fail, those that are also ahead
                where the run then goes on; in one of several at a time, those that no other one reads.
        """
        if self._matters(step):
            PASS[type(step.node.runs)](self, step, ahead, limits)

    def _matters(self, step: Step) -> bool:
        """Whether the walk has to take notice of something in a step."""
        return self._facts.reaches(step) and _any_within(self._places.all, step.index, step.end)

    def _each(self, step: Step, ahead: Ahead, limits: Limits) -> list[Ahead]:
        """What is ahead of each child, if after any of them the same is."""
        before, ways = _soonest(ahead), list[Ahead]()
        for child in step.children:
            ways.append(dict(before) if self._matters(child) else before)
            self.pass_by(child, ways[-1], limits)
        return ways

    def _note(self, step: Step, ahead: Ahead) -> None:
        self.found += [(step, key, ahead[key]) for key in self._facts.writes_of(step) if key in ahead]

    def _write(self, step: Step, keys: Collection[str], ahead: Ahead, limits: Limits) -> None:
        """Keys that the step always writes."""
        for key in keys:
            if key in self.keys and all(self._admits(limit, key) for limit in limits):
                ahead.pop(key, None)  # the order says which is written again soonest
                ahead[key] = step

    def _admits(self, limit: frozenset[str] | range, key: str) -> bool:
        if isinstance(limit, range):
            return not self._places.reads(key, limit.start, limit.stop)
        return key in limit

    def _read(self, step: Step, ahead: Ahead) -> None:
        """What the step itself reads."""
        if step in self._places.blind:
            ahead.clear()
        for key in [key for key in ahead if self._places.reads(key, step.index, step.index + 1)]:
            del ahead[key]

    def _unread_in(self, ahead: Ahead, *places: range) -> Ahead:
        """A copy, with those of the keys ahead that no step in some places reads."""
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
        """After its body comes what follows the loop, or the body again."""
        if ahead:
            kept = self._unread_in(ahead, range(step.index, step.end))
            ahead.clear()
            ahead.update(kept)
            self._read(step, ahead)
        self.in_order(step, ahead, limits)

    def parallel(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """Branches that run at the same time may read what each other writes."""
        ways: list[Ahead] = []
        for child in step.children:
            if self._matters(child):
                beside = (range(step.index, child.index), range(child.end, step.end))
                ways.append(self._unread_in(ahead, *beside))
                self.pass_by(child, ways[-1], (*limits, *beside))
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
        """A branch that fails may have got anywhere, and then the next one runs."""
        after, ways = _soonest(ahead), list[Ahead]()
        for child in reversed(step.children):
            later = ways[-1] if ways else after
            ways.append({key: by for key, by in after.items() if key in later})
            self.pass_by(child, ways[-1], (*limits, frozenset(later)) if len(ways) > 1 else limits)
        _either(ahead, ways)

    def remote(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """The remote agent, or what runs in its place."""
        self._note(step, ahead)
        ways = self._each(step, ahead, limits)
        self._write(step, self._facts.writes_of(step), ahead, limits)
        _either(ahead, [_soonest(ahead), *ways])
        self._read(step, ahead)

    def over_items(self, step: Step, ahead: Ahead, limits: Limits) -> None:
        """The body runs for several items at the same time, or for none."""
        self._note(step, ahead)
        self._write(step, self._facts.writes_of(step), ahead, limits)
        beside = range(step.index, step.end)
        way = self._unread_in(ahead, beside)
        self.pass_by(step.children[0], way, (*limits, beside))
        _either(ahead, [_soonest(ahead), way])
        ahead.pop(step.node.runs.item_key, None)
        self._read(step, ahead)


def _always(node: Node) -> Collection[str]:
    """The keys that a step which is no agent writes whenever it runs."""
    if not isinstance(node, Transform):
        return node.access.writes
    return [key for effect in effects_of(node) for key in effect.always_writes]


def _soonest(ahead: Ahead) -> Ahead:
    """A copy for a branch."""
    if len(ahead) <= _FOLLOWED:
        return dict(ahead)
    return dict(islice(ahead.items(), len(ahead) - _FOLLOWED, None))


def _either(ahead: Ahead, ways: list[Ahead]) -> None:
    """Keep what is ahead on every one of several ways; there is none in a composite that is empty."""
    first, *others = ways or [{}]
    kept = [(key, by) for key, by in first.items() if all(key in other for other in others)]
    ahead.clear()
    ahead.update(kept)


_Pass = Callable[[_Backwards, Step, Ahead, Limits], None]
PASS: Final[Mapping[type[execution.Execution], _Pass]] = {
    execution.Leaf: _Backwards.step,
    execution.HandOver: _Backwards.step,
    execution.ByModel: _Backwards.agent,
    execution.InOrder: _Backwards.in_order,
    execution.Wrapped: _Backwards.in_order,
    execution.Repeated: _Backwards.loop,
    execution.InParallel: _Backwards.parallel,
    execution.FirstMatch: _Backwards.route,
    execution.OnFailure: _Backwards.remote,
    execution.FirstSuccess: _Backwards.fallback,
    execution.RaceToSuccess: _Backwards.race,
    execution.PerItem: _Backwards.over_items,
}
"""How the walk passes a node, by how it runs its children."""
