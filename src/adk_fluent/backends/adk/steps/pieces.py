"""Answers in pieces: cut while they are generated, kept between two steps, and joined again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.signals import spoken_text
from adk_fluent.backends.adk.middleware.stack import stack_at, stack_of
from adk_fluent.backends.adk.steps.branches import find
from adk_fluent.backends.adk.steps.tree import below
from adk_fluent.backends.afoot import Afoot
from adk_fluent.backends.events import DISCARDS
from adk_fluent.errors import RunError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import agents_in
from adk_fluent.ir.passage import Passage, changing_hooks, cut

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


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is known of the answers of a step before it has ended.

    Attributes:
        live: whether what its models stream is their answers, so that it may go on at once.
        stored: whether the session alone knows its answers: an event may be changed when it is stored.
        adds: whether more may be said behind an answer.
    """

    live: bool
    stored: bool = False
    adds: bool = False


def certainty(ctx: InvocationContext, agent: BaseAgent, node: Node, passage: Passage) -> Certainty:
    """What is known of the answers of a step, with the callbacks, middleware and plugins that act on it.

    Args:
        ctx: where it runs.
        agent: what runs.
        node: what it was made from.
        passage: how its answer goes on, as far as the tree tells.
    """
    hooks = _hooks_on(ctx, agent)
    cut_off = not private.keeps_all_text() and any(each.output_key and each.tools for each in agents_in(node))
    adds = says_more(ctx, agent, node)
    return Certainty(passage.live and not hooks and not cut_off, "on_event" in hooks, adds)


def says_more(ctx: InvocationContext, agent: BaseAgent, node: Node) -> bool:
    """Whether a callback, middleware or plugin may say more behind an answer in a step."""
    return any(
        "after_agent_callback" in each.given for each in agents_in(node)
    ) or "after_agent" in _hooks_on(ctx, agent)


def _hooks_on(ctx: InvocationContext, agent: BaseAgent) -> set[str]:
    """The hooks of middleware and plugins that may change what a step says."""
    acting: list[object] = [one for one in ctx.plugin_manager.plugins if not isinstance(one, AddedPlugin)]
    for stack in (stack_of(ctx), *map(stack_at, below(agent))):
        acting += stack.middleware
    return {hook for one in acting for hook in changing_hooks(one)}


class Speech:
    """What a step says, cut into pieces.

    A model's partial answers are cut as they come, where they are sure to be its answer. Of a model that
    gives none, or of a step whose answer is known only when it has ended, the whole answer is cut.

    Args:
        ctx: where the step runs.
        passage: the edge that the pieces take.
        feed: takes the pieces.
        keys: where its agents store their answers as text: name → key.
        known: what is known of its answers before it has ended.
    """

    def __init__(
        self, ctx: InvocationContext, passage: Passage, feed: Feed, keys: Mapping[str, str], known: Certainty
    ) -> None:
        self.passage = passage
        self.known = known
        self._live = known.live
        self._ctx, self._feed, self._keys = ctx, feed, keys
        self._begun = False
        self._streamed: dict[str, str] = {}
        self._left: dict[str, str] = {}
        self._rest: dict[str, str] = {}
        self._events: list[Event] = []

    def note(self, events: Iterable[Event]) -> None:
        """Note what the step said in an earlier part of the run."""
        self._events += events

    async def hear(self, event: Event) -> None:
        """Note an event of the step.

        Raises:
            RunError: pieces have left of an answer that is another now.
        """
        if not event.partial:
            self._events.append(event)
        if not self._live or event.author not in self.passage.speakers or not (text := spoken_text(event)):
            return
        if event.partial:
            self._streamed[event.author] = self._streamed.get(event.author, "") + text
            await self.say(event.author, text)
        elif self._begun or self._streamed or self._is_kept(event.author, text):
            await self._settle(event.author, text)
        else:
            self._live = False  # said in the place of an answer: the end of the step tells how it goes on

    def _is_kept(self, author: str, text: str) -> bool:
        key = self._keys.get(author)
        return key is None or str(self._ctx.session.state.get(key)).endswith(text)

    async def _settle(self, author: str, whole: str) -> None:
        """Say what is left of an answer that is whole now; the next one does not continue its last piece."""
        streamed, left = self._streamed.pop(author, ""), self._left.pop(author, "")
        if whole.startswith(left):
            self._rest.pop(author, "")
            await self.say(author, whole[len(left) :])
        elif whole.split() != streamed.split():
            raise RunError(
                f"Agent {author!r} streamed an answer that is another one as a whole, and its first pieces "
                f'have gone to the next step. Say .stream_to("full") of {author!r}.'
            )
        await self._rest_of(author)
        self._left.pop(author, "")

    async def say(self, author: str, text: str) -> None:
        """Cut off what is a piece by now."""
        size = self.passage.characters
        if size is None:
            pieces = [text] * bool(text)
        else:
            *pieces, self._rest[author] = cut(self._rest.get(author, "") + text, size, whole=False)
        for piece in pieces:
            await self._give(author, piece)

    async def end(self, told: Sequence[Event] | None = None) -> None:
        """The step has ended: hand on what is left, and that nothing follows.

        Args:
            told: what it said in an earlier part of the run, if it has not run in this one.

        Raises:
            RunError: pieces have left of an answer that never came.
        """
        if told is not None or not self._live:
            for author, text in self._answers([*self._events, *(told or ())]):
                await self.say(author, text)
                await self._rest_of(author)
        for author in [*self._left]:
            await self._settle(author, "")
        for author in [*self._rest]:
            await self._rest_of(author)
        await self._feed.put(None)

    def _answers(self, events: Sequence[Event]) -> Iterator[tuple[str, str]]:
        """What the step has answered; nothing where more than that goes on: the next step gets all."""
        ctx = self._ctx
        events = [find(ctx.session.events, event) for event in events]
        said = answers(events, self.passage.speakers, self._keys, ctx, adds=self.known.adds)
        if self.passage.taking == "runs" and not self._is_one(said, events):
            return
        for (author, _), answer in said.items():
            yield from ((author, text) for text in answer.texts)

    def _is_one(self, said: Mapping[Voice, Answer], events: Iterable[Event]) -> bool:
        """Whether one answer goes on, and no key holds the answer of another agent, withdrawn or not."""
        spoken = [event for event in events if event.author in self.passage.speakers]
        written = {key for e in spoken if (key := self._keys.get(e.author)) in e.actions.state_delta}
        own = {self._keys.get(author) for author, _ in said}
        return [answer.is_all for answer in said.values()] == [True] and written <= own

    async def _rest_of(self, author: str) -> None:
        if rest := self._rest.pop(author, ""):
            await self._give(author, rest)

    async def _give(self, author: str, piece: str) -> None:
        self._begun = True
        self._left[author] = self._left.get(author, "") + piece
        await self._feed.put(Piece(piece, author))


