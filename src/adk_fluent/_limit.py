"""A time limit of which only what is awaited inside it takes any."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import cast

_around: ContextVar[tuple[Limit, ...]] = ContextVar("adk_fluent_limits", default=())
"""The limits inside which something is awaited."""


def limits_around() -> tuple[Limit, ...]:
    """The limits around what asks, from the outermost."""
    return _around.get()


def next_limit() -> Limit | None:
    """Of the limits around what asks, the one whose seconds are over first."""
    return min(
        (each for each in _around.get() if not each.is_over), key=lambda each: each.ends_at, default=None
    )


class Limit:
    """Seconds that pass only inside `with limit:`; when they are over, what is awaited there is cancelled.

    `asyncio.timeout` is not used, since releases of Python differ in which cancellations it takes for its own
    and in what it raises. Here the only questions are whether the timer ran out and whether somebody else
    has asked the task to end as well.

    Attributes:
        is_over: whether the seconds ran out.
        cause: what was raised in answer to the cancellation, if that was not the cancellation itself.
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
        # One that is over already ends what is awaited before anything else goes on.
        later = self._loop.call_later
        self._timer = later(self._left, self._end) if self._left > 0 else self._loop.call_soon(self._end)
        self._active = True
        self._token = _around.set((*_around.get(), self))

    @property
    def ends_at(self) -> float:
        """The time of the event loop at which the seconds are over."""
        return self._since + self._left

    def expire(self) -> None:
        """Let the seconds be over now; where nothing is awaited inside, as soon as something is."""
        if self.is_over:  # one cancellation is ours; a second one would be taken for somebody else's
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
        """Keep back what our cancellation led to, and nothing else."""
        with suppress(ValueError):  # closed from elsewhere, as by the collector of garbage
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
