"""Native agents for nodes that run others.

Each checkpoints where it is, pauses when a child waits for a person, and goes on at the right child in a
later run, also in another process.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from pydantic import BaseModel, Field, PrivateAttr

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.concurrency import apart, cancel, interleave, on_branch, record
from adk_fluent.backends.adk.leaves import Events, FluentAgent, Position, below, waits
from adk_fluent.backends.adk.signals import failure, pauses, refused, starts_again
from adk_fluent.backends.adk.temporary import with_temporary
from adk_fluent.backends.events import DISCARDS
from adk_fluent.ir.nodes import LoopNode, RouteNode


@dataclass(slots=True)
class Seen:
    """What the events of a child told so far.

    Attributes:
        paused: it waits for a person.
        stop: nothing runs after it.
        skip: the rest of the sequence, or of a loop's round, is skipped.
    """

    paused: bool = False
    stop: bool = False
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Where a composite begins.

    Attributes:
        index: the child to begin with.
        resuming: whether a paused run goes on.
        position: what was stored.
    """

    index: int = 0
    resuming: bool = False
    position: Position = field(default_factory=Position)


class Composite(FluentAgent):
    """Base of agents that run others.

    Attributes:
        _enders: names of the agents whose `escalate` ends this composite.
        _movers: names of the transfer steps after which the rest of its sequence is skipped.
    """

    _enders: frozenset[str] = PrivateAttr(default=frozenset())
    _movers: frozenset[str] = PrivateAttr(default=frozenset())

    def listen(self, enders: Iterable[str], movers: Iterable[str]) -> None:
        """Set whose events end this composite, or the rest of what it runs in order."""
        self._enders, self._movers = frozenset(enders), frozenset(movers)

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        again = True
        while again:
            again = False
            async with aclosing(self._run_once(ctx)) as events:
                async for event in events:
                    yield event
                    again = again or starts_again(event) == self.name
            if again and ctx.is_resumable:
                for agent in below(self):
                    ctx.set_agent_state(agent.name)

    @abstractmethod
    def _run_once(self, ctx: InvocationContext) -> Events:
        """Run the children, each as often as this kind of composite does."""

    async def relay(self, child: BaseAgent, ctx: InvocationContext, seen: Seen) -> Events:
        """The events of one child, unchanged, noting in `seen` what they ask for."""
        async with aclosing(child.run_async(ctx)) as events:
            async for event in events:
                yield event
                self._note(event, ctx, seen)
        seen.paused = seen.paused or waits(child, ctx)

    def _note(self, event: Event, ctx: InvocationContext, seen: Seen) -> None:
        """Note in `seen` what an event asks for."""
        actions = event.actions
        if pauses(ctx, event):
            seen.paused = True
        if actions.escalate and event.author in self._enders:
            seen.stop = True
        if actions.transfer_to_agent and event.author in self._movers:
            seen.skip = True
        if event.custom_metadata and (refused(event) or self._is_left(event)):
            seen.stop = True

    def _is_left(self, event: Event) -> bool:
        """Whether this composite, or something around it, starts again."""
        name = starts_again(event)
        above: BaseAgent | None = self
        while name and above is not None and above.name != name:
            above = above.parent_agent
        return bool(name) and above is not None

    def start(self, ctx: InvocationContext) -> Start:
        """Where to begin."""
        position = private.load_state(self, ctx, Position)
        if position is None:
            return Start()
        names = [agent.name for agent in self.sub_agents]
        if position.child not in names:  # the pipeline was changed while the run was paused
            return Start(position=Position(round=position.round))
        return Start(names.index(position.child), True, position)

    async def in_order(self, ctx: InvocationContext, start: Start, seen: Seen) -> Events:
        """The events of the children from `start` on, one child after another."""
        resuming, done = start.resuming, start.position.round
        for child in self.sub_agents[start.index :]:
            if ctx.is_resumable and not resuming:
                yield private.checkpoint(self, ctx, Position(child=child.name, round=done))
            resuming = False
            async with aclosing(child.run_async(ctx)) as events:  # as `relay`, without one more generator
                async for event in events:
                    yield event
                    self._note(event, ctx, seen)
            seen.paused = seen.paused or waits(child, ctx)
            if seen.paused:
                if ctx.is_resumable and (
                    seen.stop or seen.skip
                ):  # said by a branch beside the one that waits
                    position = Position(child=child.name, round=done, stop=seen.stop, skip=seen.skip)
                    yield private.checkpoint(self, ctx, position)
                return
            if seen.stop or seen.skip:
                return


class SequentialComposite(Composite):
    """Runs its children in order."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        seen = Seen(stop=start.position.stop, skip=start.position.skip)
        async with aclosing(self.in_order(ctx, start, seen)) as events:
            async for event in events:
                yield event
        if ctx.is_resumable and not seen.paused:
            yield private.finished(self, ctx)


class LoopComposite(Composite):
    """Runs its children in order, round after round."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        node = cast(LoopNode, self._ir)
        start = self.start(ctx)
        for done in range(start.position.round, node.max_iterations):
            seen = Seen(stop=start.position.stop, skip=start.position.skip)
            async with aclosing(self.in_order(ctx, start, seen)) as events:
                async for event in events:
                    yield event
            if seen.paused:
                return
            if ctx.is_resumable:
                ctx.reset_sub_agent_states(self.name)
            if seen.stop or (node.until is not None and await self.holds(node.until, ctx)):
                break
            start = Start(position=Position(round=done + 1))
        if ctx.is_resumable:
            yield private.finished(self, ctx)


