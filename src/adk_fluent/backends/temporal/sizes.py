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

MOST_EVENTS: Final = 50_000
"""Events in the history of a run, of the 51,200 at which Temporal ends it."""

MOST_BYTES: Final = 47_000_000
"""Bytes of the history of a run, of the 52,428,800 at which Temporal ends it."""


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
            "at 51,200, or at 52 MB. What it did until here is in its session. Cut it by "
            ".execution_boundary(), since each segment has a history of its own, or do less in one run."
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
