"""Steps that an answer goes through in pieces: all of them run at once, each on what the one before says.

The first step runs as ever, with its model asked to stream. Each step after it takes the pieces: a tap or a
function one by one; anything else runs once for each, apart from the session, on the conversation from
before the first of these steps and its piece. What those runs did is passed on when the step before has
ended, their answers joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]  # its public home on every supported version
from google.adk.events.event import Event

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware.runs import afoot, due, failed
from adk_fluent.backends.adk.steps.branches import Turns
from adk_fluent.backends.adk.steps.checkpoints import since_checkpoint
from adk_fluent.backends.adk.steps.concurrency import interleave
from adk_fluent.backends.adk.steps.leaves import Events, Position
from adk_fluent.backends.adk.steps.per_piece import RelayingAgent, Runs, text_keys
from adk_fluent.backends.adk.steps.pieces import Feed, Speech, certainty, says_more, taken
from adk_fluent.backends.adk.steps.seen import Seen
from adk_fluent.backends.afoot import Afoot
from adk_fluent.ir.base import Node
from adk_fluent.ir.passage import Passage


@dataclass(frozen=True, slots=True)
class Start:
    """Where a composite begins.

    Attributes:
        index: the child to begin with.
        resuming: whether an earlier run goes on.
        rounds: for loops, the rounds that are done.
        passed: what has happened since the checkpoint that says so.
        ended: whether the child to begin with has finished already.
        seen: what the events of that child told.
    """

    index: int = 0
    resuming: bool = False
    rounds: int = 0
    passed: list[Event] = field(default_factory=list[Event])
    ended: bool = False
    seen: Seen = field(default_factory=Seen)


def is_streaming(ctx: InvocationContext) -> bool:
    """Whether the caller wants pieces of answers."""
    return ctx.run_config is not None and ctx.run_config.streaming_mode == StreamingMode.SSE


def _streaming(ctx: InvocationContext) -> InvocationContext:
    """The context with models asked to stream."""
    if is_streaming(ctx):
        return ctx
    config = (ctx.run_config or RunConfig()).model_copy(update={"streaming_mode": StreamingMode.SSE})
    return ctx.model_copy(update={"run_config": config})


@dataclass(slots=True, eq=False)
class Stage:
    """One of the steps.

    Attributes:
        agent: what runs.
        node: what it was made from.
        seen: what its events told.
        incoming: what it takes, and how; nothing for the first.
        speech: where its own answer goes; `None` for the last.
        told: of a first step that has run already, the events that tell its answer.
        stands: whether a checkpoint says already that the run is here.
        ended: set when all its events were taken.
    """

    agent: BaseAgent
    node: Node
    seen: Seen = field(default_factory=Seen)
    incoming: tuple[Feed, Passage] | None = None
    speech: Speech | None = None
    told: list[Event] | None = None
    stands: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


def end_of(passages: Mapping[int, Passage], index: int) -> int:
    """The place of the last of the steps that are joined with the one at a place."""
    while index in passages:
        index += 1
    return index


def stretch(owner: RelayingAgent, ctx: InvocationContext, start: Start, index: int) -> StreamedSteps:
    """The steps that are joined with the one at a place, from there on.

    A step whose answer is in the session already, since the run waited or broke off behind it, is not run
    again: what follows gets the pieces of that answer.
    """
    passages, resuming = owner.passages, start.resuming and index == start.index
    begin, last = index, end_of(passages, index)
    while begin - 1 in passages:
        begin -= 1
    to_run = index + (resuming and start.ended)
    places = range(max(to_run - 1, begin), last + 1)
    stages = [Stage(owner.sub_agents[place], owner.ir.children[place]) for place in places]
    before = list(ctx.session.events)
    if resuming:
        since = {event.id for event in _since(owner, ctx, start, begin)}
        before = [event for event in before if event.id not in since]
    if to_run > begin:
        stages[0].told = _since(owner, ctx, start, to_run - 1)
        stages[0].ended.set()
    if resuming and not start.ended:
        stages[to_run > begin].stands = True
    counting = afoot(ctx) or Afoot()
    for number, (giving, taking) in enumerate(pairwise(stages), places.start):
        taking.incoming = (feed := Feed(passages[number], counting), passages[number])
        passage, keys = passages[number], text_keys(giving.node)
        giving.speech = Speech(ctx, passage, feed, keys, certainty(ctx, giving.agent, giving.node, passage))
    if stages[0].stands and stages[0].speech is not None:
        stages[0].speech.note(start.passed)
    return StreamedSteps(owner, Turns(ctx), start, stages, before)


def _since(owner: RelayingAgent, ctx: InvocationContext, start: Start, index: int) -> list[Event]:
    """What has happened since a step began."""
    position = Position(child=owner.sub_agents[index].name, round=start.rounds)
    return since_checkpoint(ctx, owner, position)


@dataclass(frozen=True, slots=True)
class StreamedSteps:
    """Steps of a sequence that are joined by edges in pieces, and where they are run.

    Attributes:
        owner: the sequence.
        turns: where it runs.
        start: where it begins.
        stages: the steps, from the first that still has to be run; or the one before that, if there is one.
        before: the conversation from before all of them.
    """

    owner: RelayingAgent
    turns: Turns
    start: Start
    stages: Sequence[Stage]
    before: list[Event]

    @property
    def ctx(self) -> InvocationContext:
        """Where the steps run."""
        return self.turns.ctx

    async def run(self) -> Events:
        """The events of all steps; what they told is noted in `start.seen`."""
        head, *others = self.stages
        sources = [self._say(head) if head.told is None else self._tell(head, head.told)]
        sources += [self._take(stage, self.stages[number]) for number, stage in enumerate(others)]
        run = interleave(
            sources,
            afoot=afoot(self.ctx),
            turn=self.turns.lock,
            due=due(self.ctx, self.owner.name),
            failed=failed(self.ctx, self.owner.name),
        )
        async with aclosing(run) as events:
            async for index, event in events:
                if event is not None:
                    yield event
                    continue
                seen = self.stages[index].seen
                self.start.seen.add(seen)
                if seen.is_last:
                    return

    def _checkpoint(self, stage: Stage) -> Iterable[Event]:
        if self.ctx.is_resumable and not stage.stands:
            position = Position(child=stage.agent.name, round=self.start.rounds)
            yield private.checkpoint(self.owner, self.ctx, position)

    async def _say(self, stage: Stage) -> Events:
        """The first step, which says its answer in pieces."""
        for event in self._checkpoint(stage):
            yield event
        shows, speech = is_streaming(self.ctx), stage.speech
        assert speech is not None
        async with aclosing(self.owner.relay(stage.agent, _streaming(self.ctx), stage.seen)) as events:
            async for event in events:
                if shows or not event.partial:
                    yield event
                await speech.hear(event)
        stage.ended.set()
        if not stage.seen.is_last:
            await speech.end()

    async def _tell(self, stage: Stage, told: list[Event]) -> Events:
        """The first step, where its answer is in the session already."""
        assert stage.speech is not None
        await stage.speech.end(told)
        return
        yield  # an async generator needs one

    async def _take(self, stage: Stage, previous: Stage) -> Events:
        """A step that takes what the one before says."""
        assert stage.incoming is not None
        feed, passage = stage.incoming
        work = self._pieces if passage.taking == "pieces" else self._runs
        async with aclosing(work(stage, feed, previous)) as events:
            async for event in events:
                yield event
        stage.ended.set()

    async def _pieces(self, stage: Stage, feed: Feed, previous: Stage) -> Events:
        """A tap or a function, which takes the pieces themselves."""
        taken.set(feed)  # for this task alone: each stage is driven by one of its own
        async with aclosing(self.owner.relay(stage.agent, self.ctx, stage.seen)) as events:
            written = [event async for event in events]
        feed.leave()
        with feed.afoot.waiting():
            await previous.ended.wait()
        for event in (*self._checkpoint(stage), *written):
            yield event

    async def _runs(self, stage: Stage, feed: Feed, previous: Stage) -> Events:
        """A step that runs once for each piece."""
        adds, speech = says_more(self.ctx, stage.agent, stage.node), stage.speech
        waits = speech is not None and (speech.known.stored or speech.passage.may_vary)
        runs = Runs(self.owner, self.ctx, stage.node, text_keys(previous.node), adds=adds)
        async for piece in feed:
            async with aclosing(runs.on(piece, stage.agent, stage.seen, self.before)) as events:
                async for event in events:
                    yield event
            if speech is not None and not waits:
                for author, text in runs.grown:
                    await speech.say(author, text)
            if stage.seen.is_last:
                feed.leave()
                break
        with feed.afoot.waiting():
            await previous.ended.wait()
        for event in self._checkpoint(stage):
            yield event
        if not runs.done:
            async with aclosing(self._whole(stage)) as events:
                async for event in events:
                    yield event
            return
        for event in runs.events():
            yield event
            if speech is not None and waits:
                await speech.hear(event)
        if self.ctx.is_resumable and not stage.seen.unfinished:
            yield private.finished(stage.agent, self.ctx)
        if speech is not None and not stage.seen.is_last:
            await speech.end()

    async def _whole(self, stage: Stage) -> Events:
        """A step that got no piece, since nothing was said: it runs as behind any other step."""
        async with aclosing(self.owner.relay(stage.agent, self.ctx, stage.seen)) as events:
            async for event in events:
                yield event
                if stage.speech is not None:
                    await stage.speech.hear(event)
        if stage.speech is not None and not stage.seen.is_last:
            await stage.speech.end()
