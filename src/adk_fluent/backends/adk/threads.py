"""Threads in which functions of users may block, while the event loop and all its runs go on.

No thread can be cancelled. So these are daemon threads: a call that nobody waits for any more goes on, its
result is dropped, and neither the event loop nor the program waits for it to end.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread as SystemThread
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from adk_fluent._loops import PerLoop
from adk_fluent.errors import sentence, what_happened

P = ParamSpec("P")
T = TypeVar("T")

LIMIT: Final = 64
"""How many calls of one event loop run in threads at the same time; further calls wait for one to end."""

_slots: Final = PerLoop(lambda: asyncio.Semaphore(LIMIT))

logger: logging.Logger = logging.getLogger("adk_fluent.tools")


class _Work(NamedTuple):
    call: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Thread:
    """A thread that makes one call after another, until `end`."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Work | None] = SimpleQueue()
        self._given_up = 0
        SystemThread(target=_work, args=(self._calls,), name="adk_fluent_call", daemon=True).start()

    @property
    def is_stuck(self) -> bool:
        """Whether it makes a call that nobody waits for any more."""
        return self._given_up > 0

    async def __call__(self, call: Callable[[], T], ended: Callable[[], None] | None = None) -> T:
        """What a call gives; it sees the context variables of the caller.

        When whoever waits for it is cancelled, the call goes on, and what it gives is dropped.

        Args:
            ended: called in the event loop when the call has ended, even if it was given up.
        """
        done = self.start(call)
        if ended is not None:
            done.add_done_callback(lambda _: ended())
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.done():
                self._given_up += 1
                done.add_done_callback(functools.partial(self._ended, call))
            raise

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make a call, and wait for nothing."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._calls.put(_Work(call, copy_context(), loop, done))
        return done

    def end(self) -> None:
        """End the thread after the calls it was given."""
        self._calls.put(None)

    def _ended(self, call: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self._given_up -= 1
        if not done.cancelled() and (error := done.exception()) is not None:
            said = sentence(what_happened(error))
            logger.warning("%s failed in its thread after it was given up: %s", _name_of(call), said)


def _work(calls: SimpleQueue[_Work | None]) -> None:
    while (work := calls.get()) is not None:
        try:
            told = functools.partial(_tell, work.done, work.context.run(work.call), None)
        except BaseException as error:  # noqa: BLE001  # whatever it is, whoever waits for the call gets it
            told = functools.partial(_tell, work.done, None, error)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            work.loop.call_soon_threadsafe(told)
        del work, told  # or it would be kept while this waits


def _tell(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if done.done():
        return
    if isinstance(error, StopIteration):  # which no future takes, as no coroutine may raise it
        stop, error = error, RuntimeError("the function raised StopIteration")
        error.__cause__ = stop
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _name_of(call: Callable[[], Any]) -> str:
    function = call.func if isinstance(call, functools.partial) else call
    return repr(getattr(function, "__name__", type(function).__name__))


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function gives that is called in a thread.

    At most `LIMIT` of these calls run in one event loop at the same time; one that was given up counts until
    it has ended.
    """
    slots = _slots.here()
    await slots.acquire()
    try:
        thread = Thread()
    except RuntimeError:  # the system gives no more threads
        slots.release()
        raise
    try:
        return await thread(functools.partial(function, *args, **kwargs), slots.release)
    finally:
        thread.end()


def is_blocking(function: Callable[..., Any]) -> bool:
    """Whether nothing else can happen in the event loop while a function runs."""
    while isinstance(function, functools.partial):
        function = cast("Callable[..., Any]", function.func)
    called = function if inspect.isroutine(function) else cast(Any, type(function)).__call__
    asynchronous = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return not any(test(called) for test in asynchronous)


def threaded(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """A function that calls this one in a thread."""

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(function, *args, **kwargs)

    return run
