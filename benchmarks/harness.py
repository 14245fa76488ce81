"""What the benchmarks share: timing things in turn, and what a measurement says."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement.

    Attributes:
        what: what was measured.
        seconds: how long it takes, as a median.
        against: what it is compared with, and `reference` how long that takes, in seconds.
        ratio: `seconds` over `reference`, as the median over the rounds.
        target: the most that `seconds` or `ratio` should be, whichever `of` says.
        note: what else is worth knowing.
    """

    what: str
    seconds: float
    against: str = ""
    reference: float | None = None
    ratio: float | None = None
    target: float | None = None
    of: Literal["ratio", "seconds"] = "ratio"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; `None` where there is none."""
        reached = self.ratio if self.of == "ratio" else self.seconds
        return None if self.target is None or reached is None else reached <= self.target


Benchmark = Callable[[], Iterator[Figure]]
Run = Callable[[], object]

PINNED = 25_000_000
"""Bytes of memory that blocks of each size hold while something is measured."""


def in_turn(runs: Sequence[Run], rounds: int, clock: Callable[[], float] = process_time) -> list[list[float]]:
    """Seconds that each of `runs` takes in each round, after one round that does not count.

    Every round runs all of them, every other one in reverse, so that drift of the machine meets them alike.
    The clock counts this process alone, not what else the machine does meanwhile.
    """
    for run in runs:
        run()
    gc.collect()
    frozen = gc.get_freeze_count()
    gc.freeze()  # what is there now need not be looked at again before every run
    pinned = [*pin_memory(256), *pin_memory(2048)]
    seconds: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        order = range(len(runs)) if number % 2 == 0 else reversed(range(len(runs)))
        for index in order:
            seconds[index].append(timed(runs[index], clock))
    del pinned
    if not frozen:
        gc.unfreeze()
    return seconds


def pin_memory(size: int) -> list[bytes]:
    """Blocks that hold memory in the process with free room between them.

    Python and the C library give memory back to the system when they can. Whether a run then has to ask for
    it again depends on what happened to be allocated before, and can double its time.
    """
    blocks = [bytes(size) for _ in range(PINNED // size)]
    return blocks[:: 100_000 // size]


def timed(run: Run, clock: Callable[[], float] = process_time) -> float:
    """Seconds that `run` takes, without the garbage of others."""
    gc.collect()
    gc.disable()
    try:
        start = clock()
        run()
        return clock() - start
    finally:
        gc.enable()


def compare(
    what: str,
    ours: Run,
    by_hand: Run,
    *,
    rounds: int,
    per: int = 1,
    target: float | None = None,
    against: str = "plain ADK",
) -> Figure:
    """`ours` against the same thing written by hand.

    Args:
        per: how many steps one run makes; the figure is about one of them.
        target: the most that the ratio should be.
        against: what the other is.
    """
    mine, theirs = in_turn((ours, by_hand), rounds)
    return Figure(
        what=what,
        seconds=median(mine) / per,
        against=against,
        reference=median(theirs) / per,
        ratio=median(a / b for a, b in zip(mine, theirs, strict=True)),
        target=target,
    )


@contextmanager
def event_loop() -> Generator[Callable[[Callable[[], Coroutine[Any, Any, object]]], Run]]:
    """One event loop for a benchmark: makes a plain function of one that gives a coroutine."""
    with asyncio.Runner() as runner:
        yield lambda make: lambda: runner.run(make())