class RouteComposite(Composite):
    """Runs the branch that the state chooses."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        branch = self.sub_agents[start.index] if start.resuming else await self._choose(ctx)
        if branch is None:
            return
        if ctx.is_resumable and not start.resuming:
            yield private.checkpoint(self, ctx, Position(child=branch.name))
        seen = Seen()
        async with aclosing(self.relay(branch, ctx, seen)) as events:
            async for event in events:
                yield event
        if ctx.is_resumable and not seen.paused:
            yield private.finished(self, ctx)

    async def _choose(self, ctx: InvocationContext) -> BaseAgent | None:
        node = cast(RouteNode, self._ir)
        for (test, _), branch in zip(node.rules, self.sub_agents, strict=False):
            if await self.holds(test, ctx):
                return branch
        return self.sub_agents[-1] if node.default is not None else None


class FallbackComposite(Composite):
    """Runs its children in order until one succeeds."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        resuming = start.resuming
        for child in self.sub_agents[start.index :]:
            if ctx.is_resumable and not resuming:
                yield private.checkpoint(self, ctx, Position(child=child.name))
            resuming = False
            seen, said, problem = Seen(), list[str](), None
            is_last = child is self.sub_agents[-1]
            try:
                async with aclosing(self.relay(child, ctx, seen)) as events:
                    async for event in events:
                        said += [event.id] * bool((event.content or failure(event)) and not event.partial)
                        yield event
                        if not is_last and (problem := failure(event)):
                            break
            except Exception as error:
                if is_last:
                    raise
                problem = f"{type(error).__name__}: {error}"
            if seen.paused:
                return
            if problem is None:
                break
            yield self.event(ctx, metadata={DISCARDS: said, "adk_fluent.failed": {child.name: problem}})
        if ctx.is_resumable:
            yield private.finished(self, ctx)


@dataclass(slots=True)
class Attempt:
    """What one branch of a race did, apart from the session."""

    events: list[Event]
    paused: bool = False
    problem: str | None = None


class RaceComposite(Composite):
    """Runs its children at once, each apart from the session, and passes on only what the winner did."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        if start.resuming:  # the winner paused; only it goes on
            winner = self.sub_agents[start.index]
            seen = Seen()
            async with aclosing(
                self.relay(winner, on_branch(ctx, f"{self.name}.{winner.name}"), seen)
            ) as events:
                async for event in events:
                    yield event
            if not seen.paused:
                yield private.finished(self, ctx)
            return
        winner, attempt = await self._race(ctx)
        if ctx.is_resumable and attempt.paused:
            yield private.checkpoint(self, ctx, Position(child=winner.name))
        for event in attempt.events:
            yield with_temporary(ctx, event)
        if ctx.is_resumable and not attempt.paused:
            yield private.finished(self, ctx)

    async def _race(self, ctx: InvocationContext) -> tuple[BaseAgent, Attempt]:
        """The first branch to succeed; else the first that waits for a person; else the first failure."""
        tasks = {asyncio.ensure_future(self._attempt(child, ctx)): child for child in self.sub_agents}
        ended: dict[str, asyncio.Task[Attempt]] = {}
        try:
            running = set(tasks)
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):
                    ended[tasks[task].name] = task
                    if not _raised(task) and not (task.result().paused or task.result().problem):
                        return tasks[task], task.result()
        finally:
            await cancel(list(tasks))
        order = [(child, ended[child.name]) for child in self.sub_agents]
        for child, task in order:
            if not _raised(task) and task.result().paused:
                return child, task.result()
        child, task = next((entry for entry in order if _raised(entry[1])), order[0])
        return child, task.result()  # raises what the branch raised, as it is

    async def _attempt(self, child: BaseAgent, ctx: InvocationContext) -> Attempt:
        attempt, seen = Attempt([]), Seen()
        context = apart(ctx, f"{self.name}.{child.name}")
        async with aclosing(self.relay(child, context, seen)) as events:
            async for event in events:
                if not event.partial:
                    record(context, event)
                    attempt.events.append(event)
                    attempt.problem = attempt.problem or failure(event)
        attempt.paused = seen.paused
        return attempt


def _raised(task: asyncio.Task[Attempt]) -> bool:
    """Whether a branch that ended did so by an exception; a cancellation from inside it is one."""
    return task.cancelled() or task.exception() is not None


class FanOutState(BaseModel):
    """Which branches are done."""

    done: list[str] = Field(default_factory=list[str])


class FanOutComposite(Composite):
    """Runs its children at once, each on a conversation branch of its own."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        state = private.load_state(self, ctx, FanOutState)
        if ctx.is_resumable and state is None:
            yield private.checkpoint(self, ctx, FanOutState())
        done = list(state.done) if state else []
        children = [child for child in self.sub_agents if child.name not in done]
        seen = [Seen() for _ in children]
        sources = [
            self.relay(child, on_branch(ctx, f"{self.name}.{child.name}"), noted)
            for child, noted in zip(children, seen, strict=True)
        ]
        async with aclosing(interleave(sources)) as events:
            async for index, event in events:
                if event is not None:
                    yield event
                elif ctx.is_resumable and not seen[index].paused:
                    done.append(children[index].name)
                    yield private.checkpoint(self, ctx, FanOutState(done=done))
        if ctx.is_resumable and not any(noted.paused for noted in seen):
            yield private.finished(self, ctx)
