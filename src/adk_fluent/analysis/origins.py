"""Where the values of the state come from: whose words may be in them.

While the walk goes on, each fact only notes what it was made of. Whose words that are is found afterwards,
and only for those who ask, by following these notes; a loop's notes may lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from adk_fluent.analysis.plan import Step
from adk_fluent.ir.nodes import CaptureNode


@dataclass(frozen=True, slots=True)
class InitialValue:
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

    facts: list[object] = field(default_factory=list[object])


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


def captured(node: CaptureNode) -> Sources:
    """What a capture copies."""
    return (Person.USER,) if node.turns is None else (ANYBODY,)
