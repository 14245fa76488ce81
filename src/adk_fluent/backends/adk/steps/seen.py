"""What the events of a step told those around it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Seen:
    """What the events of a child told so far.

    Attributes:
        paused: it waits for a person.
        stop: nothing runs after it.
        skip: the rest of the sequence, or of a loop's round, is skipped.
        problems: the failures it reported and nothing caught; id of the event → what went wrong.
    """

    paused: bool = False
    stop: bool = False
    skip: bool = False
    problems: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def unfinished(self) -> bool:
        """Whether it waits or failed, so that what is around it has not finished either."""
        return self.paused or bool(self.problems)

    @property
    def problem(self) -> str | None:
        """What went wrong first, if anything did."""
        return next(iter(self.problems.values()), None)

    @property
    def is_last(self) -> bool:
        """Whether nothing runs after it, at least not in its sequence and not now."""
        return self.unfinished or self.stop or self.skip

    def add(self, other: Seen) -> None:
        """Note what the events of another step told, too."""
        self.paused = self.paused or other.paused
        self.stop = self.stop or other.stop
        self.skip = self.skip or other.skip
        self.problems |= other.problems
