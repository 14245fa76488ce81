"""Which values are written again before anybody reads them.

One walk over the tree against the order in which it runs. It carries the keys that will certainly be written
again before they are read, each with the step that does so; what is written while its key is among them is
written for nothing. Where it is not certain what runs, a key leaves them, so that nothing is said wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from adk_fluent.contracts.effects import nullable, writes_of
from adk_fluent.contracts.matches import exhaustive
from adk_fluent.contracts.moves import may_hand_over
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.reads import reads_of
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
_SHARED: Final = ("user:", "app:")
"""Other sessions may read these at any time."""


def overwritten(facts: Facts) -> list[tuple[Step, str, Step]]:
    """Every step whose value of a key nobody reads, the key, and the step that writes it again.

    A transfer may skip anything, so of a tree with transfers nothing is said.
    """
    if any(isinstance(step.node, TransferNode) for step in facts.steps):
        return []
    if all(len(writers) < 2 for writers in facts.writers.values()):
        return []
    walk = _Backwards(facts)
    walk.pass_by(facts.plan.root, {}, None)
    return sorted(walk.found, key=lambda found: (found[0].index, found[1]))


class _Backwards:
    """The walk itself.

    Attributes:
        found: what it found.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.found: list[tuple[Step, str, Step]] = []
        self._silent = facts.unknown[0]

    def pass_by(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """Turn what is ahead of what follows a step into what is ahead of the step.

        Args:
            within: the keys that may join those ahead; `None` for all. In a branch that may fail, those that
                are also ahead where the run then goes on.
        """
        if step.visits:
            _PASS[type(step.node)](self, step, ahead, within)

    def _note(self, step: Step, ahead: Ahead) -> None:
        self.found += [(step, key, ahead[key]) for key in writes_of(step) if key in ahead]

    def _write(self, step: Step, keys: Collection[str], ahead: Ahead, within: Collection[str] | None) -> None:
        """Keys that the step always writes."""
        for key in keys:
            if (within is None or key in within) and not key.startswith(_SHARED):
                ahead[key] = step

    def _read(self, step: Step, ahead: Ahead) -> None:
        """What the step itself reads; all, where a function does not say, or a person may look."""
        node = step.node
        blind = isinstance(node, TransformNode) and not node.access.reads_known
        if blind or step in self._silent or isinstance(node, GateNode):
            ahead.clear()
        if not ahead:
            return
        for read in reads_of(step):
            if read.via != "removal":
                ahead.pop(read.key, None)
        for key in node.access.reads if isinstance(node, TransformNode) else ():
            ahead.pop(key, None)  # some operations grow what is there, without minding when nothing is

    def _unread_in(self, ahead: Ahead, start: int, end: int) -> Ahead:
        """Those of the keys ahead that no step of a range reads."""
        return {key: by for key, by in ahead.items() if not self.facts.is_read_in(key, start, end)}

    # --- steps ------------------------------------------------------------------------------------

    def step(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        self._note(step, ahead)
        self._write(step, _always(step.node), ahead, within)
        self._read(step, ahead)

    def agent(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        node: AgentNode = step.node
        if ends_loops(node) or may_hand_over(step):
            ahead.clear()
        self._note(step, ahead)
        if node.children:
            ahead.clear()
            for child in step.children:
                self.pass_by(child, {}, None)
        elif not node.callbacks:
            absent = nullable(node)
            keys = [node.output_key] if isinstance(node.output_key, str) else []
            keys += [*node.declared_writes, *(field.key for field in node.written_fields)]
            self._write(step, [key for key in keys if key not in absent], ahead, within)
        self._read(step, ahead)

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        for child in reversed(step.children):
            self.pass_by(child, ahead, within)

    def loop(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """After its body comes what follows the loop, or the body again."""
        kept = self._unread_in(ahead, step.index, step.end)
        ahead.clear()
        ahead.update(kept)
        self._read(step, ahead)
        self.in_order(step, ahead, within)

    def parallel(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """Branches that run at the same time may read what each other writes."""
        ways = [self._beside(step, child, ahead) for child in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.pass_by(child, way, within)
        if step.node.merge == "first_complete":
            _either(ahead, ways)
            return
        ahead.clear()
        for child, way in zip(step.children, ways, strict=True):
            ahead.update(self._beside(step, child, way))

    def _beside(self, step: Step, child: Step, ahead: Ahead) -> Ahead:
        """Those of the keys ahead that no other branch reads."""
        return self._unread_in(self._unread_in(ahead, step.index, child.index), child.end, step.end)

    def race(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        ways = [dict(ahead) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.pass_by(child, way, within)
        _either(ahead, ways)

    def route(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        node: RouteNode = step.node
        ways = [dict(ahead) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.pass_by(child, way, within)
        open_end = node.default is None and not exhaustive([test for test, _ in node.rules])
        _either(ahead, [*ways, dict(ahead)] if open_end else ways)
        self._read(step, ahead)

    def fallback(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """A branch that fails may have got anywhere, and then the next one runs."""
        after, then = dict(ahead), within
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
        ways = [dict(ahead) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.pass_by(child, way, within)
        self._write(step, writes_of(step), ahead, within)
        _either(ahead, [dict(ahead), *ways])
        self._read(step, ahead)

    def over_items(self, step: Step, ahead: Ahead, within: Collection[str] | None) -> None:
        """The body runs for several items at the same time, or for none."""
        self._note(step, ahead)
        self._write(step, writes_of(step), ahead, within)
        way = self._unread_in(ahead, step.index, step.end)
        self.pass_by(step.children[0], way, within)
        _either(ahead, [dict(ahead), way])
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


def _either(ahead: Ahead, ways: list[Ahead]) -> None:
    """Keep what is ahead on every one of several ways; there is none in a composite that is empty."""
    first, *others = ways or [{}]
    ahead.clear()
    ahead.update({key: by for key, by in first.items() if all(key in other for other in others)})


_Pass = Callable[[_Backwards, Step, Ahead, "Collection[str] | None"], None]
_PASS: Final[Mapping[type[Node], _Pass]] = {
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
