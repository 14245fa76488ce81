"""Branches of which one counts: a `race`, and a fan-out that goes on with the first to complete."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum, auto

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent._tasks import is_cancelled
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.events.signals import pauses
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.steps.branches import Attempt, Item, Turns, on_branch
from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.concurrency import interleave
from adk_fluent.backends.adk.steps.leaves import Events, Position
from adk_fluent.backends.adk.steps.passing import Start
from adk_fluent.backends.adk.steps.seen import Seen
from adk_fluent.backends.afoot import Afoot
from adk_fluent.backends.events import DISCARDS
from adk_fluent.errors import MockError, RunError, sentence, what_happened


class _Asks(Enum):
    """A branch would ask a person now."""

    ASKS = auto()


@dataclass(slots=True, eq=False)
class Contestant:
    """A branch of a contest.

    Attributes:
        child: what runs.
        ctx: where.
        seen: what its events told.
        held: events that report a failure which nothing has caught yet.
        error: what it raised.
        asks: whether it waits for its turn to ask a person.
        chosen: set when no other branch can win any more, so that it may ask.
        won: whether it succeeded before all others.
    """

    child: BaseAgent
    ctx: InvocationContext
    seen: Seen = field(default_factory=Seen)
    held: list[Event] = field(default_factory=list[Event])
    error: BaseException | None = None
    asks: bool = False
    chosen: asyncio.Event = field(default_factory=asyncio.Event)
    won: bool = False
    over: bool = False

    @property
    def has_succeeded(self) -> bool:
        """Whether its end, when it comes, is a good one."""
        return not (self.error or self.seen.unfinished)

    @property
    def problem(self) -> str:
        """Why it did not complete."""
        return self.seen.problem or "it did not end" if self.error is None else what_happened(self.error)


class Contest(Composite):
    """Base of composites that run all their children at once and go on with one of them.

    That is the first to succeed; else the first that waits for a person: a question is asked only when no
    other branch can win any more.
    """

    def branch(self, child: BaseAgent) -> str:
        """The conversation branch of a child, below that of the composite."""
        return f"{self.name}.{child.name}"

    def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        return self._go_on(ctx, start) if start.resuming else self._begin(ctx)

    @abstractmethod
    def _begin(self, ctx: InvocationContext) -> Events:
        """Run all children from their beginning."""

    async def _go_on(self, ctx: InvocationContext, start: Start) -> Events:
        """A run that goes on behind a question: it is decided, and only the winner goes on."""
        winner = self.sub_agents[start.index]
        async with aclosing(self.only(winner, ctx, start, on_branch(ctx, self.branch(winner)))) as events:
            async for event in events:
                yield event

    async def compete(
        self,
        ctx: InvocationContext,
        entries: Sequence[Contestant],
        watch: Sequence[runs.Onlooker],
        turn: asyncio.Lock | None = None,
    ) -> AsyncGenerator[tuple[Contestant, Event], None]:
        """The events of all branches as they come, until one has won; the others are cancelled then.

        Args:
            turn: held while an event is stored, where branches store something themselves.
        """

        def may(index: int, event: Event | _Asks | None) -> bool:
            name, wins = entries[index].child.name, event is None and entries[index].has_succeeded
            return _is_piece(event) or all(each.may(name, wins) for each in watch)

        sources = [self._attempt(entry) for entry in entries]
        run = interleave(
            sources,
            may=may,
            afoot=runs.afoot(ctx),
            turn=turn,
            due=runs.due(ctx, self.name),
            failed=runs.failed(ctx, self.name),
        )
        async with aclosing(run):
            async for index, event in run:
                entry = entries[index]
                for each in () if _is_piece(event) else watch:
                    each.took(entry.child.name, event is None)
                if isinstance(event, Event):
                    yield entry, event
                    continue
                entry.over = event is None
                if entry.over and entry.has_succeeded:
                    entry.won = True
                if entry.won or (entry.over and entry.chosen.is_set() and entry.seen.paused):
                    await _settle(watch, wins=True)
                    return
                if all(each.over or each.asks for each in entries):
                    next((each for each in entries if not each.over), entry).chosen.set()
            await _settle(watch, wins=False)

    async def _attempt(self, entry: Contestant) -> AsyncGenerator[Event | _Asks, None]:
        """The events of one branch, which neither fails nor asks before the others are known to lose."""
        try:
            async with aclosing(self.relay(entry.child, entry.ctx, entry.seen)) as events:
                async for event in events:
                    if not entry.asks and pauses(entry.ctx, event):
                        entry.asks = True
                        yield _Asks.ASKS
                        await (runs.afoot(entry.ctx) or Afoot()).wait(entry.chosen)
                    entry.held.append(event)
                    while entry.held and not entry.seen.problems:
                        yield entry.held.pop(0)
        except MockError:  # the test's script is wrong, not the branch
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            entry.error = error


class RaceComposite(Contest):
    """`race`: each branch apart from the session; only what the winner did is passed on.

    Pieces of answers come as they are generated, those of all branches: they are stored nowhere, and only the
    whole answer that follows them tells whose counted.
    """

    async def _begin(self, ctx: InvocationContext) -> Events:
        attempts = [Attempt(ctx, self.branch(child)) for child in self.sub_agents]
        entries = [Contestant(*pair) for pair in zip(self.sub_agents, (a.ctx for a in attempts), strict=True)]
        watch = runs.onlookers(ctx, self)
        async with aclosing(self.compete(ctx, entries, watch)) as run:
            async for entry, event in run:
                if event.partial:
                    yield event  # which is stored nowhere
                await attempts[entries.index(entry)].hear(event)
        winner = _first(entries)
        attempt = attempts[entries.index(winner)]
        for each in watch:
            each.decided(winner.child.name)
        for event in winner.held:
            await attempt.hear(event)
        if ctx.is_resumable:
            yield private.checkpoint(self, ctx, Position(child=winner.child.name))
        for event in attempt.pass_on():
            yield with_temporary(ctx, event)
        if ctx.is_resumable and not winner.seen.unfinished:
            yield private.finished(self, ctx)


async def _settle(watch: Sequence[runs.Onlooker], *, wins: bool) -> None:
    for each in watch:
        await each.settles(wins)


def _is_piece(event: Event | _Asks | None) -> bool:
    """Whether it is part of an answer, which decides nothing."""
    return isinstance(event, Event) and bool(event.partial)


def _first(entries: Sequence[Contestant]) -> Contestant:
    """The branch to go on with: of those that failed, the first that raised, whose error is raised."""
    for entry in entries:
        if entry.won:
            return entry
    for entry in entries:
        if entry.seen.paused and entry.error is None:
            return entry
    for entry in entries:
        if entry.error is not None:
            raise entry.error
    return entries[0]


class FirstComposite(Contest):
    """`FanOut(merge="first_complete")`: events as they come, until one branch has completed.

    What the others did by then is in the session, and their words are withdrawn as answers. Each branch reads
    the state with its own writes laid over it, so that what one had not yet given out is not left behind when
    it is cancelled.
    """

    async def _begin(self, ctx: InvocationContext) -> Events:
        turns = Turns(ctx)
        items = [
            Item(turns.ctx, self.branch(child), dict(ctx.session.state), {}) for child in self.sub_agents
        ]
        entries = [
            Contestant(*pair) for pair in zip(self.sub_agents, (item.ctx for item in items), strict=True)
        ]
        heard: list[list[Event]] = [[] for _ in entries]
        asked: Contestant | None = None
        watch = runs.onlookers(ctx, self)
        async with aclosing(self.compete(ctx, entries, watch, turns.lock)) as run:
            async for entry, event in run:
                index = entries.index(entry)
                if entry.chosen.is_set() and asked is not entry:
                    asked = entry
                    for said in self._withdrawn(ctx, entry, entries, heard):
                        yield said
                    if ctx.is_resumable:
                        yield private.checkpoint(self, ctx, Position(child=entry.child.name))
                yield with_temporary(ctx, items[index].offer(event))
                items[index].follow(event)
                heard[index].append(event)
                if self.is_ended_by(event, entry.child):
                    entry.won = True
                    await _settle(watch, wins=True)
                    break
        winner = self._completed(entries)
        for each in watch:
            each.decided(winner.child.name)
        if asked is None:
            for said in self._withdrawn(ctx, winner, entries, heard):
                yield said
        if ctx.is_resumable and not winner.seen.unfinished:
            yield private.finished(self, ctx)

    def _withdrawn(
        self,
        ctx: InvocationContext,
        winner: Contestant,
        entries: Sequence[Contestant],
        heard: Sequence[list[Event]],
    ) -> list[Event]:
        """The event that withdraws what the others said, if they said anything."""
        lost = [events for entry, events in zip(entries, heard, strict=True) if entry is not winner]
        said = [event.id for events in lost for event in events if event.content and not event.partial]
        names = [entry.child.name for entry in entries if entry is not winner]
        return [self.event(ctx, metadata={DISCARDS: said, "adk_fluent.lost": names})] if said else []

    def _completed(self, entries: Sequence[Contestant]) -> Contestant:
        """The branch to go on with.

        Raises:
            RunError: all failed; it names each.
        """
        found = next((entry for entry in entries if entry.won), None)
        found = found or next((e for e in entries if e.seen.paused and e.error is None), None)
        if found is not None:
            return found
        problems = "; ".join(f"{entry.child.name!r}: {entry.problem.rstrip('.')}" for entry in entries)
        cause = next((entry.error for entry in entries if entry.error is not None), None)
        raise RunError(
            f"{self.name!r} (first_complete): none of its branches completed: {sentence(problems)} "
            "Give it one that cannot fail, or a fallback with //."
        ) from cause
