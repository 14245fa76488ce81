"""Steps run in the loop of the program; suspects run alone, and attempts join the step that still runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from adk_fluent.backends.temporal import hands
from adk_fluent.backends.temporal.hands import Hands, apart
from tests.limits import happens

pytestmark = pytest.mark.newest


async def test_a_suspect_runs_alone() -> None:
    """It begins when all others have ended, and none begins before it has."""
    instance = Hands(asyncio.get_running_loop())
    order: list[str] = []
    gates = {name: asyncio.Event() for name in ("before", "suspect", "after")}

    async def step(name: str) -> str:
        order.append(f"{name} begins")
        await gates[name].wait()
        order.append(f"{name} ends")
        return name

    def begin(name: str, *, alone: bool = False) -> asyncio.Task[str]:
        return asyncio.ensure_future(instance.do(name, lambda: step(name), alone=alone))

    before = begin("before")
    while not order:
        await asyncio.sleep(0)
    suspect = begin("suspect", alone=True)
    await asyncio.sleep(0)
    after = begin("after")
    gates["after"].set()
    gates["suspect"].set()
    gates["before"].set()
    assert await asyncio.gather(before, suspect, after) == ["before", "suspect", "after"]
    assert order == [f"{name} {what}" for name in gates for what in ("begins", "ends")]


async def test_an_attempt_joins_the_step_that_still_runs() -> None:
    """Two attempts at one step run it once, and both get what it gives."""
    instance, goes_on, ran = Hands(asyncio.get_running_loop()), asyncio.Event(), list[int]()

    async def step() -> int:
        ran.append(1)
        await goes_on.wait()
        return 42

    attempts = [asyncio.ensure_future(instance.do("one", step, alone=bool(n))) for n in range(2)]
    while not ran:
        await asyncio.sleep(0)
    goes_on.set()
    assert await asyncio.gather(*attempts) == [42, 42]
    assert ran == [1]


async def test_an_attempt_gets_the_result_of_the_step_that_has_just_ended() -> None:
    """A result that Temporal refused, since it had given up the attempt, is not lost; an error is none."""
    instance, ran = Hands(asyncio.get_running_loop()), list[int]()

    async def step() -> int:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("not yet")
        return 42

    with pytest.raises(ValueError, match="not yet"):
        await instance.do("one", step, alone=False)
    assert [await instance.do("one", step, alone=alone) for alone in (False, True)] == [42, 42]
    assert ran == [1, 1]


async def test_a_result_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt comes any more, and nothing of the step is kept."""
    monkeypatch.setattr(hands, "LEFT", 0.0)
    instance, ran = Hands(asyncio.get_running_loop()), list[int]()

    async def step() -> int:
        ran.append(1)
        return 42

    while len(ran) < 2:
        assert await instance.do("one", step, alone=False) == 42
        await asyncio.sleep(0)


async def test_a_context_is_apart_and_ends_with_its_error() -> None:
    """It is entered in another thread; what it ends with reaches who has entered it."""
    threads: list[str] = []

    @asynccontextmanager
    async def enter() -> AsyncGenerator[None]:
        threads.append(threading.current_thread().name)
        yield
        raise ValueError("in the end")

    with pytest.raises(ValueError, match="in the end"):
        async with apart(enter):
            threads.append(threading.current_thread().name)
    assert threads == ["adk_fluent_worker", threading.current_thread().name]


async def test_who_is_cancelled_while_a_context_is_entered_leaves_none() -> None:
    """The context is left again before the cancellation is raised."""
    left, begun, cancelled = threading.Event(), threading.Event(), threading.Event()

    @asynccontextmanager
    async def enter() -> AsyncGenerator[None]:
        begun.set()
        await happens(cancelled)
        yield
        left.set()

    async def use() -> None:
        async with apart(enter):
            raise AssertionError

    task = asyncio.ensure_future(use())
    await happens(begun)
    task.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left.is_set()
