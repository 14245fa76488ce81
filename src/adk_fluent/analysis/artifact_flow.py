"""The artifacts that exist when a step runs, found by one walk over the tree in the order of the steps.

At the start of a run nothing is known about artifacts: earlier runs, other sessions of the user, uploads and
tools may have left any. So a file that no step saves is `UNKNOWN`, not absent as a state key would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from adk_fluent.analysis.data_flow import Flow
from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, UNKNOWN
from adk_fluent.ir import execution
from adk_fluent.ir.keys import ANY_FILE, ArtifactUse
from adk_fluent.ir.nodes import agent_of

_MARKS: Final = {"saves": PRESENT, "deletes": ABSENT}

Known = dict[str, int]
"""File → the set of `PRESENT`, `ABSENT` and `UNKNOWN` that are possible; `UNKNOWN` for files not in it."""


@dataclass(slots=True)
class FileRead:
    """One artifact that one step reads.

    Attributes:
        step: the reader.
        use: the artifact, and the consequence if it does not exist.
        mask: the possibilities for the artifact, over all times that the step runs.
    """

    step: Step
    use: ArtifactUse
    mask: int = 0


@dataclass(slots=True)
class FileFlow:
    """The knowledge about the artifacts of a tree.

    Attributes:
        names: every file that a step names.
        savers: file → the steps that may save it, in order.
        deleters: file → the steps that may delete it, in order.
        anything: the steps that may save files whose names are known only during a run.
        reads: the reads that a run can reach, in order.
        before: step → the knowledge before it runs, without files that are `UNKNOWN`.
    """

    names: tuple[str, ...] = ()
    savers: dict[str, list[Step]] = field(default_factory=dict[str, "list[Step]"])
    deleters: dict[str, list[Step]] = field(default_factory=dict[str, "list[Step]"])
    anything: list[Step] = field(default_factory=list[Step])
    reads: list[FileRead] = field(default_factory=list[FileRead])
    before: dict[Step, Known] = field(default_factory=dict[Step, Known])

    def sources(self, read: FileRead) -> list[Step]:
        """The other steps whose version of the artifact a read may get, in order."""
        savers = self.savers.get(read.use.filename, ()) if read.mask & PRESENT else ()
        return [step for step in savers if step is not read.step and _may_precede(step, read.step)]


def file_flow(states: Flow) -> FileFlow:
    """The knowledge about the artifacts of a tree.

    Args:
        states: the data flow of the tree, which says what a run can reach.
    """
    flow = FileFlow()
    uses = [(step, use) for step in states.plan.steps for use in step.node.artifact_uses()]
    if not uses:
        return flow  # most trees use no artifacts
    flow.names = tuple(dict.fromkeys(use.filename for _, use in uses if use.filename != ANY_FILE))
    for step, use in uses:
        if use.how == "saves" and use.filename == ANY_FILE:
            flow.anything.append(step)
        elif use.how != "reads":
            found = flow.savers if use.how == "saves" else flow.deleters
            if step not in (steps := found.setdefault(use.filename, [])):
                steps.append(step)
    walk = _ArtifactWalk(flow, states)
    walk.visit(states.plan.root, {})
    flow.reads.sort(key=lambda read: read.step.index)
    return flow


def _may_precede(step: Step, other: Step) -> bool:
    """True if a step may have run when another one does: before it, in an earlier round, or beside it."""
    both = next(around for around in (other, *other.above()) if around.index <= step.index < around.end)
    if any(
        isinstance(around.node.runs, (execution.Repeated, execution.PerItem))
        for around in (both, *both.above())
    ):
        return True
    return both.node.runs.separate_branches or (
        step.index < other.index
        and not isinstance(both.node.runs, (execution.FirstMatch, execution.OnFailure))
    )


class _ArtifactWalk:
    """The walk.

    Attributes:
        jumps: true if the tree has transfers: they may skip or repeat any step, so nothing is certain.
        beside: the possible changes by branches that run at the same time, outermost first.
    """

    def __init__(self, flow: FileFlow, states: Flow) -> None:
        self.flow = flow
        self.plan: Plan = states.plan
        self.reachable = states.visits.keys()
        self.jumps = any(isinstance(step.node.runs, execution.HandOver) for step in self.plan.steps)
        self.beside: list[Known] = []
        self._found: dict[tuple[Step, ArtifactUse], FileRead] = {}
        self._touched: dict[Step, Known] = {}

    def visit(self, step: Step, known: Known) -> None:
        """Pass a step: note the files that it reads, then change `known` to the knowledge after the step."""
        if step not in self.reachable:
            return
        self._add_parallel_changes(known)
        before = self.flow.before.get(step)
        self.flow.before[step] = dict(known) if before is None else _either([before, known])
        PASS[type(step.node.runs)](self, step, known)

    def _add_parallel_changes(self, known: Known) -> None:
        """Add the possible changes by parallel branches and transfers."""
        for touched in self.beside:
            _blend(known, touched)
        if self.jumps:
            _blend(known, self.touched(self.plan.root))
            _blend(known, dict.fromkeys(self.flow.names, UNKNOWN))

    def visit_beside(self, child: Step, known: Known, others: Iterable[Step]) -> None:
        """Visit a branch that runs at the same time as others."""
        touched: Known = {}
        for other in others:
            for name, mark in self.touched(other).items():
                touched[name] = touched.get(name, 0) | mark
        self.beside.append(touched)
        self.visit(child, known)
        self.beside.pop()

    def uses(self, step: Step, known: Known) -> None:
        """Apply the reads and changes of the step itself, in order."""
        node = step.node
        for use in node.artifact_uses():
            self._add_parallel_changes(known)
            if use.how == "reads":
                self._read(step, use, known)
            else:
                mark = _MARKS[use.how]
                for name in self._named_by(use):
                    certain = use.certain and use.filename != ANY_FILE and _is_sure(step)
                    known[name] = mark if certain else known.get(name, UNKNOWN) | mark
        if _may_do_anything(step):
            for name in self.flow.names:
                known[name] = known.get(name, UNKNOWN) | UNKNOWN

    def _named_by(self, use: ArtifactUse) -> tuple[str, ...]:
        """The files that a use may concern."""
        return self.flow.names if use.filename == ANY_FILE else (use.filename,)

    def _read(self, step: Step, use: ArtifactUse, known: Known) -> None:
        if use.filename == ANY_FILE:
            return
        read = self._found.get((step, use))
        if read is None:
            read = self._found[step, use] = FileRead(step, use)
            self.flow.reads.append(read)
        mask = known.get(use.filename, UNKNOWN)
        read.mask |= mask
        if use.certain and use.level == "required" and _is_sure(step):
            known[use.filename] = PRESENT  # without the file, the run has ended here

    def touched(self, step: Step) -> Known:
        """The possible changes of each file inside a step: `PRESENT` if saved, `ABSENT` if deleted."""
        found = self._touched.get(step)
        if found is None:
            found = self._touched[step] = self._touches(step)
        return found

    def _touches(self, step: Step) -> Known:
        found: Known = {}
        for inner in step.walk(self.plan.steps):
            for use in inner.node.artifact_uses():
                for name in self._named_by(use) if use.how in _MARKS else ():
                    found[name] = found.get(name, 0) | _MARKS[use.how]
            if _may_do_anything(inner):
                found |= {name: found.get(name, 0) | UNKNOWN for name in self.flow.names}
        return found

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, known: Known) -> None:
        for child in step.children:
            self.visit(child, known)

    def again(self, step: Step, known: Known) -> None:
        """Pass a loop: later rounds see the files of earlier ones, and an agent may end it at any step."""
        if step.node.runs.max_rounds > 1:
            _blend(known, self.touched(step))
        before = dict(known)
        self.in_order(step, known)
        if self._may_end_early(step):
            _settle(known, [before, known])
            _blend(known, self.touched(step))

    def at_once(self, step: Step, known: Known) -> None:
        """Pass parallel branches, each of which may run before or after any part of the others."""
        ways = [dict(known) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.visit_beside(child, way, (other for other in step.children if other is not child))
        after = _together(known, ways, [self.touched(child) for child in step.children])
        if not step.node.runs.waits or self._may_end_early(step):
            _settle(after, [known, after])
            _blend(after, self.touched(step))
        _settle(known, [after])

    def one_of(self, step: Step, known: Known) -> None:
        """Pass a route, of which one branch or none runs, or a remote agent with its fallback."""
        ways = [dict(known) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.visit(child, way)
        closed = isinstance(step.node.runs, execution.FirstMatch) and step.node.runs.default
        _settle(known, ways if closed else [*ways, known])

    def until_one_succeeds(self, step: Step, known: Known) -> None:
        """Pass a fallback or race: the files of a branch stay as they are if the branch fails or loses."""
        ways: list[Known] = []
        start = dict(known)
        for child in step.children:
            ways.append(dict(start))
            if step.node.runs.separate_branches:
                self.visit_beside(child, ways[-1], (other for other in step.children if other is not child))
                _blend(ways[-1], self.touched(step))
            else:
                self.visit(child, ways[-1])
                _blend(start, self.touched(child))
        _settle(known, ways or [known])

    def per_item(self, step: Step, known: Known) -> None:
        """Pass a map: its items run at the same time, and there may be none."""
        item = dict(known)
        for child in step.children:
            self.visit_beside(child, item, step.children)
        _settle(known, [known, item])

    def by_model(self, step: Step, known: Known) -> None:
        """Pass an agent and its sub-agents, which may run in any order."""
        self.uses(step, known)
        if not step.children:
            return
        for child in step.children:
            _blend(known, self.touched(child))
        self.uses(step, known)  # a sub-agent may hand back
        ways = [dict(known) for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.visit(child, way)
        _settle(known, [known, *ways])

    def _may_end_early(self, step: Step) -> bool:
        """True if a tool or callback inside may end a loop or a fan-out."""
        inside = (inner.node for inner in step.walk(self.plan.steps))
        agents = (agent_of(node) for node in inside)
        return any(agent is not None and (agent.tools or agent.callbacks) for agent in agents)


def _is_sure(step: Step) -> bool:
    """True if a step that runs performs its declared operations: a model may not, and a gate may not ask."""
    return not step.node.speaks and not step.node.asks


def _may_do_anything(step: Step) -> bool:
    """True if a tool or callback may save and delete files without declaring it."""
    return agent_of(step.node) is not None and bool(step.node.undeclared()[1])


def _blend(known: Known, touched: Known) -> None:
    """Add possible changes to the knowledge."""
    for name, mark in touched.items():
        known[name] = known.get(name, UNKNOWN) | mark


def _either(ways: Iterable[Known]) -> Known:
    """The knowledge after one of several ways."""
    found = list(ways)
    names = dict.fromkeys(name for way in found for name in way)
    return {name: _any_of(way.get(name, UNKNOWN) for way in found) for name in names}


def _any_of(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _settle(known: Known, ways: Iterable[Known]) -> None:
    """Replace `known` by the knowledge after one of several ways."""
    after = _either(ways)
    known.clear()
    known.update(after)


def _together(known: Known, ways: list[Known], touched: list[Known]) -> Known:
    """The knowledge after several parallel branches that all ran.

    Args:
        known: the knowledge before them.
        ways: the knowledge after each branch.
        touched: the possible changes of each branch.
    """
    after = dict(known)
    for name in dict.fromkeys(name for way in ways for name in way):
        here = [index for index, inside in enumerate(touched) if name in inside]
        masks = [ways[index].get(name, UNKNOWN) for index in here]
        if len(here) < 2:
            after[name] = masks[0] if here else _any_of(way.get(name, UNKNOWN) for way in ways)
        elif PRESENT in masks and not any(touched[index][name] & ~PRESENT for index in here):
            after[name] = PRESENT
        else:
            after[name] = _any_of(masks)
    return after


_Pass = Callable[[_ArtifactWalk, Step, Known], None]
PASS: Final[Mapping[type[execution.Execution], _Pass]] = {
    execution.Leaf: _ArtifactWalk.uses,
    execution.HandOver: _ArtifactWalk.uses,
    execution.ByModel: _ArtifactWalk.by_model,
    execution.InOrder: _ArtifactWalk.in_order,
    execution.Wrapped: _ArtifactWalk.in_order,
    execution.Repeated: _ArtifactWalk.again,
    execution.InParallel: _ArtifactWalk.at_once,
    execution.FirstMatch: _ArtifactWalk.one_of,
    execution.OnFailure: _ArtifactWalk.one_of,
    execution.FirstSuccess: _ArtifactWalk.until_one_succeeds,
    execution.RaceToSuccess: _ArtifactWalk.until_one_succeeds,
    execution.PerItem: _ArtifactWalk.per_item,
}
"""The function that passes a step, for each way to run children."""
