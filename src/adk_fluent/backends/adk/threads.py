"""Threads in which functions of users may block, while the event loop and all its runs go on.

No thread can be cancelled. So these are daemon threads: a call that nobody waits for any more goes on, its
result is dropped, and neither the event loop nor the program waits for it to end.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread as SystemThread
from typing import Any, Final, ParamSpec, TypeVar, cast

from adk_fluent._tasks import PerLoop
from adk_fluent._tracebacks import in_logs
from adk_fluent.errors import sentence

P = ParamSpec("P")
T = TypeVar("T")

LIMIT: Final = 64
"""How many calls of one event loop run in threads at the same time; further calls wait for one to end."""

_slots: Final = PerLoop(lambda: asyncio.Semaphore(LIMIT))

logger: logging.Logger = logging.getLogger("adk_fluent.tools")


@dataclass(slots=True)
class _Work:
    call: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    given_up: bool = False


class Thread:
    """A thread that makes one call after another, until `end`."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Work | None] = SimpleQueue()
        self._pending = 0
        self._given_up = 0
        SystemThread(target=_work, args=(self._calls,), name="adk_fluent_call", daemon=True).start()

    @property
    def is_stuck(self) -> bool:
        """Whether it makes a call that nobody waits for any more."""
        return self._given_up > 0

    @property
    def is_idle(self) -> bool:
        """Whether it has no call to make."""
        return self._pending == 0

    async def __call__(self, call: Callable[[], T], ended: Callable[[], None] | None = None) -> T:
        """What a call gives; it sees the context variables of the caller.

        If the caller is cancelled, a call that has begun goes on and its result is dropped; one that has not
        begun is not made.

        Args:
            ended: called in the event loop when the call has ended, even if it was given up.
        """
        work = self._put(call)
        done = work.done
        if ended is not None:
            done.add_done_callback(lambda _: ended())
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.done():
                work.given_up = True
                self._given_up += 1
                done.add_done_callback(functools.partial(self._ended, call))
            raise

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make a call, and wait for nothing."""
        return self._put(call).done

    def end(self) -> None:
        """End the thread after the calls it was given."""
        self._calls.put(None)

    def _put(self, call: Callable[[], Any]) -> _Work:
        loop = asyncio.get_running_loop()
        work = _Work(call, copy_context(), loop, loop.create_future())
        self._pending += 1
        work.done.add_done_callback(self._made)
        self._calls.put(work)
        return work

    def _made(self, done: asyncio.Future[Any]) -> None:
        self._pending -= 1

    def _ended(self, call: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self._given_up -= 1
        if not done.cancelled() and (error := done.exception()) is not None:
            said = sentence(in_logs(error))
            logger.warning("%s failed in its thread after it was given up: %s", _name_of(call), said)


def _work(calls: SimpleQueue[_Work | None]) -> None:
    while (work := calls.get()) is not None:
        try:
            result = None if work.given_up else work.context.run(work.call)
            told = functools.partial(_tell, work.done, result, None)
            del result
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


class Turns:
    """Calls of one run that are made one after another, in the order in which they came, in one thread."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._thread: Thread | None = None

    @property
    def thread(self) -> Thread:
        """The thread of the run, which is begun when it is first needed."""
        if self._thread is None:
            self._thread = Thread()
        return self._thread

    def end(self) -> None:
        """End the thread after the calls that it was given."""
        if self._thread is not None:
            self._thread.end()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """One turn, which begins when those before it have ended.

        A call that is made inside a turn, and that the turn waits for, does not wait for that turn: it waits
        for other calls inside the turn alone.
        """
        around = _turn.get()
        inside = around is not None and around.turns is self and not around.over
        async with around.inner if around is not None and inside else self._lock:
            turn = _Turn(self)
            token = _turn.set(turn)
            try:
                yield
            finally:
                turn.over = True
                _turn.reset(token)


@dataclass(slots=True)
class _Turn:
    """A turn, as what happens in it knows it.

    Attributes:
        inner: held by the call inside it that is being made.
        over: whether it has ended; a task that was begun in it may go on.
    """

    turns: Turns
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    inner: asyncio.Lock = field(default_factory=asyncio.Lock)
    over: bool = False


_turn: Final[ContextVar[_Turn | None]] = ContextVar("adk_fluent_turn", default=None)


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function gives that is called in a thread: that of the run if it is its turn, else a new one.

    At most `LIMIT` of these calls run in one event loop at the same time; one that was given up counts until
    it has ended.
    """
    slots = _slots.here()
    await slots.acquire()
    try:
        thread, is_new = _free_thread()
    except RuntimeError:  # the system gives no more threads
        slots.release()
        raise
    try:
        return await thread(functools.partial(function, *args, **kwargs), slots.release)
    finally:
        if is_new:
            thread.end()


def _free_thread() -> tuple[Thread, bool]:
    """A thread that makes no other call, and whether it is for one call alone."""
    turn = _turn.get()
    if turn is not None and not turn.over and turn.loop is asyncio.get_running_loop():
        thread = turn.turns.thread
        if thread.is_idle:  # else a call was given up that goes on, or this is a call inside another
            return thread, False
    return Thread(), True


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
