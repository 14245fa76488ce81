"""A token bucket: so many calls in so many seconds, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from threading import Lock

from adk_fluent._tasks import PerLoop


class TokenBucket:
    """Lets `rate` calls through in each `per` seconds, first come, first served.

    After a rest, `rate` of them may pass at once (at least one); then one each `per / rate` seconds. So in
    `t` seconds never more than `rate + rate * t / per` pass. Waiting takes nothing: only a call that is let
    through does, and one that is cancelled while it waits leaves its place to the next.

    It may be used on several event loops at once; on each of them those who wait stand in one queue.

    Args:
        rate: how many calls.
        per: in how many seconds.
    """

    def __init__(self, rate: float, per: float = 1.0) -> None:
        self._per_second = rate / per
        self._size = max(1.0, float(rate))
        self._left = self._size
        self._at: float | None = None
        self._guard = Lock()
        self._queues = PerLoop(asyncio.Lock)
        self._waiting = 0

    @property
    def idle(self) -> bool:
        """Whether it is as good as a new one: full, and nobody waits."""
        with self._guard:
            self._refill(asyncio.get_running_loop().time())
            return self._left >= self._size and not self._waiting

    def missing(self) -> float:
        """Seconds until a call may pass that would be the next in the queue; 0 if one may pass now."""
        with self._guard:
            self._refill(asyncio.get_running_loop().time())
            return self._lacking()

    def take(self) -> bool:
        """Let a call through if one may pass now and nobody else waits for it."""
        return not self._queues.here().locked() and self._try() == 0

    async def wait(self) -> None:
        """Let a call through as soon as it may pass."""
        with self._guard:
            self._waiting += 1
        try:
            async with self._queues.here():
                while delay := self._try():
                    await asyncio.sleep(delay)
        finally:
            with self._guard:
                self._waiting -= 1

    def _try(self) -> float:
        """Take one if there is one; else say in how many seconds there will be."""
        with self._guard:
            self._refill(asyncio.get_running_loop().time())
            if lacking := self._lacking():
                return lacking
            self._left -= 1
            return 0.0

    def _lacking(self) -> float:
        # Times are sums of floats: what is missing by less than a millionth of a call is there.
        missing = 1 - self._left
        return 0.0 if missing <= 1e-6 else missing / self._per_second

    def _refill(self, now: float) -> None:
        """Add what has come in since the last look; the clocks of two loops may differ a little."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._left = min(self._size, self._left + passed * self._per_second)
        self._at = now if self._at is None else max(self._at, now)
