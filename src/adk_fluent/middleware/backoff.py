"""When to try again: the waits between attempts, ever longer, and never shorter than a provider asks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 60.0
"""Seconds up to which the waits grow."""

PATIENCE: Final = 120.0
"""Seconds that a provider may ask to wait; if it asks for more, nobody wants to wait here for it."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between attempts.

    The n-th wait is `base * 2 ** (n - 1)` seconds, up to 60. With `jitter` it is drawn evenly from the upper
    half of that, so that many that failed together do not come back together. If the provider names a longer
    time, that is waited, and only a jitter of up to `base` is added.

    Attributes:
        attempts: how often to try, the first time included.
        base: seconds of the first wait.
        jitter: whether to vary the waits.
        draw: a number from 0 to 1; for tests.

    Example:
        >>> waits = Backoff(4, 1.0, jitter=False)
        >>> [waits.after(attempt) for attempt in (1, 2, 3, 4)]
        [1.0, 2.0, 4.0, None]
        >>> waits.after(1, asked=30.0), waits.after(1, asked=3600.0)
        (30.0, None)
    """

    attempts: int
    base: float
    jitter: bool = True
    draw: Callable[[], float] = random.random

    def after(self, attempt: int, asked: float | None = None) -> float | None:
        """Seconds to wait after the `attempt`-th failure; `None` to give up.

        Args:
            asked: the seconds that the provider asks for.
        """
        if attempt >= self.attempts or (asked is not None and asked > PATIENCE):
            return None
        share = self.draw() if self.jitter else 0.0
        # The exponent is bounded since the power of a large one is no float any more.
        wait = min(LONGEST, self.base * 2 ** min(attempt - 1, 64))
        if asked is not None and asked >= wait:
            return asked + share * self.base
        if self.jitter:
            wait *= 0.5 + 0.5 * share
        return wait if asked is None else max(wait, asked)
