"""Answers in pieces: cut while they are generated, kept between two steps, and joined again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from google.adk.events.event import Event

from adk_fluent.backends.adk.events.signals import spoken_text
from adk_fluent.backends.afoot import Afoot
from adk_fluent.backends.events import DISCARDS
from adk_fluent.ir.passing import Passage, cut

MOST_WAITING: Final = 8
"""Pieces that wait between two steps at most, with `backpressure=True`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer, and whose it is."""

    text: str
    author: str


class Feed:
    """Pieces on their way from one step to the next; whoever puts one waits where the queue is bounded.

    Args:
        passage: the edge that they take.
        afoot: counts the two steps while neither waits for the other.
    """

    def __init__(self, passage: Passage, afoot: Afoot) -> None:
        self.afoot = afoot
        bound = MOST_WAITING if passage.edge.backpressure else 0
        self._queue: asyncio.Queue[Piece | None] = asyncio.Queue(bound)
        self._left = False

    async def put(self, piece: Piece | None) -> None:
        """Hand a piece on; `None` is the end. Nothing is kept for a reader who has left."""
        if not self._left:
            with self.afoot.waiting():
                await self._queue.put(piece)

    def leave(self) -> None:
        """The reader wants no more."""
        self._left = True
        while not self._queue.empty():
            self._queue.get_nowait()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        while (piece := await self._next()) is not None:
            yield piece

    async def _next(self) -> Piece | None:
        with self.afoot.waiting():
            return await self._queue.get()


taken: ContextVar[Feed | None] = ContextVar("adk_fluent_pieces", default=None)
"""The pieces that the step which runs in this task takes."""


def taken_here() -> Feed | None:
    """The pieces that the step which asks is to take; nobody whom it calls gets them as well."""
    feed = taken.get()
    if feed is not None:
        taken.set(None)
    return feed


async def texts(feed: Feed) -> AsyncIterator[str]:
    """The pieces as a user's function gets them."""
    async for piece in feed:
        yield piece.text


class Speech:
    """What a step says, cut into pieces.

    A model's partial answers are cut as they come; of one that gives none, or of a step whose words are its
    answer only when it has ended, the whole answer is.
    """

    def __init__(self, passage: Passage, feed: Feed) -> None:
        self.passage = passage
        self._feed = feed
        self._streamed = ""
        self._rest: dict[str, str] = {}
        self._events: list[Event] = []

    def note(self, events: Iterable[Event]) -> None:
        """Note what the step said in an earlier part of the run."""
        if not self.passage.live:
            self._events += events

    async def hear(self, event: Event) -> None:
        """Note an event of the step."""
        if not self.passage.live:
            if not event.partial:
                self._events.append(event)
            return
        if event.author not in self.passage.speakers or not (text := spoken_text(event)):
            return
        if event.partial:
            self._streamed += text
        else:  # the whole of what came in pieces, or of what did not
            text, self._streamed = "" if self._streamed else text, ""
        await self.say(event.author, text)

    async def say(self, author: str, text: str) -> None:
        """Cut off what is a piece by now."""
        size = self.passage.characters
        if size is None:
            pieces = [text] * bool(text)
        else:
            *pieces, self._rest[author] = cut(self._rest.get(author, "") + text, size, whole=False)
        for piece in pieces:
            await self._feed.put(Piece(piece, author))

    async def end(self, answers: Iterable[Event] = ()) -> None:
        """The step has ended: hand on what is left, and that nothing follows.

        Args:
            answers: its answers, where they are known from elsewhere.
        """
        for event in (*answers, *answers_of(self._events, self.passage)):
            await self.say(event.author, spoken_text(event))
            await self._rest_of(event.author)
        for author in [*self._rest]:
            await self._rest_of(author)
        await self._feed.put(None)

    async def _rest_of(self, author: str) -> None:
        if rest := self._rest.pop(author, ""):
            await self._feed.put(Piece(rest, author))


def answers_of(events: Iterable[Event], passage: Passage) -> list[Event]:
    """The answers among the events of a step that has ended."""
    return last_words(events, passage.speakers)


def last_words(events: Iterable[Event], speakers: Container[str]) -> list[Event]:
    """The last that each of some agents said on each branch, without what was withdrawn."""
    events = list(events)
    withdrawn = {key for event in events for key in (event.custom_metadata or {}).get(DISCARDS, ())}
    found = {
        (event.author, event.branch): event
        for event in events
        if event.author in speakers and not event.partial and event.id not in withdrawn and spoken_text(event)
    }
    return list(found.values())


class Joined:
    """Answers to pieces, one after another, with what stood between the pieces between them."""

    def __init__(self, between: str | None = None) -> None:
        self.text: str = ""
        self._between = between
        self._last: str | None = None
        self._blank = ""

    def skip(self, blank: str) -> None:
        """Note a piece of white space alone, to which there is no answer."""
        self._blank += blank

    def gap(self, piece: str, answer: str) -> str:
        """What stands between the answers so far and that to the next piece."""
        if self._last is None:
            return ""
        if self.text[-1:].isspace() or answer[:1].isspace():
            return "" if self._between else self._blank
        if self._between is not None:
            return self._between
        end, begin = len(self._last.rstrip()), len(piece) - len(piece.lstrip())
        return self._last[end:] + self._blank + piece[:begin]

    def add(self, piece: str, answer: str) -> str:
        """Add the answer to a piece; gives what the text grew by."""
        grown = self.gap(piece, answer) + answer
        self._last, self._blank = piece, ""
        self.text += grown
        return grown
