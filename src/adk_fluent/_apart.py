"""Work in tasks of its own, so that no cancellation of who waits for it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Apart:
    """Does work in tasks of its own, which go on when who waits for one is cancelled.

    On Python 3.11 `asyncio.wait_for`, in which clients of brokers send, loses a cancellation that comes when
    what it waits for is there: who was cancelled goes on. And a command that goes on when its connections are
    closed makes a new one.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives; who is cancelled meanwhile stops waiting for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until what is under way has ended, however it ends."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
