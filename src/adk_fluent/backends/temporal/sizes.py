"""How much Temporal holds: what is more is refused in one line, before it is lost or done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from pydantic_core import to_json

from adk_fluent.backends.adk.durable.steps import Json
from adk_fluent.errors import RunError

PAGE: Final = 1_000_000
"""Bytes that are handed over at once, of what comes in pieces."""

LARGEST: Final = 2_000_000
"""Bytes that a step may take, or give; Temporal carries 2,097,152 with what is around them."""

SMALLER: Final = "Keep files as artifacts, and the conversation short: .reads(...), .context(...)."
"""What to do about a conversation or a state that is too large."""

MOST_EVENTS: Final = 50_000
"""Events in the history of a run, of the 51,200 at which Temporal ends it."""

MOST_BYTES: Final = 47_000_000
"""Bytes of the history of a run, of the 52,428,800 at which Temporal ends it."""


LONG_EVENTS: Final = 1_000
"""Events after which a run begins a new history where it can.

Where a worker dies another one decides all that is in a history again, and has five seconds for it. To decide
on a step takes the longer, the more events there are in the session, so long sessions have shorter histories.
"""

LONG_BYTES: Final = 4_000_000
"""Bytes after which it does, beside those of its session."""


def room(session: int) -> int:
    """How many events the history of a run may have beside those of its session, which are so many."""
    return max(LONG_EVENTS * 1_000 // (1_000 + session), LONG_EVENTS // 10)


def check_size(value: Json, what: str, instead: str) -> None:
    """Refuse a value that is too large.

    Raises:
        RunError: it is.
    """
    if (size := len(to_json(value))) > LARGEST:
        raise RunError(
            f"{what} is {size / 1e6:.1f} MB, and a durable run holds at most {LARGEST / 1e6:g} MB at once. "
            f"{instead}"
        )


def check_history(events: int, size: int) -> None:
    """Refuse a further step of a run whose history is nearly full.

    Raises:
        RunError: it is.
    """
    if events > MOST_EVENTS or size > MOST_BYTES:
        raise RunError(
            f"The run has {events:,} events of {size / 1e6:.1f} MB in its history, and Temporal would end it "
            "at 51,200, or at 52 MB. What it did until here is in its session. A Loop goes on in a new "
            "history where nothing is kept in memory: give the workers a session_service on a database, "
            "leave out middleware that counts; or cut the pipeline by .execution_boundary()."
        )


def pages(values: Sequence[Json], first: int = 0) -> Iterator[list[Json]]:
    """Values from a place on, in pages; one that is larger than a page has its own."""
    page, size = list[Json](), 0
    for value in values[first:]:
        more = len(to_json(value))
        if page and size + more > PAGE:
            yield page
            page, size = [], 0
        page.append(value)
        size += more
    if page:
        yield page


def page(values: Sequence[Json], first: int = 0) -> list[Json]:
    """The page of values that begins at a place."""
    nothing: list[Json] = []
    return next(pages(values, first), nothing)


def begin(session: Mapping[str, Json]) -> Json:
    """What there is first of a stored session: all but the events behind the first page of them.

    Raises:
        RunError: its state is too large.
    """
    check_size(session.get("state"), f"The state of session {session['id']!r}", "Keep files as artifacts.")
    events: list[Json] = session.get("events") or []
    return {"session": {**session, "events": page(events)}, "count": len(events)}


async def whole(begun: Mapping[str, Json], following: Callable[[int], Awaitable[list[Json]]]) -> Json:
    """The stored session that `begin` began.

    Args:
        following: gives the page of events that begins at a place.
    """
    events: list[Json] = begun["session"]["events"]
    while len(events) < begun["count"]:
        events = [*events, *await following(len(events))]
    return {**begun["session"], "events": events}
