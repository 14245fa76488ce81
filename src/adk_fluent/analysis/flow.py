"""What the data-flow walk finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from adk_fluent.analysis.keys.effects import StepKeys
from adk_fluent.analysis.origins import Gathered, WrittenIn
from adk_fluent.analysis.passing import NOWHERE, passages_in
from adk_fluent.analysis.plan import Branch, Plan, Step
from adk_fluent.analysis.talk.history import AllOf, AnyOf, History, Known, Voice, audible, heard, turn
from adk_fluent.analysis.values.fact import PRESENT, UNKNOWN, Fact
from adk_fluent.analysis.values.read import Read
from adk_fluent.analysis.words import Words, words_in
from adk_fluent.ir.annotations import EdgeSemantics
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.passage import Passage


@dataclass(slots=True)
class Flow:
    """What the walk found.

    Attributes:
        plan: the steps of the tree.
        keys: what they do with state keys.
        visits: step → how often the walk came by; one that is missing cannot be reached.
        situations: model step → what was said before it ran, and the conversation branch it ran on, once per
            time the walk came by.
        upstream: model step → steps whose answer it is the first to react to.
        voices: steps that may speak, each with the conversation branch it may speak on.
        edges: pairs of steps: the answer of the first is passed on in pieces to the second.
        passages: sequence or loop → place of a child in it → how its answer goes on to the next.
    """

    plan: Plan
    keys: StepKeys = field(default_factory=StepKeys)
    visits: dict[Step, int] = field(default_factory=dict[Step, int])
    situations: dict[Step, list[tuple[History | None, Branch]]] = field(
        default_factory=dict[Step, "list[tuple[History | None, Branch]]"]
    )
    upstream: dict[Step, dict[Step, None]] = field(default_factory=dict[Step, "dict[Step, None]"])
    voices: dict[Voice, None] = field(default_factory=dict["Voice", None])
    edges: dict[tuple[Step, Step], None] = field(default_factory=dict["tuple[Step, Step]", None])
    passages: dict[Step, Mapping[int, Passage]] = field(init=False)
    _known: Known = field(default_factory=dict["AnyOf | AllOf", "dict[Voice, bool]"])
    _reads: dict[Step, tuple[Read, ...]] = field(default_factory=dict[Step, "tuple[Read, ...]"])
    _earlier: dict[frozenset[Branch], frozenset[Step]] = field(
        default_factory=dict["frozenset[Branch]", "frozenset[Step]"]
    )
    _turns: dict[Step, Mapping[Step | None, bool]] = field(
        default_factory=dict["Step", "Mapping[Step | None, bool]"]
    )
    _left: dict[str, Words] = field(default_factory=dict[str, Words])

    def __post_init__(self) -> None:
        self.passages = passages_in(self.plan)

    def pieces_for(self, step: Step) -> Passage | None:
        """How a step gets the answer before it, if in pieces, for each of which it runs; else `None`."""
        while (outer := step.parent) is not None:
            place = outer.children.index(step)
            passage = self.passages.get(outer, NOWHERE).get(place - 1)
            if passage is not None and passage.taking == "runs":
                return passage
            if isinstance(outer.node.runs, InOrder) and place:
                return None
            step = outer
        return None

    def leaving(self, step: Step) -> EdgeSemantics | None:
        """The edge by which an answer of a step leaves: its own, or that of the nearest step around it."""
        around = (each.node.annotations.edge for each in (step, *step.above()))
        return next((edge for edge in around if edge is not None), None)

    @property
    def reads(self) -> list[Read]:
        """Everything that is read where the walk came by, in order of the steps."""
        return [read for step in self.plan.steps if step in self.visits for read in self.reads_of(step)]

    def reads_of(self, step: Step) -> tuple[Read, ...]:
        """Everything that a step itself reads; of what it reads twice through one thing, the last."""
        found = self._reads.get(step)
        if found is None:
            once = {(read.key, read.via): read for read in step.node.key_reads()}
            found = self._reads[step] = tuple(Read(step, read) for read in once.values())
        return found

    def speakers(self, step: Step) -> Mapping[Step, bool]:
        """Whose text may be in the conversation that `step` could see; true where it certainly is."""
        return heard(self.situations.get(step, ()), self._known)

    def turn(self, step: Step) -> Mapping[Step | None, bool]:
        """Whose text, `None` for the user's, a model that sees the current turn only may see there."""
        found = self._turns.get(step)
        if found is None:
            found = self._turns[step] = turn(self.situations.get(step, ()), step)
        return found

    def earlier_speakers(self, step: Step) -> Set[Step]:
        """Whose text of earlier runs of the session may be in the conversation that `step` could see."""
        branches = frozenset(branch for _, branch in self.situations.get(step, ()))
        found = self._earlier.get(branches)
        if found is None:
            heard_by = (s for s, spoken_on in self.voices if any(audible(spoken_on, b) for b in branches))
            found = self._earlier[branches] = frozenset(heard_by)
        return found

    def words(self, read: Read) -> Words:
        """Whose words may be in the value that is read."""
        return words_in(read.facts, self.plan.steps, self.keys)

    def writers(self, read: Read) -> list[Step]:
        """The steps whose value a reader may get, in order; one that does not say so is missing."""
        return put_by(read.facts, self.plan.steps, self.keys)

    def words_left(self, key: str) -> Words:
        """Whose words an earlier run of the session may have left in a key."""
        found = self._left.get(key)
        if found is None:
            left = Fact(PRESENT, of=(WrittenIn(self.plan.root, key),))
            found = self._left[key] = words_in([left], self.plan.steps, self.keys)
        return found


def put_by(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> list[Step]:
    """The steps that have put there what the values may be that these facts are about, in order.

    Args:
        steps: all steps of the plan.
        keys: what they do with state keys.
    """
    found: set[Step] = set()
    pending: list[object] = list(facts)
    seen: set[object] = set()
    while pending:
        source = pending.pop()
        if isinstance(source, Fact) and source.by is not None:
            if source.mask & (PRESENT | UNKNOWN):
                found.add(source.by)
        elif isinstance(source, Fact | Gathered | WrittenIn) and source not in seen:
            seen.add(source)
            if isinstance(source, WrittenIn):
                inside = list(source.inside(steps))
                found.update(step for step in inside if source.key in keys.writes(step))
                pending += [WrittenIn(step.target, source.key) for step in inside if step.target]
            elif isinstance(source, Gathered):
                pending += source.facts
            elif source.mask & (PRESENT | UNKNOWN):
                pending += source.of
    return sorted(found, key=lambda step: step.index)
