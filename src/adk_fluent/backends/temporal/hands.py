"""Steps in the event loop of the program, apart from the loop in which the worker talks to Temporal."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from temporalio import activity

T = TypeVar("T")

ALONE: Final = "|alone"
"""What follows the name of a task queue in that of the steps that run alone."""

LEFT: Final = 10.0
"""Seconds for which a step that Temporal gave up goes on, and a result is kept: the next attempt
may come to this worker."""


@asynccontextmanager
async def apart(enter: Callable[[], AbstractAsyncContextManager[None]]) -> AsyncGenerator[None]:
    """Inside, a context is entered in the event loop of a thread of its own.

    So a step that blocks the loop of the program keeps neither heartbeats nor other workflows waiting. Where
    the context ends by itself, with an error, the caller is cancelled and gets the error.
    """
    home, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    begun: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = home.create_future()
    ended: Future[None] = Future()
    leaving = False

    async def run() -> None:
        stop = asyncio.Event()
        async with enter():
            home.call_soon_threadsafe(begun.set_result, (asyncio.get_running_loop(), stop))
            await stop.wait()

    def thread() -> None:
        try:
            asyncio.run(run())
            ended.set_result(None)
        except BaseException as error:  # noqa: BLE001  # it is raised where the thread was started
            ended.set_exception(error)

    threading.Thread(target=thread, name="adk_fluent_worker", daemon=True).start()
    over = asyncio.wrap_future(ended)
    try:
        await asyncio.wait([begun, over], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        begun.add_done_callback(_stop)
        await asyncio.wait([over])
        over.exception()  # which nobody else looks at
        raise
    if over.done():
        await over
    loop, stop = begun.result()

    def lost(_: object) -> None:
        if not leaving:
            task.cancel()

    over.add_done_callback(lost)
    try:
        yield
    finally:
        leaving = True
        if not over.done():
            loop.call_soon_threadsafe(stop.set)
        await asyncio.wait([over])
        over.result()


def _stop(begun: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    loop, stop = begun.result()
    loop.call_soon_threadsafe(stop.set)


class Hands:
    """Does steps in the event loop of the program.

    An attempt at a step that still runs here joins it, as after a pause of the whole process, in which
    Temporal took the worker for dead. Where the step has just ended, the attempt gets its result. A step that
    failed with its worker runs alone: it waits until no other step runs here, and no other step begins until
    it has ended.

    Args:
        home: the loop of the program.
    """

    def __init__(self, home: asyncio.AbstractEventLoop) -> None:
        self._home = home
        self._running: dict[object, asyncio.Task[Any]] = {}
        self._wanted: Counter[object] = Counter()
        self._together = self._waiting = 0
        self._alone = False
        self._changed = asyncio.Event()

    async def do(self, key: object, work: Callable[[], Coroutine[Any, Any, T]], *, alone: bool) -> T:
        """What a step gives.

        Args:
            key: names the step; equal for all attempts at it.
            work: does it.
            alone: whether no other step may run here at the same time.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(self._in_turn(work, alone))
            task.add_done_callback(partial(self._ended, key))
        self._wanted[key] += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._wanted[key] == 1 and not task.done():
                if _is_given_up():
                    asyncio.get_running_loop().call_later(LEFT, self._leave, key, task)
                else:
                    task.cancel()
                    await asyncio.wait([task])
            raise
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key]

    async def plainly(self, work: Coroutine[Any, Any, T]) -> T:
        """What some work gives, in the loop of the program, whatever else runs."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    async def close(self) -> None:
        """Cancel what still runs."""
        tasks = [*self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: object, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._running[key]
        else:  # Temporal refuses the result of an attempt that it gave up, and begins another one
            task.get_loop().call_later(LEFT, self._running.pop, key)

    def _leave(self, key: object, task: asyncio.Task[Any]) -> None:
        if not self._wanted[key]:
            task.cancel()

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, T]], alone: bool) -> T:
        if not alone:
            await self._until(lambda: not self._alone and not self._waiting)
            self._together += 1
            try:
                return await self._there(work)
            finally:
                self._together -= 1
                self._tell()
        self._waiting += 1
        try:
            await self._until(lambda: not self._alone and not self._together)
            self._alone = True
        finally:
            self._waiting -= 1
            self._tell()
        try:
            return await self._there(work)
        finally:
            self._alone = False
            self._tell()

    async def _until(self, free: Callable[[], bool]) -> None:
        while not free():
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _there(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What some work gives in the loop of the program; a cancellation waits until it has ended there."""
        ended: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._home.create_task(work()))
            tasks[0].add_done_callback(end)

        def end(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                ended.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                ended.set_exception(error)
            else:
                ended.set_result(task.result())

        self._home.call_soon_threadsafe(begin)
        over = asyncio.wrap_future(ended)
        try:
            return await asyncio.shield(over)
        except asyncio.CancelledError:
            if not over.done():
                self._home.call_soon_threadsafe(lambda: tasks[0].cancel())
                await asyncio.wait([over])
            over.exception()  # which nobody else looks at
            raise


def _is_given_up() -> bool:
    """Whether Temporal no longer waits for this attempt, and may have begun another one."""
    details = activity.cancellation_details()
    return details is not None and not details.cancel_requested and not details.worker_shutdown
