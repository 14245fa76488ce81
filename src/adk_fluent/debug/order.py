"""The order in which things happened, kept when they happen again."""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping
from itertools import count

from adk_fluent.backends.afoot import Afoot
from adk_fluent.debug.lanes import Lanes, Point
from adk_fluent.errors import ReplayError


class Order:
    """Lets what was recorded happen in the order of the recording.

    Branches that ran at the same time meet again in the same order. Nobody waits for what its lane has left
    behind, nor for agents that are gone. Where something else that was recorded no longer happens, as in a
    pipeline that was changed, all that goes on ends up waiting for it: then what is next goes on without it.
    No clock is asked.

    Args:
        lanes: what happened, and what comes after what; all of it will be marked.

    Attributes:
        afoot: counts what goes on.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._open = sorted(lanes.points)
        self._next = 0
        self._done: set[int] = set()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._cuts: deque[asyncio.Future[None]] = deque()
        self._errors: deque[asyncio.Future[None]] = deque()
        self._numbers = count()
        self.afoot: Afoot = Afoot(self._stuck)

    @property
    def points(self) -> Mapping[int, Point]:
        """What happened where."""
        return self._lanes.points

    async def turn(self, seq: int) -> None:
        """Wait until all that was recorded before has happened."""
        if self._frontier < seq:
            await self._wait(seq)

    async def cut(self, *, first: bool = False) -> None:
        """Wait until all else waits as well: then something is given up, and what comes next follows from it.

        Args:
            first: whether it goes before others that wait for the same, as an error does.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._errors if first else self._cuts).append(future)
        with self.afoot.waiting():
            await future

    async def last(self) -> None:
        """Wait until all else waits as well, or has ended."""
        await self._wait(float("inf"))

    def mark(self, seq: int | None) -> None:
        """It has happened."""
        if seq is None or seq in self._done:
            return
        self._leave_behind(seq)
        self._done.add(seq)
        self._advance()

    def without(self, agents: Collection[str]) -> None:
        """Wait for nothing that these did."""
        self._done.update(seq for seq in self._open if self._lanes.points[seq].agent in agents)
        self._advance()

    async def _wait(self, seq: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (seq, next(self._numbers), future))
        with self.afoot.waiting():
            await future

    def _leave_behind(self, seq: float) -> None:
        """What cannot happen any more when this does is not waited for."""
        if isinstance(seq, int) and seq in self._lanes.points and self._frontier < seq:
            before = self._open[self._next : bisect_left(self._open, seq)]
            over = [each for each in before if each not in self._done and self._lanes.is_over(each, seq)]
            self._done.update(over)
            if over:
                self._advance()

    def _advance(self) -> None:
        """Let those go on whose turn it is."""
        while self._next < len(self._open) and self._open[self._next] in self._done:
            self._next += 1
        while self._waiting and self._waiting[0][0] <= self._frontier and self._waiting[0][0] != float("inf"):
            self._release()

    @property
    def _frontier(self) -> float:
        """The first place that has not happened yet."""
        return self._open[self._next] if self._next < len(self._open) else float("inf")

    def _stuck(self) -> None:
        """All wait: what comes next goes on, and what was recorded before it will not happen."""
        while self._waiting and self._waiting[0][2].done():  # whoever waited was cancelled
            heapq.heappop(self._waiting)
        waiting = len(self._waiting)
        self._leave_behind(self._waiting[0][0] if waiting else float("inf"))
        if len(self._waiting) < waiting:
            return
        while cuts := self._errors or self._cuts:
            future = cuts.popleft()
            if not future.done():
                future.set_result(None)
                return
        if self._waiting:
            seq = self._waiting[0][0]
            self._release()
            if seq != float("inf"):
                self._done.update(self._open[self._next : bisect_left(self._open, seq)])
                self._advance()
            return
        open_points = [self._lanes.points[seq].agent for seq in self._open if seq not in self._done]
        awaited = f"what {open_points[0]!r} did next" if open_points else "more than was recorded"
        self.afoot.fail(
            ReplayError(
                f"The replay cannot go on: all that runs waits for {awaited}, and that does not happen now. "
                "Replay the pipeline that was recorded, or record this one."
            )
        )

    def _release(self) -> None:
        future = heapq.heappop(self._waiting)[2]
        if not future.done():
            future.set_result(None)
