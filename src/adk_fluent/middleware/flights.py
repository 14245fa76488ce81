"""Calls that are under way, so that who asks the same meanwhile waits for the answer instead of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from adk_fluent._tasks import PerLoop

PATIENCE: Final = 1.0
"""Seconds after which those who wait for a streamed answer look whether anybody still takes its pieces."""

Answer = Sequence[Mapping[str, Any]]


class Flight:
    """One call, for those who wait for what it gives.

    Attributes:
        answer: what it gave; `None` as long as there is nothing.
        failed: whether it gave no answer; who made it may also have left it.
    """

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.failed: bool = False
        self._is_over = False
        self._waiting: set[asyncio.Future[None]] = set()
        self._pieces = 0
        self._offered = False

    def offer(self) -> None:
        """Note that a piece is about to be given, which takes as long as whoever takes it likes."""
        self._pieces, self._offered = self._pieces + 1, True

    def taken(self) -> None:
        """Note that it was taken."""
        self._offered = False

    def land(self, answer: Answer | None) -> None:
        """Give those who wait the answer, or tell them that there is none."""
        self.answer, self.failed = answer, answer is None
        self.end()

    def end(self) -> None:
        """Let those who wait go on."""
        self._is_over = True
        for each in self._waiting:
            _wake(each)

    async def wait(self) -> None:
        """Return when the call is over, or when nobody takes what it gives."""
        seen: int | None = None
        loop = asyncio.get_running_loop()
        while not self._is_over:
            if self._offered and self._pieces == seen:
                return
            seen = self._pieces if self._offered else None
            # It wakes in the very next round; soon after that, a replay looks whether all that runs waits.
            woken: asyncio.Future[None] = loop.create_future()
            self._waiting.add(woken)
            timer = loop.call_later(PATIENCE, _wake, woken)
            try:
                await woken
            finally:
                timer.cancel()
                self._waiting.discard(woken)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class Flights:
    """The calls under way, by key; each loop has its own, since waiting reaches from none to another."""

    def __init__(self) -> None:
        self._of = PerLoop(dict[str, Flight])

    async def answer(self, key: str) -> Answer | None:
        """What a call for this key that is under way gives; `None` for who has to ask.

        If who made it leaves it, one of those who wait makes it anew. If it fails, all of them do: one after
        the other, the last would have waited for the failures of all others.
        """
        while (flight := self._here().get(key)) is not None:
            await flight.wait()
            if flight.answer is not None or flight.failed or self._here().get(key) is flight:
                return flight.answer
        return None

    @contextmanager
    def leading(self, key: str) -> Generator[Flight]:
        """A call for a key, for which those who ask the same within wait."""
        here, flight = self._here(), Flight()
        here[key] = flight
        try:
            yield flight
        except Exception:
            if flight.answer is None:
                flight.land(None)
            raise
        finally:
            if here.get(key) is flight:
                del here[key]
            flight.end()

    def _here(self) -> dict[str, Flight]:
        return self._of.here()
