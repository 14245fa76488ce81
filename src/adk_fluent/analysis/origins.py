"""Where the values of the state come from: whose words may be in them.

While the walk goes on, each fact only notes what it was made of. Whose words that are is found afterwards,
and only for those who ask, by following these notes; a loop's notes may lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """Whatever may be written to a key inside a step."""

    step: Step
    key: str


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
            pending += writers_in(source.step, source.key, steps)
        elif isinstance(source, SpokenIn):
            pending += _speakers_in(source.step, steps)
        else:
            found.user = True
            found.anybody = found.anybody or source is ANYBODY
    return found


def writers_in(step: Step, key: str, steps: list[Step]) -> Sources:
    """The agents whose words may be written to a key inside a step."""
    from adk_fluent.analysis.keys.effects import effects_of, writes_of

    found: list[object] = []
    for inner in step.walk(steps):
        if key in writes_of(inner):
            found += _own_words(inner, key)
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
