"""The cuts at which a run can be divided between processes, and the data that each part needs.

A run is cut before each step with an execution boundary. Only the steps of sequences can be separated: a
route, loop or parallel composite runs as a whole in one process. So `obstacle` walks outwards from the step.
It refuses a cut inside any other composite, a sequence with its own callbacks, a streamed answer, or the
range of a transfer.

A stretch is the part between two cuts. It gets only the keys, messages and files that its steps may read: a
session may hold more than the next process should see. If a step does not declare its keys, it gets all keys.
Invariant: a stretch gives the same result with these data as with the whole session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from adk_fluent.analysis.audience import EVERYTHING, received_speakers, visible_history
from adk_fluent.analysis.plan import Step, owner_of
from adk_fluent.analysis.values.fact import PRESENT, STATUS, Fact
from adk_fluent.context.spec import Context
from adk_fluent.ir import execution
from adk_fluent.ir.annotations import ExecutionBoundary, TransformSpec
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.effects import Copies, Holds, Needs, Removes, Sets, Transform, Writes, all_effects

if TYPE_CHECKING:
    from adk_fluent.analysis.data_flow import Read
    from adk_fluent.analysis.facts import Facts
    from adk_fluent.ir.state_keys import StateFieldRef

_FRAME_FIELDS: Final = frozenset({"name", "description", "children", "annotations"})
"""The fields of a sequence that can be cut: each part keeps the same values."""
_PLAIN_EFFECTS: Final = (Writes, Sets, Copies, Removes, Needs, Holds)
"""The effects that do not depend on the old value of the key."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a run cannot be cut before a step.

    Attributes:
        cut: the step with the boundary.
        by: the step that prevents the cut.
        reason: `construct`: a composite that runs its children as a whole; `options`: a sequence with options
            such as callbacks, which would run twice; `pieces`: a streamed answer; `transfer`: a transfer to
            the other side, or one that skips steps there.
    """

    cut: Step
    by: Step
    reason: Literal["construct", "options", "pieces", "transfer"]


@dataclass(frozen=True, slots=True)
class Hearing:
    """The part of the conversation that the steps of a stretch may receive.

    Attributes:
        authors: agents whose messages of this run, before the stretch, it may receive.
        earlier: agents whose messages of earlier runs it may receive.
        user: true if it may receive the user's messages of earlier runs.
    """

    authors: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    user: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps from one cut to the next.

    Attributes:
        cut: the step before the cut point; `None` for the first stretch without a boundary at its start.
        start: the index of its first step.
        end: the index after its last step.
        reads: the state keys that it needs, without `temp:` keys, which do not cross a boundary.
        open_reads: steps that read or remove keys without naming them, so the stretch needs all keys.
        writes: the keys that it may write, without `temp:` keys.
        open_writes: steps that write keys without naming them.
        hears: the part of the conversation that it needs.
        files: the artifacts that it names; with `ANY_FILE` if some names are known only during a run.
    """

    cut: Step | None
    start: int
    end: int
    reads: tuple[str, ...]
    open_reads: tuple[Step, ...]
    writes: tuple[str, ...]
    open_writes: tuple[Step, ...]
    hears: Hearing
    files: tuple[str, ...] = ()

    @property
    def boundary(self) -> ExecutionBoundary | None:
        """The options of the boundary at its start; `None` without one."""
        return None if self.cut is None else self.cut.node.annotations.boundary


def boundaries(facts: Facts) -> list[Step]:
    """The steps that have an execution boundary, in order."""
    return [step for step in facts.steps if step.node.annotations.boundary is not None]


def obstacle(facts: Facts, cut: Step) -> Obstacle | None:
    """The obstacle to a cut before a step; `None` if the run can be cut there."""
    around = list(cut.above())
    outermost = next(
        (step for step in reversed(around) if not isinstance(step.node.runs, execution.InOrder)), None
    )
    if outermost is not None:
        return Obstacle(cut, outermost, "construct")
    child = cut
    for frame in around:
        place = frame.children.index(child)
        if place and not frame.node.given.keys() <= _FRAME_FIELDS:
            return Obstacle(cut, frame, "options")
        passage = facts.flow.passages.get(frame, {}).get(place - 1)
        if passage is not None and passage.taking:
            return Obstacle(cut, frame.children[place - 1], "pieces")
        child = frame
    moving = next((step for step in facts.steps if _moves_across(step, cut)), None)
    return None if moving is None else Obstacle(cut, moving, "transfer")


def _moves_across(step: Step, cut: Step) -> bool:
    """True if a transfer leads across a cut, or skips steps behind it."""
    if not isinstance(step.node.runs, execution.HandOver):
        return False
    owner, target = owner_of(step), step.target
    if owner is not None and step.index < cut.index < owner.end and _inside(cut, owner):
        return True
    if target is None:
        return False
    low, high = sorted((step.index, target.index))
    return low < cut.index <= high


def _inside(step: Step, outer: Step) -> bool:
    return outer.index < step.index < outer.end


