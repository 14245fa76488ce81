"""`Flow`, the result of the data-flow walk: visits, reads, histories and streamed answers of each step.

`authors_of` and `last_writers` give the provenance of a value: the authors whose words may be in it, and the
steps that wrote it last. They follow the sources that the walk noted in each `Fact`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, cast

from adk_fluent.analysis.history import (
    AllOf,
    AnyOf,
    History,
    Known,
    SpeakerOnBranch,
    branch_is_visible,
    possible_speakers,
    turn_speakers,
)
from adk_fluent.analysis.plan import NOWHERE, Branch, Plan, Step, passages_in
from adk_fluent.analysis.values.fact import (
    ABSENT,
    ANYBODY,
    LOST,
    PRESENT,
    STATUS,
    UNKNOWN,
    Fact,
    Gathered,
    InitialValue,
    Sources,
    SpokenIn,
    WrittenIn,
    capture_sources,
    merged_steps,
)
from adk_fluent.analysis.values.key_effects import StepKeys
from adk_fluent.ir.annotations import EdgeSemantics
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.keys import KeyRead, Level, Via
from adk_fluent.ir.passage import Passage


@dataclass(slots=True)
class Authors:
    """The authors whose words may be in some values.

    Attributes:
        steps: agents and remote agents.
        user: true if the user may be an author.
        anybody: true if any agent of the tree may be an author.
        before: keys whose value may be from before the run.
    """

    steps: dict[Step, None] = field(default_factory=dict["Step", None])
    user: bool = False
    anybody: bool = False
    before: dict[str, None] = field(default_factory=dict[str, None])


def authors_of(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> Authors:
    """The authors whose words may be in the values of these facts.

    Args:
        steps: all steps of the plan.
        keys: the effects of the steps on state keys.
    """
    found = Authors()
    pending: list[object] = list(facts)
    seen: set[int] = set()
    while pending:
        source = pending.pop()
        if id(source) in seen:
            continue
        seen.add(id(source))
        if isinstance(source, Fact):
            pending += source.of
        elif isinstance(source, Step):
            found.steps[source] = None
        elif isinstance(source, Gathered):
            pending += source.facts
        elif isinstance(source, InitialValue):
            found.before[source.key] = None
        elif isinstance(source, WrittenIn):
            pending += writers_in(source, steps, keys)
        elif isinstance(source, SpokenIn):
            pending += _speakers_in(source.step, steps)
        else:
            found.user = True
            found.anybody = found.anybody or source is ANYBODY
    return found


def writers_in(place: WrittenIn, steps: list[Step], keys: StepKeys) -> Sources:
    """The sources of the values that steps inside may write to a key."""
    found: list[object] = []
    for inner in place.inside(steps):
        if place.key in keys.writes(inner):
            found += _own_words(inner, place.key)
        if inner.target is not None or keys.effects(inner).unknown is inner:
            found.append(ANYBODY)
    return tuple(found)


def _own_words(step: Step, key: str) -> Sources:
    """The sources of the value that a step writes to a key, without the facts at that step."""
    if step.is_model and step.node.output_key == key:
        return (step,)
    return capture_sources(step.node)


def _speakers_in(step: Step, steps: list[Step]) -> Sources:
    inside = list(step.walk(steps))
    return (ANYBODY,) if any(s.target for s in inside) else tuple(s for s in inside if s.is_model)


def last_writers(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> list[Step]:
    """The steps that may have written the values of these facts, in order.

    Args:
        steps: all steps of the plan.
        keys: the effects of the steps on state keys.
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


Status = Literal["must", "may", "never", "unknown"]


class Read:
    """One key that one step reads, with the facts about the key whenever the step runs.

    The walk may pass a step several times, for example in each round of a loop. Each time it adds a fact.

    Attributes:
        step: the reader.
        key: the state key with its scope prefix.
        via: the kind of read, such as a template or a function.
        level: the consequence of a missing key, from `required` (an error) to `optional` (none).
        type: the type that the reader expects; `None` for any type.
        where: file and line, if the source of a function shows the read.
        first: the fact when the step runs for the first time; `None` if it never runs.
        mask: the union of the masks of all facts.
        doubt: the first fact in which the key may be missing; without one, the first fact.
        texts: agents whose whole answer may be the value.
        facts: all facts, in the order of the walk.
        lost: the step whose pause may lose the key before this step runs.
    """

    __slots__ = (
        *("doubt", "facts", "first", "key", "level", "lost", "mask"),
        *("step", "texts", "type", "via", "where"),
    )

    def __init__(self, step: Step, read: KeyRead) -> None:
        self.step: Step = step
        self.key: str = read.key
        self.via: Via = read.via
        self.level: Level = read.level
        self.type: object = read.type
        self.where: str = read.where
        self.first: Fact | None = None
        self.mask: int = 0
        self.doubt: Fact | None = None
        self.texts: tuple[Step, ...] = ()
        self.facts: list[Fact] = []
        self.lost: Step | None = None

    def add_fact(self, fact: Fact) -> None:
        """Add the fact about the key at one time when the step runs."""
        if self.first is None:
            self.first = self.doubt = fact
        elif fact.mask & ABSENT and not cast(Fact, self.doubt).mask & ABSENT:
            self.doubt = fact
        self.facts.append(fact)
        if fact.mask & LOST and self.lost is None:
            self.lost = fact.lost
        self.mask |= fact.mask & STATUS
        if fact.text_of is not self.texts:
            self.texts = merged_steps(self.texts, fact.text_of)

    @property
    def is_shown(self) -> bool:
        """True if a model receives the value."""
        return self.via in ("template", "prompt", "context", "remote")

    @property
    def reached(self) -> bool:
        """True if a run can reach the step."""
        return self.first is not None

    @property
    def status(self) -> Status:
        """`must` if the key is always present, `may` if sometimes, `never`, or `unknown`."""
        if self.mask == PRESENT:
            return "must"
        if self.mask == ABSENT:
            return "never"
        return "unknown" if self.mask & UNKNOWN else "may"

    @property
    def only_first_missing(self) -> bool:
        """True if the key is missing in the first round of a loop and present in a later one."""
        return self.first is not None and self.first.mask & STATUS == ABSENT and bool(self.mask & PRESENT)


