"""The artifacts that exist when a step runs, found by one walk over the tree in the order of the steps.

Idea: for each file, the walk carries the set of possibilities: `PRESENT`, `ABSENT`, `UNKNOWN`. A step that
saves or deletes a file changes the set. After a choice, the set is the union over the branches. A branch that
runs beside others also gets all their possible changes, whatever their order (`changes_in`).

Invariant: the set holds every possibility of every run that reaches the step. So `{PRESENT}` and `{ABSENT}`
are proofs. Where the order is unknown (loops, transfers, parallel branches), possibilities are only added.

Why not use the facts about state keys? At the start of a run nothing is known about artifacts: earlier runs,
other sessions of the user, uploads and tools may have left any. So a file that no step saves is `UNKNOWN`,
not absent as a state key would be.
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

_RESULTS: Final = {"saves": PRESENT, "deletes": ABSENT}

FileStates = dict[str, int]
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
    before: dict[Step, FileStates] = field(default_factory=dict[Step, FileStates])

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
    common = next(around for around in (other, *other.above()) if around.index <= step.index < around.end)
    if any(
        isinstance(around.node.runs, (execution.Repeated, execution.PerItem))
        for around in (common, *common.above())
    ):
        return True
    return common.node.runs.separate_branches or (
        step.index < other.index
        and not isinstance(common.node.runs, (execution.FirstMatch, execution.OnFailure))
    )


class _ArtifactWalk:
    """The walk.

    Attributes:
        has_transfers: true if a transfer may skip or repeat any step, so nothing is certain.
        parallel_changes: the possible changes by branches that run at the same time, outermost first.
    """

    def __init__(self, flow: FileFlow, states: Flow) -> None:
        self.flow = flow
        self.plan: Plan = states.plan
        self.reachable = states.visits.keys()
        self.has_transfers = any(isinstance(step.node.runs, execution.HandOver) for step in self.plan.steps)
        self.parallel_changes: list[FileStates] = []
        self._reads: dict[tuple[Step, ArtifactUse], FileRead] = {}
        self._changes: dict[Step, FileStates] = {}

    def visit(self, step: Step, files: FileStates) -> None:
        """Pass a step: note the files that it reads, then change `files` to the states after the step."""
        if step not in self.reachable:
            return
        self._add_parallel_changes(files)
        before = self.flow.before.get(step)
        self.flow.before[step] = dict(files) if before is None else _union([before, files])
        VISITORS[type(step.node.runs)](self, step, files)

    def _add_parallel_changes(self, files: FileStates) -> None:
        """Add the possible changes by parallel branches and transfers."""
        for changes in self.parallel_changes:
            _add_changes(files, changes)
        if self.has_transfers:
            _add_changes(files, self.changes_in(self.plan.root))
            _add_changes(files, dict.fromkeys(self.flow.names, UNKNOWN))

    def visit_in_parallel(self, child: Step, files: FileStates, others: Iterable[Step]) -> None:
        """Visit a branch that runs at the same time as others."""
        changes: FileStates = {}
        for other in others:
            for name, change in self.changes_in(other).items():
                changes[name] = changes.get(name, 0) | change
        self.parallel_changes.append(changes)
        self.visit(child, files)
        self.parallel_changes.pop()

    def apply_uses(self, step: Step, files: FileStates) -> None:
        """Apply the reads and changes of the step itself, in order."""
        node = step.node
        for use in node.artifact_uses():
            self._add_parallel_changes(files)
            if use.how == "reads":
                self._read(step, use, files)
            else:
                result = _RESULTS[use.how]
                for name in self._files_of(use):
                    certain = use.certain and use.filename != ANY_FILE and _is_certain(step)
                    files[name] = result if certain else files.get(name, UNKNOWN) | result
        if _may_do_anything(step):
            for name in self.flow.names:
                files[name] = files.get(name, UNKNOWN) | UNKNOWN

    def _files_of(self, use: ArtifactUse) -> tuple[str, ...]:
        """The files that a use may concern."""
        return self.flow.names if use.filename == ANY_FILE else (use.filename,)

    def _read(self, step: Step, use: ArtifactUse, files: FileStates) -> None:
        if use.filename == ANY_FILE:
            return
        read = self._reads.get((step, use))
        if read is None:
            read = self._reads[step, use] = FileRead(step, use)
            self.flow.reads.append(read)
        mask = files.get(use.filename, UNKNOWN)
        read.mask |= mask
        if use.certain and use.level == "required" and _is_certain(step):
            files[use.filename] = PRESENT  # without the file, the run has ended here

    def changes_in(self, step: Step) -> FileStates:
        """The possible changes of each file inside a step: `PRESENT` if saved, `ABSENT` if deleted."""
        changes = self._changes.get(step)
        if changes is None:
            changes = self._changes[step] = self._find_changes(step)
        return changes

    def _find_changes(self, step: Step) -> FileStates:
        changes: FileStates = {}
        for inner in step.walk(self.plan.steps):
            for use in inner.node.artifact_uses():
                for name in self._files_of(use) if use.how in _RESULTS else ():
                    changes[name] = changes.get(name, 0) | _RESULTS[use.how]
            if _may_do_anything(inner):
                changes |= {name: changes.get(name, 0) | UNKNOWN for name in self.flow.names}
        return changes

    # --- composites -------------------------------------------------------------------------------

    def in_order(self, step: Step, files: FileStates) -> None:
        for child in step.children:
            self.visit(child, files)

    def loop(self, step: Step, files: FileStates) -> None:
        """Pass a loop: later rounds see the files of earlier ones, and an agent may end it at any step."""
        if step.node.runs.max_rounds > 1:
            _add_changes(files, self.changes_in(step))
        before = dict(files)
        self.in_order(step, files)
        if self._may_end_early(step):
            _set_to_union(files, [before, files])
            _add_changes(files, self.changes_in(step))

    def parallel(self, step: Step, files: FileStates) -> None:
        """Pass parallel branches, each of which may run before or after any part of the others."""
        branches = [dict(files) for _ in step.children]
        for child, branch in zip(step.children, branches, strict=True):
            self.visit_in_parallel(child, branch, (other for other in step.children if other is not child))
        after = _after_all_branches(files, branches, [self.changes_in(child) for child in step.children])
        if not step.node.runs.waits or self._may_end_early(step):
            _set_to_union(after, [files, after])
            _add_changes(after, self.changes_in(step))
        _set_to_union(files, [after])

    def choice(self, step: Step, files: FileStates) -> None:
        """Pass a route, of which one branch or none runs, or a remote agent with its fallback."""
        branches = [dict(files) for _ in step.children]
        for child, branch in zip(step.children, branches, strict=True):
            self.visit(child, branch)
        always_chooses = isinstance(step.node.runs, execution.FirstMatch) and step.node.runs.default
        _set_to_union(files, branches if always_chooses else [*branches, files])

    def until_one_succeeds(self, step: Step, files: FileStates) -> None:
        """Pass a fallback or race: the files of a branch stay as they are if the branch fails or loses."""
        branches: list[FileStates] = []
        start = dict(files)
        for child in step.children:
            branches.append(dict(start))
            if step.node.runs.separate_branches:
                self.visit_in_parallel(
                    child, branches[-1], (other for other in step.children if other is not child)
                )
                _add_changes(branches[-1], self.changes_in(step))
            else:
                self.visit(child, branches[-1])
                _add_changes(start, self.changes_in(child))
        _set_to_union(files, branches or [files])

    def over_items(self, step: Step, files: FileStates) -> None:
        """Pass a map: its items run at the same time, and there may be none."""
        item = dict(files)
        for child in step.children:
            self.visit_in_parallel(child, item, step.children)
        _set_to_union(files, [files, item])

    def by_model(self, step: Step, files: FileStates) -> None:
        """Pass an agent and its sub-agents, which may run in any order."""
        self.apply_uses(step, files)
        if not step.children:
            return
        for child in step.children:
            _add_changes(files, self.changes_in(child))
        self.apply_uses(step, files)  # a sub-agent may hand back
        branches = [dict(files) for _ in step.children]
        for child, branch in zip(step.children, branches, strict=True):
            self.visit(child, branch)
        _set_to_union(files, [files, *branches])

    def _may_end_early(self, step: Step) -> bool:
        """True if a tool or callback inside may end a loop or a fan-out."""
        inside = (inner.node for inner in step.walk(self.plan.steps))
        agents = (agent_of(node) for node in inside)
        return any(agent is not None and (agent.tools or agent.callbacks) for agent in agents)


def _is_certain(step: Step) -> bool:
    """True if a step that runs performs its declared operations: a model may not, and a gate may not ask."""
    return not step.node.speaks and not step.node.asks


def _may_do_anything(step: Step) -> bool:
    """True if a tool or callback may save and delete files without declaring it."""
    return agent_of(step.node) is not None and bool(step.node.undeclared()[1])


def _add_changes(files: FileStates, changes: FileStates) -> None:
    """Add possible changes to the states of the files."""
    for name, change in changes.items():
        files[name] = files.get(name, UNKNOWN) | change


def _union(branches: Iterable[FileStates]) -> FileStates:
    """The states of the files after one of several branches."""
    every = list(branches)
    names = dict.fromkeys(name for branch in every for name in branch)
    return {name: _union_of_masks(branch.get(name, UNKNOWN) for branch in every) for name in names}


def _union_of_masks(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _set_to_union(files: FileStates, branches: Iterable[FileStates]) -> None:
    """Replace `files` by the states after one of several branches."""
    after = _union(branches)
    files.clear()
    files.update(after)


def _after_all_branches(
    files: FileStates, branches: list[FileStates], changes: list[FileStates]
) -> FileStates:
    """The states of the files after several parallel branches that all ran.

    If several branches change a file, any of them may be the last. If all these changes are saves, one
    certain save is enough: the file is present.

    Args:
        files: the states before them.
        branches: the states after each branch.
        changes: the possible changes of each branch.
    """
    after = dict(files)
    for name in dict.fromkeys(name for branch in branches for name in branch):
        changing = [index for index, changed in enumerate(changes) if name in changed]
        masks = [branches[index].get(name, UNKNOWN) for index in changing]
        if len(changing) < 2:
            after[name] = (
                masks[0] if changing else _union_of_masks(branch.get(name, UNKNOWN) for branch in branches)
            )
        elif PRESENT in masks and not any(changes[index][name] & ~PRESENT for index in changing):
            after[name] = PRESENT
        else:
            after[name] = _union_of_masks(masks)
    return after


_Visitor = Callable[[_ArtifactWalk, Step, FileStates], None]
VISITORS: Final[Mapping[type[execution.Execution], _Visitor]] = {
    execution.Leaf: _ArtifactWalk.apply_uses,
    execution.HandOver: _ArtifactWalk.apply_uses,
    execution.ByModel: _ArtifactWalk.by_model,
    execution.InOrder: _ArtifactWalk.in_order,
    execution.Wrapped: _ArtifactWalk.in_order,
    execution.Repeated: _ArtifactWalk.loop,
    execution.InParallel: _ArtifactWalk.parallel,
    execution.FirstMatch: _ArtifactWalk.choice,
    execution.OnFailure: _ArtifactWalk.choice,
    execution.FirstSuccess: _ArtifactWalk.until_one_succeeds,
    execution.RaceToSuccess: _ArtifactWalk.until_one_succeeds,
    execution.PerItem: _ArtifactWalk.over_items,
}
"""The function that passes a step, for each way to run children."""
