"""Workers die while runs are on their way; what is done is not done again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import (
    pipeline,
)

pytestmark = pytest.mark.newest


STEPS = ("first", "compute", "look", "caller", "last")


def _once(crew: Crew, *, twice: str = "") -> bool:
    """Whether every step began and ended once, but for one that began twice."""
    begun = {f"{name} begins": 1 + (name == twice) for name in STEPS}
    return Counter(crew.log()) == {**begun, **{f"{name} ends": 1 for name in STEPS}}


@pytest.mark.parametrize("phase", ["first", "compute", "look", "last"])
async def test_a_killed_worker_repeats_nothing_that_is_done(crew: Crew, phase: str) -> None:
    """A worker dies in a step; another one does that step again, and only that, within ten seconds."""
    crew.hold(phase)
    run = asyncio.ensure_future(pipeline.run("hi", backend=backend_of(crew)))
    await crew.until(f"{phase} begins")
    killed = time.monotonic()
    crew.kill(f"{phase} begins")
    crew.release(phase)
    await crew.until(f"{phase} begins", 2)
    assert time.monotonic() - killed < 10  # what is promised
    result = await run
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    assert _once(crew, twice=phase)


async def test_a_stream_goes_on_where_it_was(crew: Crew) -> None:
    """A worker dies in the middle of an answer; the reader gets the rest, and no piece twice."""
    crew.hold("last")
    pieces: list[str] = []
    async for event in pipeline.stream("hi", backend=backend_of(crew)):
        if event.author == "last" and event.is_partial:
            pieces.append(event.content or "")
            if len(pieces) == 1:
                crew.kill("last begins")
                crew.release("last")
    assert pieces == ["I am ", "last."]
    assert _once(crew, twice="last")
