"""Where ADK gets its ids, its time and its chance from, which a run that is repeated must get again."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from random import Random
from typing import Any

try:
    from google.adk import platform
    from google.adk.platform import time
    from google.adk.platform import uuid as ids
except ImportError:  # before 2.x, ADK asks Python itself
    platform: Any = None
    ids: Any = None
    time: Any = None


def new_id() -> str:
    """A new id, from where ADK gets its own."""
    return str(uuid.uuid4()) if ids is None else ids.new_uuid()


def can_repeat() -> bool:
    """Whether the installed ADK can be told where to get ids from."""
    return ids is not None


def deterministic(clock: Callable[[], float], new: Callable[[], str], chance: Callable[[], Random]) -> None:
    """From here on, in this task and those it starts, ADK gets ids, time and chance from these."""
    time.set_time_provider(clock)
    ids.set_id_provider(new)
    if hasattr(platform, "set_random_provider"):
        platform.set_random_provider(chance)
