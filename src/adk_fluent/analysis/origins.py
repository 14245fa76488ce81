"""The sources of the values in state, as notes that a walk leaves in each fact.

During the walk, each fact only notes its direct sources. `words.words_in` follows these notes later, and only
if a check asks for the authors of a value. The notes of a loop may lead back to themselves.
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
    """The value of a key before the run."""

    key: str


@dataclass(frozen=True, slots=True)
class WrittenIn:
    """Any value that a step inside may write to a key, except for the steps of one child."""

    step: Step
    key: str
    besides: Step | None = None

    def inside(self, steps: list[Step]) -> Iterator[Step]:
        """The steps inside, without those of the excepted child; `steps` are all of the plan."""
        but = range(0) if self.besides is None else range(self.besides.index, self.besides.end)
        return (step for step in self.step.walk(steps) if step.index not in but)


@dataclass(frozen=True, slots=True)
class SpokenIn:
    """Any message of a step inside this one."""

    step: Step


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The facts about a key after each round of a loop, or after each of several agents that hand over."""

    facts: list[object] = field(default_factory=list[object])


class Person(Enum):
    """Authors that are not one agent.

    Attributes:
        USER: the user.
        ANYBODY: any author: a function that does not declare its reads has made the value.
    """

    USER = "user"
    ANYBODY = "anybody"


ANYBODY: Final = Person.ANYBODY

Sources = tuple[object, ...]
"""The sources of a value: objects of `Fact`, `Step` (an agent's words), and the classes of this module."""


def captured(node: CaptureNode) -> Sources:
    """The sources of the value that a capture writes."""
    return (Person.USER,) if node.turns is None else (ANYBODY,)
