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

from adk_fluent.contracts.effects import nullable, writes_of
from adk_fluent.contracts.matches import exhaustive
from adk_fluent.contracts.moves import may_hand_over
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.touches import ends_loops
from adk_fluent.ir.base import Node
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
from adk_fluent.state.operations import Operation

if TYPE_CHECKING:
    from adk_fluent.contracts.facts import Facts

Ahead = dict[str, Step]
"""Keys that will be written again before anybody reads them, each with the step that does so."""

_REPLACING: Final = frozenset({"merge", "transform", "compute", "counter", "zip", "group_by"})
"""Operations that always write the keys they name, beside `set`."""
_FOLLOWED: Final = 64
"""So many keys are followed into branches, those that are written again soonest; more would take too long."""
_SHARED: Final = ("user:", "app:")
"""Other sessions may read these at any time."""


def overwritten(facts: Facts) -> list[tuple[Step, str, Step]]:
    """Every step whose value of a key nobody reads, the key, and the step that writes it again.

    A transfer may skip anything, so of a tree with transfers nothing is said.
    """
    if any(isinstance(step.node, TransferNode) for step in facts.steps):
        return []
    several = (key for key, writers in facts.writers.items() if len(writers) > 1)
    keys = frozenset(key for key in several if not key.startswith(_SHARED))
    if not keys:
        return []
    walk = _Backwards(facts, keys)
    walk.pass_by(facts.plan.root, {}, None)
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
        self.blind = {*facts.unknown[0], *(step for step in steps if type(step.node) is GateNode)}
        found: dict[str, list[int]] = {key: [] for key in keys}
        for read in facts.reads:
            if read.key in keys and read.via != "removal":
                found[read.key].append(read.step.index)
        for step in steps:
            if type(step.node) is TransformNode:  # some grow what is there, without minding when nothing is
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
                    if type(step.node) is AgentNode and _may_go_on_elsewhere(step)
                ),
            }
        )

    def reads(self, key: str, start: int, end: int) -> bool:
        """Whether a step of a range reads a key, or may."""
        return _any_within(self.reading[key], start, end)


