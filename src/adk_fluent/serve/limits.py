"""What a server lets in: how much, from whom."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

from adk_fluent.middleware.arguments import positive, whole

Authenticate: TypeAlias = Callable[[Mapping[str, str]], "str | Awaitable[str | None] | None"]
"""Who makes a request, by its headers (names in lower case): the name of a user, or `None` for nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLimits:
    """What one server takes at most.

    Attributes:
        body: bytes of a request; larger ones get HTTP 413.
        arrival: seconds that a request may take to arrive; slower ones get HTTP 408.
        tasks: tasks that run at the same time; more get HTTP 503 and are asked to come back.
        seconds: how long one task may run, the time that it waits for a person not counted.
        grace: seconds that running tasks have to finish when the server stops.
        conversations: conversations that a server without a store keeps in memory. Above that it forgets
            the one that was silent for longest: its tasks are not found any more, and a message to it begins
            a new one.
        memory: bytes of what callers said and were told that such a server keeps; above that it forgets
            likewise. Each byte is held several times, in sessions, tasks and their history.

    Raises:
        ArgumentError: one is not positive, or not a number; bytes, tasks and conversations are whole ones.
    """

    body: int = 10 * 1024 * 1024
    arrival: float = 60.0
    tasks: int = 1000
    seconds: float = 600.0
    grace: float = 10.0
    conversations: int = 10_000
    memory: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        for each in fields(self):
            check = whole if isinstance(each.default, int) else positive
            check(getattr(self, each.name), f"ServeLimits({each.name}=)")
