"""Where a run may be cut in two, and what must cross: state keys, and which part of the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.shown import shown
from adk_fluent.analysis.talk.sight import EVERYTHING, sight_of
from adk_fluent.analysis.values.fact import PRESENT, STATUS, Fact
from adk_fluent.analysis.walk.side_effects import owner_of
from adk_fluent.context.spec import Context
from adk_fluent.ir import execution
from adk_fluent.ir.annotations import ExecutionBoundary, TransformSpec
from adk_fluent.ir.nodes import CaptureNode
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.effects import Copies, Holds, Needs, Removes, Sets, Transform, Writes, all_effects

if TYPE_CHECKING:
    from adk_fluent.analysis.facts import Facts
    from adk_fluent.analysis.values.read import Read
    from adk_fluent.ir.state_keys import StateFieldRef

_FRAME_FIELDS: Final = frozenset({"name", "description", "children", "annotations"})
"""What a sequence may say and still be cut: each part says the same."""
_PLAIN_EFFECTS: Final = (Writes, Sets, Copies, Removes, Needs, Holds)
"""What does not depend on what was in the key that is written."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a run cannot be cut before a step.

    Attributes:
        cut: the step with the boundary.
        by: what cannot be cut.
        reason: it is a `construct` that runs its inside as a whole; a sequence with `options` of its own,
            such as callbacks, which would run twice; an answer that goes on in `pieces`; or a `transfer`
            that leads, or skips steps, across.
    """

    cut: Step
    by: Step
    reason: Literal["construct", "options", "pieces", "transfer"]


@dataclass(frozen=True, slots=True)
class Hearing:
    """What of the conversation the steps of a stretch may be shown.

    Attributes:
        authors: of this run, what these agents said before.
        earlier: of the session's earlier runs, what these said.
        user: whether the user's messages of earlier runs are shown.
    """

    authors: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    user: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps from one cut to the next.

    Attributes:
        cut: the step before which it is cut; `None` of the first stretch, unless that starts with a boundary.
        start: the index of its first step.
        end: one more than that of its last.
        reads: the state keys that must come in, `temp:` keys left out, since those do not cross.
        open_reads: steps that read, or remove, keys which they do not name, so that all must come in.
        writes: the keys that it may write; without `temp:` keys.
        open_writes: steps that write keys which they do not name.
        hears: what of the conversation must come in.
        files: the artifacts that it names; `ANY_FILE` among them where only a run tells.
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
        """What the boundary at its start says."""
        return None if self.cut is None else self.cut.node.annotations.boundary


def boundaries(facts: Facts) -> list[Step]:
    """The steps that have an execution boundary, in order."""
    return [step for step in facts.steps if step.node.annotations.boundary is not None]


def obstacle(facts: Facts, cut: Step) -> Obstacle | None:
    """What keeps a run from being cut before a step; `None` if nothing does."""
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
    """Whether a transfer leads across a cut, or skips steps behind it."""
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
    """The stretches of a run, in order: one more than there are places where it can be, and is, cut."""
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
    needed = [read.key for read in inside if _comes_in(read, start, end)]
    needed += [key for step in steps if facts.reaches(step) for key in _looked_at(step)]
    readers, writers = facts.unknown
    return Stretch(
        cut,
        start,
        end,
        reads=_crossing(needed),
        open_reads=tuple(step for step in steps if step in readers or _takes_all(facts, step)),
        writes=_crossing(key for step in steps for key in facts.writes_of(step)),
        open_writes=tuple(step for step in steps if step in writers),
        hears=_hearing(facts, steps),
        files=tuple(dict.fromkeys(use.filename for step in steps for use in step.node.artifact_uses())),
    )


def _crossing(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if not is_temporary(key)))


def _comes_in(read: Read, start: int, end: int) -> bool:
    """Whether what is read may have been there before the stretch began."""
    return not read.facts or any(not _made_between(fact, start, end) for fact in read.facts)


def _made_between(fact: Fact, start: int, end: int) -> bool:
    here = all(start <= writer.index < end for writer in fact.writers)
    return fact.mask & STATUS == PRESENT and bool(fact.writers) and here


def _looked_at(step: Step) -> Iterator[str]:
    """Keys whose value an operation looks at, beside what it is known to need.

    Those are what the operations read that it may run, such as those of `S.when`, and what it writes anew,
    such as the key of a default. Where operations are put together, or run at the same time, each writes only
    what it changes, which is how clashes are settled.
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
    """Whether a step may remove, or read, keys which only the state tells."""
    named_late = getattr(getattr(step.node, "fn", None), "names_keys_as_it_runs", False)
    if step in facts.unknown[1] and _at_once(step):  # any key may be one over which it clashes
        return True
    return bool(named_late) or facts.effects_of(step).clears is step


def _at_once(step: Step) -> bool:
    return any(
        isinstance(outer.node.runs, (execution.InParallel, execution.PerItem)) for outer in step.above()
    )


def schema_fields(facts: Facts) -> dict[str, StateFieldRef]:
    """Key → the schema field it is, of schemas that are bound or whose fields an agent names."""
    found: dict[str, StateFieldRef] = {}
    for step in facts.steps:
        given = step.node.given
        named = (*given.get("read_fields", ()), *given.get("written_fields", ()))
        found |= {ref.key: ref for ref in named}
    for bound in facts.schemas:
        found |= bound.by_key
    return found


# --- the conversation -----------------------------------------------------------------------------


def _hearing(facts: Facts, steps: list[Step]) -> Hearing:
    authors: set[str] = set()
    earlier: set[str] = set()
    user = False
    inside = set(steps)
    for step in steps:
        # Nothing else but an agent's context, below, has words of others in its hands.
        if isinstance(step.node, CaptureNode) and step.node.turns is not None:
            authors |= _names(other for other in facts.steps[: steps[0].index] if other.is_model)
            if step.node.turns > 1:
                user, earlier = True, earlier | _names(other for other in facts.steps if other.is_model)
        if not step.is_model:
            continue
        context = step.node.annotations.context
        asks = isinstance(context, Context) and context.asks  # a helper model is shown all of it
        sight = EVERYTHING if asks else sight_of(step.node)
        if sight.history == "none":
            continue
        heard = facts.flow.speakers(step) if asks else shown(facts.flow, step)
        authors |= _names(speaker for speaker in heard if speaker not in inside)
        if sight.earlier:
            before = facts.flow.earlier_speakers(step)
            earlier |= _names(speaker for speaker in before if sight.admits(speaker) != "no")
            user = user or sight.user
    return Hearing(frozenset(authors), frozenset(earlier), user)


def _names(steps: Iterator[Step]) -> set[str]:
    return {step.name for step in steps}
