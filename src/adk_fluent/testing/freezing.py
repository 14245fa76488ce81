"""`frozen_run`: runs that are the same to the last id and second."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

START: Final = 1_767_225_600.0
"""The first second of 2026 (UTC), at which a frozen run begins."""

TICK: Final = 0.001
"""Seconds from one look at the clock to the next."""


@contextmanager
def frozen_run(seed: int = 0) -> Generator[None]:
    """Inside, ids and times are the same in every process: those of sessions, runs, events and tool calls.

    Ids come from `seed`; the clock begins with the year 2026 and goes on by a millisecond each time it is
    looked at. So do Python's own `uuid.uuid4`, `time.time` and `random`. Waiting takes the time it takes.

    Args:
        seed: another one gives other ids.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> def ids():
        ...     with frozen_run(seed=7):
        ...         result = asyncio.run(Agent("a").run("hi", backend=mock_backend({"a": "Hello."})))
        ...     return [(event.id, event.timestamp) for event in result]
        >>> ids() == ids()
        True
    """
    from adk_fluent.backends.adk.api import clock_of_events

    source, now = random.Random(seed), START

    def new_id() -> uuid.UUID:
        return uuid.UUID(int=source.getrandbits(128), version=4)

    def clock() -> float:
        nonlocal now
        now += TICK
        return now

    state = random.getstate()
    random.seed(seed)
    try:
        with patch("uuid.uuid4", new_id), patch("time.time", clock), clock_of_events(clock):
            yield
    finally:
        random.setstate(state)