Voice = tuple[str, str | None]
"""An agent and the conversation branch it speaks on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an agent.

    Attributes:
        texts: what it consists of: more than one text where calls of tools stand between them.
        is_all: whether whoever gets the answer whole gets just that, under its key too.
    """

    texts: Sequence[str]
    is_all: bool


def answers(
    events: Iterable[Event],
    speakers: Container[str],
    keys: Mapping[str, str],
    ctx: InvocationContext,
    *,
    adds: bool,
) -> dict[Voice, Answer]:
    """The answers among the events of a step that has ended, without those that were withdrawn.

    It is what the key of an agent holds, or else the last that it said.

    Args:
        keys: where the agents store their answers as text: name → key.
        ctx: where the step ran.
        adds: whether more may be said behind an answer, so that it goes on with it.
    """
    events = list(events)
    withdrawn = {key for event in events for key in (event.custom_metadata or {}).get(DISCARDS, ())}
    said, kept = dict[Voice, list[Event]](), dict[Voice, object]()
    for event in events:
        voice, key = (event.author, event.branch), keys.get(event.author)
        if event.author not in speakers or event.partial or event.id in withdrawn:
            continue
        if key in event.actions.state_delta:
            kept[voice] = event.actions.state_delta[key]
        if spoken_text(event):
            said.setdefault(voice, []).append(event)
    found: dict[Voice, Answer] = {}
    for voice, told in said.items():
        grouped = _grouped(told)
        key, several = keys.get(voice[0]), adds and len(grouped) > 1
        if key is None:
            texts = [text for group in grouped for text in group] if several else grouped[-1]
            found[voice] = Answer(texts, not several)
            continue
        value = ctx.session.state.get(key, kept.get(voice)) if voice[1] == ctx.branch else kept.get(voice)
        text, whole = value if isinstance(value, str) else "", "".join(map(spoken_text, told))
        found[voice] = Answer([text] * bool(text), bool(text) and whole.endswith(text))
    return found


def _grouped(told: Iterable[Event]) -> list[list[str]]:
    """What an agent said, one answer after another, each with what it said beside calls on the way to it."""
    found: list[list[str]] = []
    is_going_on = False
    for event in told:
        if not is_going_on:
            found.append([])
        found[-1].append(spoken_text(event))
        runs_code = any(part.executable_code for part in (event.content and event.content.parts) or [])
        is_going_on = runs_code or not event.is_final_response()
    return found


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
