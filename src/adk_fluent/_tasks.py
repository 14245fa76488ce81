"""Tools for asyncio: a value for each event loop, tasks that survive a cancellation, and time limits.

- `PerLoop` makes one value, such as a connection, for each event loop.
- `run_to_end` and `DetachedTasks` finish their work although their caller is cancelled.
- `Limit` measures the seconds that are spent inside a `with` block only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

T = TypeVar("T")

_PLACE: Final = "_adk_fluent_values"
_TAKEN: Final = "taken"

# --- one value for each event loop ----------------------------------------------------------------


class PerLoop(Generic[T]):
    """One value for each event loop. It is made on first use and dropped together with the loop.

    Tasks, futures and connections refer to their loop. A table with loops as weak keys would therefore keep
    every loop alive whose value refers to it. So each loop holds its own values as an attribute, and the
    garbage collector takes both together.

    Args:
        make: makes the value, in its loop.
        close: closes the value when this object is garbage, and at the latest when the loop ends: when the
            tasks that are left in it are cancelled, as `asyncio.run` does.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]] | None = None) -> None:
        self._make = make
        self._close = close

    def here(self) -> T:
        """The value of the running loop."""
        loop = asyncio.get_running_loop()
        kept = _kept_by(loop)
        if self not in kept.values:
            value, closing = self._make(), None
            if self._close is not None:
                closing = loop.create_task(_closed_at_the_end(value, self._close))
                kept.closing.add(closing)
                closing.add_done_callback(kept.closing.discard)
            kept.values[self] = _Held(value, closing, loop)
        return kept.values[self].value

    def take(self) -> T | None:
        """Remove the value of the running loop and return it, or `None`; the caller must close it."""
        held = _kept_by(asyncio.get_running_loop()).values.pop(self, None)
        if held is None:
            return None
        if held.closing is not None:
            held.closing.cancel(_TAKEN)
        return held.value


@dataclass(slots=True)
class _Held:
    """A value, and the task that waits for the end of the loop to close it."""

    value: Any
    closing: asyncio.Task[None] | None
    loop: asyncio.AbstractEventLoop

    def __del__(self) -> None:
        if self.closing is not None and not self.closing.done() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.closing.cancel)


@dataclass(slots=True)
class _Kept:
    """The attribute of a loop: its values by their `PerLoop`, and the tasks that close them."""

    values: WeakKeyDictionary[PerLoop[Any], _Held] = field(
        default_factory=WeakKeyDictionary["PerLoop[Any]", _Held]
    )
    closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


def _kept_by(loop: asyncio.AbstractEventLoop) -> _Kept:
    kept: _Kept | None = getattr(loop, _PLACE, None)
    if kept is None:
        kept = _Kept()
        setattr(loop, _PLACE, kept)
    return kept


async def _closed_at_the_end(value: T, close: Callable[[T], Awaitable[None]]) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError as error:
        if error.args != (_TAKEN,):
            await close(value)


# --- cancellation ---------------------------------------------------------------------------------


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work even if the caller is cancelled, and only then raise the cancellation."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        raise cancelled
    return task.result()


def is_cancelled() -> bool:
    """True if this task was cancelled; else a `CancelledError` comes from something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class DetachedTasks:
    """Run coroutines in tasks that continue when the caller is cancelled.

    Clients of brokers need this for two reasons. On Python 3.11, `asyncio.wait_for`, which they send with,
    loses a cancellation that arrives together with the result: the cancelled caller continues. And a command
    that continues after its connections are closed opens a new one.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work; a caller that is cancelled meanwhile only stops waiting."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Cancel all tasks that are not finished."""
        for task in self._tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until all tasks have ended, with a result, an error or a cancellation."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


# --- time limits ----------------------------------------------------------------------------------

_around: ContextVar[tuple[Limit, ...]] = ContextVar("adk_fluent_limits", default=())
"""The limits that the current task is inside of, from the outermost."""


def limits_around() -> tuple[Limit, ...]:
    """The limits that the caller is inside of, from the outermost."""
    return _around.get()


def next_limit() -> Limit | None:
    """The limit around the caller that expires first, or `None`."""
    return min(
        (each for each in _around.get() if not each.is_over), key=lambda each: each.ends_at, default=None
    )


class Limit:
    """A time limit in seconds. Time counts only inside `with limit:`, which may be entered repeatedly.

    When the seconds are over, the task inside the block is cancelled. `asyncio.timeout` is not used, since
    releases of Python differ in which cancellations it takes for its own and in what it raises. This class
    decides by two facts only: whether its timer ran out, and whether other code cancelled the task, too.

    Attributes:
        is_over: True once the seconds ran out.
        cause: the error that the block raised in answer to the cancellation, if it was another error.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over: bool = False
        self.cause: Exception | None = None
        self._left = seconds
        self._active = False

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._requests = self._task.cancelling()
        self._since = self._loop.time()
        # If no time is left, the block is cancelled at its first `await`.
        later = self._loop.call_later
        self._timer = later(self._left, self._end) if self._left > 0 else self._loop.call_soon(self._end)
        self._active = True
        self._token = _around.set((*_around.get(), self))

    @property
    def ends_at(self) -> float:
        """The event loop's time at which the seconds are over."""
        return self._since + self._left

    def expire(self) -> None:
        """End the limit now; if no task is inside the block, as soon as one enters it."""
        if self.is_over:  # a second cancellation of ours would look like one by other code
            return
        if self._active:
            self._timer.cancel()
            self._end()
        else:
            self._left = 0.0

    def _end(self) -> None:
        self.is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Suppress the error that our cancellation caused, and no other."""
        with suppress(ValueError):  # another context leaves the block, such as the garbage collector's
            _around.reset(self._token)
        self._timer.cancel()
        self._active = False
        self._left -= self._loop.time() - self._since
        if not self.is_over:
            return False
        others = self._task.uncancel() > self._requests
        if isinstance(error, Exception):
            self.cause = error
        return self.cause is not None or (isinstance(error, asyncio.CancelledError) and not others)
