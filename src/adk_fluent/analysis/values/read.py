"""One key that one step reads, with what is known about it there."""

from __future__ import annotations

from typing import Literal, cast

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, LOST, PRESENT, STATUS, UNKNOWN, Fact, some
from adk_fluent.ir.keys import KeyRead, Level, Via

Status = Literal["must", "may", "never", "unknown"]


class Read:
    """One key that one step reads, with what is known about it there.

    Attributes:
        step: who reads.
        key: the state key, scope prefix included.
        via: through what.
        level: what it means when the key is missing.
        type: the type that the reader expects, `None` if any will do.
        where: file and line, where the source of a function shows it.
        first: what is known the first time the step runs.
        mask: what is known over all times.
        doubt: what is known at the time when the key is most likely missing.
        texts: agents whose whole answer may be what is read.
        facts: what is known at each time the step runs.
        lost: a step at which the run may stop for a person, and lose the key, before this one runs.
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
        """Note what is known about the key at one time the step runs."""
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
        """Whether a model is shown the value."""
        return self.via in ("template", "prompt", "context", "remote")

    @property
    def reached(self) -> bool:
        """Whether the step can run at all."""
        return self.first is not None

    @property
    def status(self) -> Status:
        """Whether the key is there when the step runs."""
        if self.mask == PRESENT:
            return "must"
        if self.mask == ABSENT:
            return "never"
        return "unknown" if self.mask & UNKNOWN else "may"

    @property
    def only_first_missing(self) -> bool:
        """Whether the key is missing the first time round a loop and there later."""
        return self.first is not None and self.first.mask & STATUS == ABSENT and bool(self.mask & PRESENT)
