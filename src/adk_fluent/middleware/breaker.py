"""A circuit breaker: what keeps failing is left alone for a while, then tried by one call."""

from __future__ import annotations

from threading import Lock
from typing import Literal, TypeAlias

Circuit: TypeAlias = Literal["closed", "open", "half-open"]
"""`closed` lets calls through, `open` none, `half-open` one, whose outcome decides."""


class Breaker:
    """The state of one circuit. It knows no clock: each question brings the time, in seconds.

    Args:
        threshold: how many failures in a row open the circuit.
        reset: seconds after which one call is let through.

    Example:
        >>> breaker = Breaker(threshold=1, reset=30.0)
        >>> breaker.failed(breaker.enter(0.0), 0.0)
        >>> breaker.state, breaker.left(10.0)
        ('open', 20.0)
        >>> probe = breaker.enter(30.0)
        >>> breaker.state, breaker.enter(30.0)
        ('half-open', None)
        >>> breaker.succeeded(probe)
        >>> breaker.state
        'closed'
    """

    def __init__(self, threshold: int, reset: float) -> None:
        self._threshold, self._reset = threshold, reset
        self._failures = 0
        self._opened: float | None = None
        self._probing = False
        # Calls that began before the circuit last opened or closed say nothing about now.
        self._era = 0
        self._guard = Lock()

    @property
    def state(self) -> Circuit:
        """What it does with the next call."""
        if self._opened is None:
            return "closed"
        return "half-open" if self._probing else "open"

    @property
    def idle(self) -> bool:
        """Whether it is as good as a new one."""
        return self._opened is None and not self._failures

    def left(self, now: float) -> float:
        """Seconds until a call may be let through; 0 if one may be now, or is under way."""
        return 0.0 if self._opened is None else max(0.0, self._opened + self._reset - now)

    def enter(self, now: float) -> int | None:
        """Let a call through: a ticket to tell its outcome with, or `None` if it may not pass."""
        with self._guard:
            if self._opened is not None:
                if self._probing or self.left(now) > 0:
                    return None
                self._probing = True
            return self._era

    def succeeded(self, ticket: int) -> None:
        """The call with this ticket was answered."""
        with self._guard:
            if ticket == self._era:
                self._failures = 0
                if self._probing:
                    self._turn(None)

    def failed(self, ticket: int, now: float) -> None:
        """The call with this ticket failed."""
        with self._guard:
            if ticket == self._era:
                self._failures += 1
                if self._probing or self._failures >= self._threshold:
                    self._turn(now)

    def abandoned(self, ticket: int) -> None:
        """The call with this ticket ended without an outcome; the next one may find out."""
        with self._guard:
            if ticket == self._era:
                self._probing = False

    def _turn(self, opened: float | None) -> None:
        self._opened, self._probing, self._failures = opened, False, 0
        self._era += 1
