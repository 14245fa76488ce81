"""Running several children at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from adk_fluent._tasks import is_cancelled
from adk_fluent.backends.afoot import Afoot

T = TypeVar("T")


async def interleave(
    sources: Sequence[AsyncGenerator[T, None]],
    limit: int | None = None,
    *,
    alone: Callable[[int], bool] = lambda index: False,
    may: Callable[[int, T | None], bool] = lambda index, event: True,
    afoot: Afoot | None = None,
    turn: asyncio.Lock | None = None,
    due: Callable[[int, T | BaseException | None], Awaitable[None]] | None = None,
    failed: Callable[[int], None] = lambda index: None,
) -> AsyncGenerator[tuple[int, T | None], None]:
    """Events of several generators as they come: `(index, event)`, and `(index, None)` when one ends.

    A source goes on only after its event was taken, that is stored. The first error ends all and is raised as
    it is; so does closing this generator.

    Args:
        limit: how many sources run at the same time; all by default.
        alone: asked after an event with its source's index: whether what that source does next goes before
            what the others have ready.
        may: asked with what a source gives, before it is taken: whether it is its turn. It is asked
            again after each that was taken.
        afoot: counts the sources that go on.
        turn: held while whoever takes an event has it.
        due: awaited by a source with its index and what it is about to give, also an error or its end.
        failed: called with the index of a source whose error is taken, right before it ends all.
    """
    ready: list[_Given[T]] = []
    came, counted = asyncio.Event(), afoot or Afoot()
    slots = asyncio.Semaphore(limit or max(len(sources), 1))

    async def put(index: int, item: T | BaseException | None) -> None:
        if due is not None:
            await due(index, item)
        given = _Given(index, item)
        ready.append(given)
        came.set()
        with counted.waiting():
            await given.taken.wait()

    async def give(index: int, source: AsyncGenerator[T, None]) -> None:
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

    async def drive(index: int, source: AsyncGenerator[T, None]) -> None:
        with ExitStack() as begun:
            async with slots:
                counted.begin()
                begun.callback(counted.end)  # not before whoever waits for this slot was woken
                await give(index, source)

    tasks = [asyncio.ensure_future(drive(index, source)) for index, source in enumerate(sources)]
    around = asyncio.current_task()
    inside = [] if around is None else _inside.setdefault(around, [])
    inside.append(tasks)
    try:
        running, last = len(tasks), None
        while running:
            given = next((each for each in ready if last in (None, each.index) and each.may(may)), None)
            if given is None:
                came.clear()
                await counted.wait(came)
                continue
            ready.remove(given)
            index, item = given.index, given.item
            if isinstance(item, BaseException):
                failed(index)
                raise item
            running -= item is None
            async with _held(turn, counted):
                yield index, item
            given.taken.set()
            last = index if item is not None and alone(index) else None
    finally:
        inside.remove(tasks)
        await cancel(tasks)


@asynccontextmanager
async def _held(turn: asyncio.Lock | None, counted: Afoot) -> AsyncGenerator[None]:
    """Hold a lock; who waits for it waits for another."""
    if turn is None:
        yield
        return
    with counted.waiting():
        await turn.acquire()
    try:
        yield
    finally:
        turn.release()


@dataclass(eq=False, slots=True)
class _Given(Generic[T]):
    """What a source gave: an event, an error, or `None` at its end."""

    index: int
    item: T | BaseException | None
    taken: asyncio.Event = field(default_factory=asyncio.Event)

    def may(self, asked: Callable[[int, T | None], bool]) -> bool:
        """Whether it is its turn; an error waits for nobody."""
        return isinstance(self.item, BaseException) or asked(self.index, self.item)


def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    # Task by task, each would go on for a round of the event loop for each task that it is in.
    for task in tasks:
        for inside in _inside.get(task, ()):
            _cancel(inside)
        if task not in _cancelled:  # a second time would disturb what it still has to close
            _cancelled.add(task)
            task.cancel()


_inside: WeakKeyDictionary[asyncio.Task[Any], list[Sequence[asyncio.Task[None]]]] = WeakKeyDictionary()
"""Task → the tasks of the sources that it interleaves."""

_cancelled: WeakSet[asyncio.Task[Any]] = WeakSet()


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and at once those inside them, and wait until they have really ended."""
    _cancel(tasks)
    await asyncio.gather(*tasks, return_exceptions=True)
