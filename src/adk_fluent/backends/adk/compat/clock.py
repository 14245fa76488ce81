"""The clock that ADK's events are dated by."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Any, Self
from unittest.mock import patch

from google.adk.events import event

try:
    from google.adk.platform import time as platform
except ImportError:  # before 2.x, events ask Python's `datetime`
    platform: Any = None


@contextmanager
def clock_of_events(clock: Callable[[], float]) -> Generator[None]:
    """Inside, events are dated by another clock, which gives seconds since 1970."""
    if platform is not None:
        platform.set_time_provider(clock)
        try:
            yield
        finally:
            platform.reset_time_provider()
        return

    class Clock(datetime):
        """Python's `datetime`, whose `now` is that of the clock."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            """The time of the clock."""
            return cls.fromtimestamp(clock(), tz)

    with patch.object(event, "datetime", Clock):
        yield
