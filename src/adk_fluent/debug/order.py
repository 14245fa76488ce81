"""The order in which things happened, kept when they happen again."""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left
from collections.abc import Collection
from itertools import count
from typing import Final

from adk_fluent.debug.lanes import Lanes

PATIENCE: Final = 0.5
"""Seconds without any progress, beside those that the recording took, after which a run has its own order."""

EXPECTED: Final = 10.0
"""The same while nothing is known to have changed: then all that is waited for is expected to happen."""

IDLE: Final = 1000
"""Rounds of the event loop that must pass without progress, so that a machine under load does not count."""


class Order:
    """Lets what was recorded happen in the order of the recording.

    Branches that ran at the same time meet again in the same order, so a race has the same winner. Nobody
    waits for what its lane has left behind, nor for agents that are gone. Where something else that was
    recorded no longer happens, as in a pipeline that was changed, what waits for it goes on after a while,
    and from then on nothing waits any more.

    Args:
        lanes: what happened, and what comes after what; all of it will be marked.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._open = sorted(lanes.points)
        self._next = 0
        self._done: set[int] = set()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._watched_by: asyncio.AbstractEventLoop | None = None
        self._marks = 0
        self._busy = 0
        self.kept: bool = True
        self.patience: float = PATIENCE

    async def turn(self, seq: int) -> None:
        """Wait until all that was recorded before has happened."""
        self._leave_behind(seq)
        if not self.kept or self._frontier >= seq:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (seq, next(self._numbers), future))
        self._watch()
        await future

    async def idle(self) -> None:
        """Wait until nothing happens any more."""
        marks = -1
        while self._busy or self._marks != marks:
            marks = self._marks
            await asyncio.sleep(self.patience)
            for _ in range(IDLE):
                await asyncio.sleep(0)

    def mark(self, seq: int | None) -> None:
        """It has happened."""
        if seq is None or seq in self._done:
            return
        self._leave_behind(seq)
        self._done.add(seq)
        self._marks += 1
        self._advance()

    def without(self, agents: Collection[str]) -> None:
        """Wait for nothing that these did."""
        self._done.update(seq for seq in self._open if self._lanes.points[seq].agent in agents)
        self._advance()

    def _leave_behind(self, seq: int) -> None:
        """What cannot happen any more when this does is not waited for."""
        if seq in self._lanes.points and self._frontier < seq:
            before = self._open[self._next : bisect_left(self._open, seq)]
            over = [each for each in before if each not in self._done and self._lanes.is_over(each, seq)]
            self._done.update(over)
            if over:
                self._advance()

    def _advance(self) -> None:
        """Let those go on whose turn it is."""
        while self._next < len(self._open) and self._open[self._next] in self._done:
            self._next += 1
        while self._waiting and self._waiting[0][0] <= self._frontier:
            _release(heapq.heappop(self._waiting)[2])

    def begin(self) -> None:
        """Something began that takes its time: a tool or a model that is really asked."""
        self._busy += 1

    def end(self) -> None:
        """It has ended."""
        self._busy -= 1
        self._marks += 1

    @property
    def _frontier(self) -> float:
        """The first place that has not happened yet."""
        return self._open[self._next] if self._next < len(self._open) else float("inf")

    def _watch(self) -> None:
        """Look again later, unless somebody does."""
        loop = asyncio.get_running_loop()
        if self._watched_by is loop:
            return
        self._watched_by = loop
        first = self._open[self._next]
        points = self._lanes.points
        before = points[self._open[self._next - 1]].at if self._next else points[first].at
        gap = max(0.0, points[first].at - before)
        loop.call_later(self.patience + gap, self._look, self._marks, IDLE)

    def _look(self, marks: int, rounds: int) -> None:
        while self._waiting and self._waiting[0][2].done():  # whoever waited was cancelled
            heapq.heappop(self._waiting)
        if not self._waiting:
            self._watched_by = None
        elif self._marks != marks or self._busy:
            self._watched_by = None
            self._watch()
        elif rounds:
            asyncio.get_running_loop().call_soon(self._look, marks, rounds - 1)
        else:
            self.kept = False
            while self._waiting:
                _release(heapq.heappop(self._waiting)[2])


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
