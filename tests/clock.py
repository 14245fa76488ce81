"""Event loops on which time passes without anybody waiting for it."""

from __future__ import annotations

import asyncio
import functools
import selectors
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from google.adk.models.llm_request import LlmRequest

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Waits for files, never for time: what the loop would have waited has passed."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.waited += timeout
            timeout = 0
        return super().select(timeout)


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop with a simulated clock: only waits advance it, so a busy machine changes no result."""

    def __init__(self) -> None:
        self._times = _Selector()
        super().__init__(self._times)

    def time(self) -> float:
        return self._times.waited


class ClockLoop(asyncio.SelectorEventLoop):
    """A loop on which hours pass when `advance` says so."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Clock:
    """A test double of the module `time` for a module of the library: only the test moves its time.

    Attributes:
        now: the value of `monotonic`.
    """

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        """The time that has passed."""
        return self.now

    def time(self) -> float:
        """The date, which is that of everybody."""
        return time.time()


def on_clock(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop whose clock `advance` sets forward, and return its result."""
    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        return runner.run(main)


def still(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop whose pauses take no time, and return its result; no other thread may run."""
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        return runner.run(main)


def without_pauses(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test as `still` does."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        still(test(*args, **kwargs))

    return run


def with_clock(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test as `on_clock` does."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        on_clock(test(*args, **kwargs))

    return run


def advance(seconds: float) -> None:
    """Let time pass on the running loop, at once."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockLoop)
    loop.ahead += seconds


class Works:
    """A response whose pieces take `seconds` of the clock each; give it to `mock_backend`.

    Attributes:
        ended: how the wait for a piece ended when it was given up: `CancelledError`.
    """

    def __init__(self, seconds: float, *pieces: str) -> None:
        self.seconds, self.pieces = seconds, pieces or ("ok",)
        self.ended: list[str] = []

    async def __call__(self, request: LlmRequest) -> AsyncGenerator[str, None]:
        for piece in self.pieces:
            await self._work()
            yield piece

    async def _work(self) -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(self.seconds, done.set)
        advance(self.seconds)
        try:
            await done.wait()
        except asyncio.CancelledError as error:
            self.ended.append(type(error).__name__)
            raise
