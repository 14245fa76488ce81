"""The token bucket: how many pass, in which order, and what those leave who stop waiting."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.middleware.buckets import TokenBucket
from tests.clock import still

LATE = 1e-4
"""Seconds that times which are sums may differ by."""

times = st.lists(st.floats(0, 20), min_size=1, max_size=30)


@dataclass
class Arrivals:
    """Tasks that arrive at given times and note when each passed."""

    bucket: TokenBucket
    passed: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    stayed: set[int] = field(default_factory=set[int])
    came: int = 0

    async def one(self, number: int, at: float, patience: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at)
        place = self.came
        self.came += 1
        wait = asyncio.ensure_future(self.bucket.wait())
        if patience is not None:
            loop.call_later(patience, wait.cancel)
        done, _ = await asyncio.wait([wait])
        if not done.pop().cancelled():
            self.passed.append((place, loop.time()))
            self.stayed.add(number)

    async def all(self, arrivals: list[float], patience: dict[int, float] | None = None) -> float:
        start = asyncio.get_running_loop().time()
        limits = patience or {}
        await asyncio.gather(*(self.one(n, at, limits.get(n)) for n, at in enumerate(arrivals)))
        return start


def served(
    rate: float, per: float, arrivals: list[float], patience: dict[int, float] | None = None
) -> list[tuple[int, float]]:
    """Who passed, by the order of arrival, and when, in seconds from the start."""
    stage = Arrivals(TokenBucket(rate, per))
    start = still(stage.all(arrivals, patience))
    assert set(range(len(arrivals))) - set(patience or ()) <= stage.stayed
    return [(place, at - start) for place, at in stage.passed]


@given(st.integers(1, 5), st.floats(0.5, 3), times)
def test_never_more_than_the_rate(rate: int, per: float, arrivals: list[float]) -> None:
    """In any stretch of time no more pass than a full bucket and what came in; all pass in the end."""
    passed = [at for _, at in served(rate, per, sorted(arrivals))]
    assert len(passed) == len(arrivals)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            stretch = passed[last] - passed[first]
            assert last - first + 1 <= rate + (stretch + LATE) * rate / per


@given(st.integers(1, 5), st.floats(0.5, 3), times)
def test_nobody_waits_longer_than_needed(rate: int, per: float, arrivals: list[float]) -> None:
    """Each passes, in the order of arrival, as soon as the bucket that a person would compute lets it."""
    arrivals = sorted(arrivals)
    passed = served(rate, per, arrivals)
    assert [number for number, _ in passed] == list(range(len(arrivals)))
    left, at = float(rate), 0.0
    for arrival, (_, when) in zip(arrivals, passed, strict=True):
        now = max(arrival, at)
        left = min(rate, left + (now - at) * rate / per)
        if left < 1:
            now, left = now + (1 - left) * per / rate, 1.0
        left, at = left - 1, now
        assert abs(when - now) < LATE


@given(times, st.dictionaries(st.integers(0, 29), st.floats(0.01, 5), max_size=15))
def test_who_stops_waiting_costs_nobody_anything(arrivals: list[float], patience: dict[int, float]) -> None:
    """Those who stay pass when they would have passed without those who gave up, or earlier, in order."""
    arrivals = sorted(arrivals)
    passed = served(1, 1.0, arrivals, patience)
    numbers = [number for number, _ in passed]
    assert numbers == sorted(numbers)
    alone = served(1, 1.0, [arrivals[number] for number in numbers])
    for (_, with_others), (_, without) in zip(passed, alone, strict=True):
        assert with_others <= without + LATE


async def _refused() -> list[object]:
    bucket = TokenBucket(2, 10.0)
    first = [bucket.take(), bucket.take(), bucket.take()]
    left = bucket.missing()
    await asyncio.sleep(5)
    return [first, round(left, 3), bucket.take(), bucket.take()]


def test_taking_does_not_wait() -> None:
    """`take` says at once whether a call may pass, and `missing` how long until one may."""
    assert still(_refused()) == [[True, True, False], 5.0, True, False]


async def _idleness() -> list[bool]:
    bucket = TokenBucket(1, 10.0)
    seen = [bucket.idle]
    await bucket.wait()
    seen.append(bucket.idle)
    await asyncio.sleep(10)
    return [*seen, bucket.idle]


def test_a_bucket_is_idle_when_it_is_full_again() -> None:
    """A bucket that has filled up again is as good as a new one, so it need not be kept."""
    assert still(_idleness()) == [True, False, True]


def test_one_bucket_serves_several_loops() -> None:
    """Calls of one loop count on the next: what was taken there is gone here."""
    bucket = TokenBucket(2, 1000.0)

    async def take() -> bool:
        return bucket.take()

    async def crowd() -> int:
        waiting = [asyncio.ensure_future(bucket.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        done = sum(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        return done

    assert asyncio.run(take())
    assert asyncio.run(crowd()) == 1
    assert not asyncio.run(take())


def test_a_rate_below_one_still_lets_one_through() -> None:
    """Half a call a second is one call each two seconds."""
    assert [round(at, 2) for _, at in served(0.5, 1.0, [0.0, 0.0, 0.0])] == [0.0, 2.0, 4.0]


def test_no_event_loop_is_kept() -> None:
    """A bucket that calls have waited for lets go of the loops in which they did."""
    bucket = TokenBucket(1, 0.001)
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def calls() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(*(bucket.wait() for _ in range(3)))

    for _ in range(2):
        asyncio.run(calls())
    gc.collect()
    assert [each() for each in loops] == [None, None]
