"""Event loops and their tasks: one value for each loop, work that is done to the end, and who cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_PLACE: Final = "_adk_fluent_values"
_TAKEN: Final = "taken"


class PerLoop(Generic[T]):
    """One value for each event loop: made on first use, and forgotten with the loop.

    Tasks, futures and connections hold their loop, so a table with weak keys would keep every loop that such
    a value belongs to. Each loop therefore holds its own values, and is collected together with them.

    Args:
        make: makes the value, in its loop.
        close: closes it when nobody holds this object any more, and at the latest when the loop ends: when
            the tasks that are left in it are cancelled, as `asyncio.run` does.
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
        """The value of the running loop, if there is one; the loop forgets it, and the caller closes it."""
        held = _kept_by(asyncio.get_running_loop()).values.pop(self, None)
        if held is None:
            return None
        if held.closing is not None:
            held.closing.cancel(_TAKEN)
        return held.value


@dataclass(slots=True)
class _Held:
    """A value, and the task that closes it at the end."""

    value: Any
    closing: asyncio.Task[None] | None
    loop: asyncio.AbstractEventLoop

    def __del__(self) -> None:
        if self.closing is not None and not self.closing.done() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.closing.cancel)


@dataclass(slots=True)
class _Kept:
    """What a loop holds: values by the object that they belong to, and the tasks that close them."""

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


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for what must not be left half done; a cancellation is passed on when it is done."""
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
    """Whether this task was cancelled; if not, a `CancelledError` in it came from inside."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
