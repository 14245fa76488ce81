"""Running several children at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

T = TypeVar("T")


async def interleave(
    sources: Sequence[AsyncGenerator[T, None]],
    limit: int | None = None,
    *,
    alone: Callable[[int], bool] = lambda index: False,
) -> AsyncGenerator[tuple[int, T | None], None]:
    """Events of several generators as they come: `(index, event)`, and `(index, None)` when one ends.

    A source goes on only after its event was taken, that is stored. The first error ends all and is raised as
    it is; so does closing this generator.

    Args:
        limit: how many sources run at the same time; all by default.
        alone: asked after an event with its source's index: whether what that source does next goes before
            what the others have ready.
    """
    queue: asyncio.Queue[tuple[int, T | BaseException | None, asyncio.Event]] = asyncio.Queue()
    slots = asyncio.Semaphore(limit or max(len(sources), 1))

    async def put(index: int, item: T | BaseException | None) -> None:
        taken = asyncio.Event()
        await queue.put((index, item, taken))
        await taken.wait()

    async def drive(index: int, source: AsyncGenerator[T, None]) -> None:
        async with slots:
            try:
                async with aclosing(source):
                    async for event in source:
                        await put(index, event)
            except (Exception, asyncio.CancelledError) as error:  # raised again where the events are taken
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                await put(index, error)
            else:
                await put(index, None)

    tasks = [asyncio.ensure_future(drive(index, source)) for index, source in enumerate(sources)]
    try:
        running, ready = len(tasks), deque[tuple[int, T | BaseException | None, asyncio.Event]]()
        last: int | None = None
        while running:
            index, item, taken = ready.popleft() if ready and last is None else await queue.get()
            if last not in (None, index):
                ready.append((index, item, taken))
                continue
            if isinstance(item, BaseException):
                raise item
            running -= item is None
            yield index, item
            taken.set()
            last = index if item is not None and alone(index) else None
    finally:
        await cancel(tasks)


def is_cancelled() -> bool:
    """Whether somebody cancelled this task; if not, a `CancelledError` in it came from inside."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have really ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
