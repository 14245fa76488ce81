"""A read of one key by one step, and whether the key is present there."""

from __future__ import annotations

from typing import Literal, cast

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, LOST, PRESENT, STATUS, UNKNOWN, Fact, some
from adk_fluent.ir.keys import KeyRead, Level, Via

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

    def meets(self, fact: Fact) -> None:
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
            self.texts = some(self.texts, fact.text_of)

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