def stretches(facts: Facts) -> list[Stretch]:
    """The stretches of a run, in order. A boundary at which the run cannot be cut is ignored."""
    starts: list[tuple[int, Step | None]] = [(0, None)]
    for step in boundaries(facts):
        if obstacle(facts, step) is not None:
            continue
        if all(_inside(step, before) for before in facts.steps[starts[-1][0] : step.index]):
            starts[-1] = (starts[-1][0], step)  # nothing runs between them
        else:
            starts.append((step.index, step))
    ends = [start for start, _ in starts[1:]] + [len(facts.steps)]
    return [_stretch(facts, cut, start, end) for (start, cut), end in zip(starts, ends, strict=True)]


def _stretch(facts: Facts, cut: Step | None, start: int, end: int) -> Stretch:
    steps = facts.steps[start:end]
    inside = [read for read in facts.reads if start <= read.step.index < end]
    needed = [read.key for read in inside if _may_predate(read, start, end)]
    needed += [key for step in steps if facts.reaches(step) for key in _old_values_read(step)]
    readers, writers = facts.unknown
    return Stretch(
        cut,
        start,
        end,
        reads=_crossing(needed),
        open_reads=tuple(step for step in steps if step in readers or _takes_all(facts, step)),
        writes=_crossing(key for step in steps for key in facts.writes_of(step)),
        open_writes=tuple(step for step in steps if step in writers),
        hears=_conversation_for(facts, steps),
        files=tuple(dict.fromkeys(use.filename for step in steps for use in step.node.artifact_uses())),
    )


def _crossing(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if not is_temporary(key)))


def _may_predate(read: Read, start: int, end: int) -> bool:
    """True if the value may have been written before the stretch began."""
    return not read.facts or any(not _made_between(fact, start, end) for fact in read.facts)


def _made_between(fact: Fact, start: int, end: int) -> bool:
    inside = all(start <= writer.index < end for writer in fact.writers)
    return fact.mask & STATUS == PRESENT and bool(fact.writers) and inside


def _old_values_read(step: Step) -> Iterator[str]:
    """The keys whose old value an operation looks at, in addition to its declared reads.

    These are the reads of operations that it may run, such as those of `S.when`, and keys that it changes
    from their old value, such as the key of a default. Parallel operations compare old and new values, too:
    each writes only the keys that it changed.
    """
    node = step.node
    if not isinstance(node, Transform):
        return
    effects = all_effects(node)
    plain = all(isinstance(effect, _PLAIN_EFFECTS) for effect in effects)
    if not plain or _at_once(step):
        yield from node.key_writes
        yield from (key for effect in effects for key in effect.may_remove)
        yield from (key for effect in effects for part in effect.parts for key in sorted(part.access.reads))
    spec = getattr(node, "fn", None)
    if isinstance(spec, TransformSpec):
        yield from (read.key for read in spec.reads if read.via == "own")


def _takes_all(facts: Facts, step: Step) -> bool:
    """True if a step may read or remove keys whose names are known only during a run."""
    named_late = getattr(getattr(step.node, "fn", None), "names_keys_as_it_runs", False)
    if step in facts.unknown[1] and _at_once(step):  # it may clash about any key
        return True
    return bool(named_late) or facts.effects_of(step).clears is step


def _at_once(step: Step) -> bool:
    return any(
        isinstance(outer.node.runs, (execution.InParallel, execution.PerItem)) for outer in step.above()
    )


def schema_fields(facts: Facts) -> dict[str, StateFieldRef]:
    """Key → its schema field, from bound schemas and from fields that agents read or write."""
    found: dict[str, StateFieldRef] = {}
    for step in facts.steps:
        given = step.node.given
        named = (*given.get("read_fields", ()), *given.get("written_fields", ()))
        found |= {ref.key: ref for ref in named}
    for bound in facts.schemas:
        found |= bound.by_key
    return found


# --- the conversation -----------------------------------------------------------------------------


def _conversation_for(facts: Facts, steps: list[Step]) -> Hearing:
    authors: set[str] = set()
    earlier: set[str] = set()
    user = False
    inside = set(steps)
    for step in steps:
        # Apart from a capture, only an agent (below) receives what other agents said.
        if (turns := step.node.copied_turns) is not None:
            authors |= _names(other for other in facts.steps[: steps[0].index] if other.is_model)
            if turns > 1:
                user, earlier = True, earlier | _names(other for other in facts.steps if other.is_model)
        if not step.is_model:
            continue
        context = step.node.annotations.context
        asks = isinstance(context, Context) and context.asks  # a helper model receives the whole history
        visible = EVERYTHING if asks else visible_history(step.node)
        if visible.history == "none":
            continue
        received = facts.flow.speakers(step) if asks else received_speakers(facts.flow, step)
        authors |= _names(speaker for speaker in received if speaker not in inside)
        if visible.earlier:
            before = facts.flow.earlier_speakers(step)
            earlier |= _names(speaker for speaker in before if visible.admits(speaker) != "no")
            user = user or visible.user
    return Hearing(frozenset(authors), frozenset(earlier), user)


def _names(steps: Iterator[Step]) -> set[str]:
    return {step.name for step in steps}