@dataclass(slots=True)
class Flow:
    """The result of the walk.

    Attributes:
        plan: the steps of the tree.
        keys: the effects of the steps on state keys.
        visits: step → the number of times that the walk passed it; a run cannot reach the other steps.
        situations: model step → the history and the conversation branch, each time that the walk passed it.
        upstream: model step → steps to whose answer it is the first to react.
        speakers_on_branches: steps that may speak, each with its conversation branch.
        edges: pairs of steps: the answer of the first is streamed to the second.
        passages: sequence or loop → index of a child → how the next child gets its answer.
    """

    plan: Plan
    keys: StepKeys = field(default_factory=StepKeys)
    visits: dict[Step, int] = field(default_factory=dict[Step, int])
    situations: dict[Step, list[tuple[History | None, Branch]]] = field(
        default_factory=dict[Step, "list[tuple[History | None, Branch]]"]
    )
    upstream: dict[Step, dict[Step, None]] = field(default_factory=dict[Step, "dict[Step, None]"])
    speakers_on_branches: dict[SpeakerOnBranch, None] = field(default_factory=dict["SpeakerOnBranch", None])
    edges: dict[tuple[Step, Step], None] = field(default_factory=dict["tuple[Step, Step]", None])
    passages: dict[Step, Mapping[int, Passage]] = field(init=False)
    _known: Known = field(default_factory=dict["AnyOf | AllOf", "dict[SpeakerOnBranch, bool]"])
    _reads: dict[Step, tuple[Read, ...]] = field(default_factory=dict[Step, "tuple[Read, ...]"])
    _earlier: dict[frozenset[Branch], frozenset[Step]] = field(
        default_factory=dict["frozenset[Branch]", "frozenset[Step]"]
    )
    _turns: dict[Step, Mapping[Step | None, bool]] = field(
        default_factory=dict["Step", "Mapping[Step | None, bool]"]
    )
    _left: dict[str, Authors] = field(default_factory=dict[str, Authors])

    def __post_init__(self) -> None:
        self.passages = passages_in(self.plan)

    def chunk_passage(self, step: Step) -> Passage | None:
        """The passage by which a step runs for each chunk of the answer before it; `None` without one."""
        while (outer := step.parent) is not None:
            place = outer.children.index(step)
            passage = self.passages.get(outer, NOWHERE).get(place - 1)
            if passage is not None and passage.taking == "runs":
                return passage
            if isinstance(outer.node.runs, InOrder) and place:
                return None
            step = outer
        return None

    def streaming_edge(self, step: Step) -> EdgeSemantics | None:
        """The streaming edge of a step's answer: its own, or that of the nearest composite around it."""
        around = (each.node.annotations.edge for each in (step, *step.above()))
        return next((edge for edge in around if edge is not None), None)

    @property
    def reads(self) -> list[Read]:
        """All reads that a run can reach, in order of the steps."""
        return [read for step in self.plan.steps if step in self.visits for read in self.reads_of(step)]

    def reads_of(self, step: Step) -> tuple[Read, ...]:
        """All reads of a step itself, one per key and kind of read: the last."""
        found = self._reads.get(step)
        if found is None:
            once = {(read.key, read.via): read for read in step.node.key_reads()}
            found = self._reads[step] = tuple(Read(step, read) for read in once.values())
        return found

    def speakers(self, step: Step) -> Mapping[Step, bool]:
        """The speakers that may be in the history of `step`, before its context; true if certain."""
        return possible_speakers(self.situations.get(step, ()), self._known)

    def turn_speakers(self, step: Step) -> Mapping[Step | None, bool]:
        """The speakers, `None` for the user, that `step` may receive if it receives the current turn only."""
        found = self._turns.get(step)
        if found is None:
            found = self._turns[step] = turn_speakers(self.situations.get(step, ()), step)
        return found

    def earlier_speakers(self, step: Step) -> Set[Step]:
        """The speakers of earlier runs of the session that may be in the history of `step`."""
        branches = frozenset(branch for _, branch in self.situations.get(step, ()))
        found = self._earlier.get(branches)
        if found is None:
            speakers = (
                s
                for s, spoken_on in self.speakers_on_branches
                if any(branch_is_visible(spoken_on, b) for b in branches)
            )
            found = self._earlier[branches] = frozenset(speakers)
        return found

    def authors(self, read: Read) -> Authors:
        """The authors whose words may be in the value of a read."""
        return authors_of(read.facts, self.plan.steps, self.keys)

    def writers(self, read: Read) -> list[Step]:
        """The last writers: the steps whose value a read may get, in order, without undeclared writes."""
        return last_writers(read.facts, self.plan.steps, self.keys)

    def earlier_authors(self, key: str) -> Authors:
        """The authors whose words an earlier run of the session may have left in a key."""
        found = self._left.get(key)
        if found is None:
            any_write = Fact(PRESENT, of=(WrittenIn(self.plan.root, key),))
            found = self._left[key] = authors_of([any_write], self.plan.steps, self.keys)
        return found
