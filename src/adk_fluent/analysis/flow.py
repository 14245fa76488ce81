"""What the data-flow walk finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adk_fluent.analysis.keys.reads import Read, reads_of
from adk_fluent.analysis.origins import Words, WrittenIn, put_by, words_in
from adk_fluent.analysis.plan import Branch, Plan, Step
from adk_fluent.analysis.talk.history import AllOf, History, Known, OneOf, Voice, audible, heard
from adk_fluent.analysis.values.fact import PRESENT, Fact


@dataclass(slots=True)
class Flow:
    """What the walk found.

    Attributes:
        plan: the steps of the tree.
        situations: model step → what was said before it ran, and the conversation branch it ran on, once per
            time the walk came by.
        upstream: model step → steps whose answer it is the first to react to.
        voices: steps that may speak, each with the conversation branch it may speak on.
        edges: pairs of steps: the answer of the first is passed on in pieces to the second.
    """

    plan: Plan
    situations: dict[Step, list[tuple[History | None, Branch]]] = field(
        default_factory=dict[Step, "list[tuple[History | None, Branch]]"]
    )
    upstream: dict[Step, dict[Step, None]] = field(default_factory=dict[Step, "dict[Step, None]"])
    voices: dict[Voice, None] = field(default_factory=dict["Voice", None])
    edges: dict[tuple[Step, Step], None] = field(default_factory=dict["tuple[Step, Step]", None])
    _known: Known = field(default_factory=dict["OneOf | AllOf", "dict[Voice, bool]"])
    _left: dict[str, Words] = field(default_factory=dict[str, Words])

    @property
    def reads(self) -> list[Read]:
        """Everything that is read where the walk came by, in order of the steps."""
        return [read for step in self.plan.steps if step.visits for read in reads_of(step)]

    def speakers(self, step: Step) -> Mapping[Step, bool]:
        """Whose text may be in the conversation that `step` could see; true where it certainly is."""
        return heard(self.situations.get(step, ()), self._known)

    def earlier_speakers(self, step: Step) -> set[Step]:
        """Whose text of earlier runs of the session may be in the conversation that `step` could see."""
        branches = {branch for _, branch in self.situations.get(step, ())}
        return {speaker for speaker, spoken_on in self.voices if any(audible(spoken_on, b) for b in branches)}

    def words(self, read: Read) -> Words:
        """Whose words may be in the value that is read."""
        return words_in(read.facts, self.plan.steps)

    def writers(self, read: Read) -> list[Step]:
        """The steps whose value the reader may get, in order; one that does not say what it writes is not there."""
        return put_by(read.facts, self.plan.steps)

    def words_left(self, key: str) -> Words:
        """Whose words an earlier run of the session may have left in a key."""
        found = self._left.get(key)
        if found is None:
            left = Fact(PRESENT, of=(WrittenIn(self.plan.root, key),))
            found = self._left[key] = words_in([left], self.plan.steps)
        return found
