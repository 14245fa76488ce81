"""Where the values of the state come from: whose words may be in them.

While the walk goes on, each fact only notes what it was made of. Whose words that are is found afterwards,
and only for those who ask, by following these notes; a loop's notes may lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from adk_fluent.ir.nodes import CaptureNode

if TYPE_CHECKING:
    from adk_fluent.analysis.plan import Step
    from adk_fluent.analysis.values.fact import Fact


@dataclass(frozen=True, slots=True)
class Start:
    """What was there before the run."""

    key: str


@dataclass(frozen=True, slots=True)
class WrittenIn:
    """Whatever may be written to a key inside a step, beside what one of its children writes."""

    step: Step
    key: str
    besides: Step | None = None

    def inside(self, steps: list[Step]) -> Iterator[Step]:
        """The steps that are meant; `steps` are all of the plan."""
        but = range(0) if self.besides is None else range(self.besides.index, self.besides.end)
        return (step for step in self.step.walk(steps) if step.index not in but)


@dataclass(frozen=True, slots=True)
class SpokenIn:
    """Whatever may be said inside a step."""

    step: Step


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What a key holds after any round of a loop, or after any of several agents that call each other."""

    facts: list[Fact] = field(default_factory=list["Fact"])


class Person(Enum):
    """Words that are not those of one agent.

    Attributes:
        USER: what the user says.
        ANYBODY: what anybody says: a function that does not say what it reads has made the value.
    """

    USER = "user"
    ANYBODY = "anybody"


ANYBODY: Final = Person.ANYBODY

Sources = tuple[object, ...]
"""What a value is made of: `Fact`, `Step` (an agent's words), and what this module defines."""


@dataclass(slots=True)
class Words:
    """Whose words may be in some values.

    Attributes:
        steps: agents and remote agents.
        user: whether they may be the user's.
        anybody: whether they may be those of any agent of the tree.
        before: keys whose value may be from before the run.
    """

    steps: dict[Step, None] = field(default_factory=dict["Step", None])
    user: bool = False
    anybody: bool = False
    before: dict[str, None] = field(default_factory=dict[str, None])


def words_in(facts: Iterable[Fact], steps: list[Step]) -> Words:
    """Whose words may be in the values that these facts are about.

    Args:
        steps: all steps of the plan.
    """
    from adk_fluent.analysis.plan import Step
    from adk_fluent.analysis.values.fact import Fact

    found = Words()
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
        elif isinstance(source, Start):
            found.before[source.key] = None
        elif isinstance(source, WrittenIn):
            pending += writers_in(source, steps)
        elif isinstance(source, SpokenIn):
            pending += _speakers_in(source.step, steps)
        else:
            found.user = True
            found.anybody = found.anybody or source is ANYBODY
    return found


def put_by(facts: Iterable[Fact], steps: list[Step]) -> list[Step]:
    """The steps that have put there what the values may be that these facts are about, in order.

    Args:
        steps: all steps of the plan.
    """
    from adk_fluent.analysis.keys.effects import writes_of
    from adk_fluent.analysis.values.fact import PRESENT, UNKNOWN, Fact

    found: set[Step] = set()
    pending: list[object] = list(facts)
    seen: set[object] = set()
    while pending:
        source = pending.pop()
        if isinstance(source, Fact):
            if not source.mask & (PRESENT | UNKNOWN):
                continue
            if source.by is not None:
                found.add(source.by)
            elif source not in seen:
                seen.add(source)
                pending += source.of
        elif isinstance(source, Gathered):
            if source not in seen:
                seen.add(source)
                pending += source.facts
        elif isinstance(source, WrittenIn) and source not in seen:
            seen.add(source)
            for inner in source.inside(steps):
                if source.key in writes_of(inner):
                    found.add(inner)
                if inner.target is not None:
                    pending.append(WrittenIn(inner.target, source.key))
    return sorted(found, key=lambda step: step.index)


def writers_in(place: WrittenIn, steps: list[Step]) -> Sources:
    """The agents whose words may be written to a key there."""
    from adk_fluent.analysis.keys.effects import effects_of, writes_of

    found: list[object] = []
    for inner in place.inside(steps):
        if place.key in writes_of(inner):
            found += _own_words(inner, place.key)
        if inner.target is not None or effects_of(inner).unknown is inner:
            found.append(ANYBODY)
    return tuple(found)


def _own_words(step: Step, key: str) -> Sources:
    """What a step that writes a key makes its value of, as far as that shows without walking there."""
    if step.is_model and step.node.output_key == key:
        return (step,)
    return captured(step.node) if isinstance(step.node, CaptureNode) else (ANYBODY,)


def captured(node: CaptureNode) -> Sources:
    """What a capture copies."""
    return (Person.USER,) if node.turns is None else (ANYBODY,)


def _speakers_in(step: Step, steps: list[Step]) -> Sources:
    inside = list(step.walk(steps))
    return (ANYBODY,) if any(s.target for s in inside) else tuple(s for s in inside if s.is_model)