def _may_go_on_elsewhere(step: Step) -> bool:
    """Whether what follows an agent may not run after it."""
    given = step.node.given
    return "children" in given or ("tools" in given and ends_loops(step.node))


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
        self.keys = keys
        self.found: list[tuple[Step, str, Step]] = []
        self._places = _Places(facts, keys)

    def pass_by(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """Turn what is ahead of what follows a step into what is ahead of the step.

        Args:
            within: the keys that may join those ahead; `None` for all. In a branch that may fail, those that
                are also ahead where the run then goes on.
        """
        if self._matters(step):
            PASS[type(step.node)](self, step, ahead, within)

    def _matters(self, step: Step) -> bool:
        """Whether the walk has to take notice of something in a step."""
        return bool(step.visits) and _any_within(self._places.all, step.index, step.end)

    def _each(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> list[Ahead]:
        """What is ahead of each child, if after any of them the same is."""
        before, ways = _soonest(ahead), list[Ahead]()
        for child in step.children:
            ways.append(dict(before) if self._matters(child) else before)
            self.pass_by(child, ways[-1], within)
        return ways

    def _note(self, step: Step, ahead: Ahead) -> None:
        self.found += [(step, key, ahead[key]) for key in writes_of(step) if key in ahead]

    def _write(self, step: Step, keys: Collection[str], ahead: Ahead, within: Collection[str] | None) -> None:
        """Keys that the step always writes."""
        for key in keys:
            if key in self.keys and (within is None or key in within):
                ahead.pop(key, None)  # the order says which is written again soonest
                ahead[key] = step

    def _read(self, step: Step, ahead: Ahead) -> None:
        """What the step itself reads."""
        if step in self._places.blind:
            ahead.clear()
        for key in [key for key in ahead if self._places.reads(key, step.index, step.index + 1)]:
            del ahead[key]

    def _unread_in(self, ahead: Ahead, start: int, end: int) -> Ahead:
        """Those of the keys ahead that no step of a range reads."""
        if not ahead or start == end:
            return ahead
        read = self._places.reads
        return {key: by for key, by in _soonest(ahead).items() if not read(key, start, end)}

    # --- steps ------------------------------------------------------------------------------------

    def step(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        if ahead:
            self._note(step, ahead)
        if not self.keys.isdisjoint(writes_of(step)):
            self._write(step, _always(step.node), ahead, within)
        if ahead:
            self._read(step, ahead)

    def agent(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        node: AgentNode = step.node
        if ahead:
            if (node.tools and ends_loops(node)) or may_hand_over(step):
                ahead.clear()
            self._note(step, ahead)
        if node.children:
            ahead.clear()
            for child in step.children:
                self.pass_by(child, {}, None)
        elif not self.keys.isdisjoint(writes_of(step)) and not node.callbacks:
            absent = nullable(node)
            keys = [node.output_key] if isinstance(node.output_key, str) else []
            keys += [*node.declared_writes, *(field.key for field in node.written_fields)]
            self._write(step, [key for key in keys if key not in absent], ahead, within)
        if ahead:
            self._read(step, ahead)

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        for child in reversed(step.children):
            self.pass_by(child, ahead, within)

    def loop(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """After its body comes what follows the loop, or the body again."""
        if ahead:
            kept = self._unread_in(ahead, step.index, step.end)
            ahead.clear()
            ahead.update(kept)
            self._read(step, ahead)
        self.in_order(step, ahead, within)

    def parallel(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """Branches that run at the same time may read what each other writes."""
        children = [child for child in step.children if self._matters(child)]
        ways = [self._beside(step, child, ahead) for child in children]
        for child, way in zip(children, ways, strict=True):
            self.pass_by(child, way, within)
        if step.node.merge == "first_complete":
            _either(ahead, [*ways, *([_soonest(ahead)] if len(ways) < len(step.children) else ())])
            return
        ahead.clear()
        for child, way in zip(children, ways, strict=True):
            ahead.update(self._beside(step, child, way))

    def _beside(self, step: Step, child: Step, ahead: Ahead) -> Ahead:
        """Those of the keys ahead that no other branch reads; a copy."""
        before = self._unread_in(ahead, step.index, child.index)
        return _soonest(self._unread_in(before, child.end, step.end))

    def race(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        _either(ahead, self._each(step, ahead, within))

    def route(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        node: RouteNode = step.node
        ways = self._each(step, ahead, within)
        open_end = node.default is None and not exhaustive([test for test, _ in node.rules])
        _either(ahead, [*ways, _soonest(ahead)] if open_end else ways)
        self._read(step, ahead)

    def fallback(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """A branch that fails may have got anywhere, and then the next one runs."""
        after, then = _soonest(ahead), within
        ways: list[Ahead] = []
        for child in reversed(step.children):
            way = {key: by for key, by in after.items() if then is None or key in then}
            self.pass_by(child, way, then)
            ways.append(way)
            then = frozenset(way) if then is None else frozenset(way).intersection(then)
        _either(ahead, ways)

    def remote(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """The remote agent, or what runs in its place."""
        self._note(step, ahead)
        ways = self._each(step, ahead, within)
        self._write(step, writes_of(step), ahead, within)
        _either(ahead, [_soonest(ahead), *ways])
        self._read(step, ahead)

    def over_items(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """The body runs for several items at the same time, or for none."""
        self._note(step, ahead)
        self._write(step, writes_of(step), ahead, within)
        way = _soonest(self._unread_in(ahead, step.index, step.end))
        self.pass_by(step.children[0], way, within)
        _either(ahead, [_soonest(ahead), way])
        ahead.pop(step.node.item_key, None)
        self._read(step, ahead)


def _always(node: Node) -> Collection[str]:
    """The keys that a step which is no agent writes whenever it runs."""
    if not isinstance(node, TransformNode):
        return node.access.writes
    fn = node.fn
    if not isinstance(fn, Operation):
        return node.access.writes
    if fn.name == "set":
        values = dict(fn.params)["values"]
        return [key for key, value in values if value is not None]
    return node.access.writes if fn.name in _REPLACING else ()


def _soonest(ahead: Ahead) -> Ahead:
    """A copy for a branch."""
    if len(ahead) <= _FOLLOWED:
        return dict(ahead)
    return dict(islice(reversed(ahead.items()), _FOLLOWED))


def _either(ahead: Ahead, ways: list[Ahead]) -> None:
    """Keep what is ahead on every one of several ways; there is none in a composite that is empty."""
    first, *others = ways or [{}]
    kept = [(key, by) for key, by in first.items() if all(key in other for other in others)]
    ahead.clear()
    ahead.update(kept)


_Pass = Callable[[_Backwards, Step, Ahead, "Collection[str] | None"], None]
PASS: Final[Mapping[type[Node], _Pass]] = {
    AgentNode: _Backwards.agent,
    SequenceNode: _Backwards.in_order,
    ParallelNode: _Backwards.parallel,
    LoopNode: _Backwards.loop,
    TransformNode: _Backwards.step,
    RouteNode: _Backwards.route,
    FallbackNode: _Backwards.fallback,
    RaceNode: _Backwards.race,
    GateNode: _Backwards.step,
    TapNode: _Backwards.step,
    MapOverNode: _Backwards.over_items,
    TimeoutNode: _Backwards.in_order,
    TransferNode: _Backwards.step,
    CaptureNode: _Backwards.step,
    ModelSelectorNode: _Backwards.step,
    RemoteAgentNode: _Backwards.remote,
    ArtifactNode: _Backwards.step,
}
"""How the walk passes each node type."""
