"""Limits on what tests wait for. They guard against hanging: no test depends on how long something takes."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
Text = TypeVar("Text", str, bytes)

LIMIT: Final = 60.0
"""Seconds that a test waits for one thing. On a busy machine, most of a second becomes several."""


class Waitable(Protocol):
    """An event of `threading` or of `multiprocessing`."""

    def wait(self, timeout: float | None = None) -> bool:
        """True if it was set within this time."""
        ...


async def within_limit(work: Awaitable[T], limit: float = LIMIT) -> T:
    """Await some work, and fail if it takes longer than the limit."""
    async with asyncio.timeout(limit):
        return await work


def _started(function: Callable[..., T], args: tuple[Any, ...]) -> Future[T]:
    """Start a function in a new thread; return the future of its result.

    The thread is a daemon and belongs to no pool, so a function that never returns cannot keep the test from
    ending, as it does with `asyncio.to_thread`.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # so that only the thread settles it

    def call() -> None:
        try:
            outcome.set_result(function(*args))
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            outcome.set_exception(error)

    threading.Thread(target=call, daemon=True, name=f"in_thread {function!r}").start()
    return outcome


async def in_thread(function: Callable[..., T], *args: Any, limit: float = LIMIT) -> T:
    """Run a function that blocks in a new thread, and fail if it takes longer than the limit."""
    outcome = _started(function, args)
    try:
        return await within_limit(asyncio.wrap_future(outcome), limit)
    except TimeoutError as error:
        if outcome.done():  # the function raised it
            raise
        raise AssertionError(f"{function!r} did not return within {limit:g} s") from error


def in_time(function: Callable[..., T], *args: Any, limit: float = LIMIT) -> T:
    """Do what `in_thread` does, and stop the loop meanwhile, where there is one."""
    outcome = _started(function, args)
    try:
        return outcome.result(limit)
    except TimeoutError as error:
        if outcome.done():
            raise
        raise AssertionError(f"{function!r} did not return within {limit:g} s") from error


def line_with(words: str, process: subprocess.Popen[str]) -> str:
    """Read what a process writes until a line with these words; kill it and fail with that if none comes."""
    lines: list[str] = []

    def read() -> bool:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if words in line:
                return True
        return False

    try:
        assert in_time(read), (
            f"no line with {words!r}: a process wrote {''.join(lines)!r} and closed its output"
        )
    except AssertionError:
        process.kill()
        raise
    return lines[-1]


async def begins(event: asyncio.Event, work: asyncio.Future[Any]) -> None:
    """Wait until some work sets an event, and fail with what became of the work if it ends before."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting, work}, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED)
        assert waiting.done(), f"it did not begin within {LIMIT:g} s: {work!r}"
    finally:
        waiting.cancel()


async def happens(event: Waitable) -> None:
    """Wait in a thread until an event is set, and fail if it is not."""
    assert await in_thread(event.wait, LIMIT, limit=LIMIT + 1), f"{event!r} was not set within {LIMIT:g} s"


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds, and fail by the name `what` if it does not."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {LIMIT:g} s"
        time.sleep(0.01)


async def comes_true(condition: Callable[[], object], what: str) -> None:
    """Wait, while the loop runs, until a condition holds, and fail by the name `what` if it does not."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {LIMIT:g} s"
        await asyncio.sleep(0.01)


def last_words(process: subprocess.Popen[Text]) -> tuple[Text, Text]:
    """Return what a process writes until it ends; kill it and fail with that if it does not end."""
    try:
        return process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate(timeout=LIMIT)
        wrote = f"it wrote {out!r}, {errors!r}"
        raise AssertionError(f"a process did not end within {LIMIT:g} s; {wrote}") from None
