"""Native agents for nodes that run others.

Each checkpoints where it is, pauses when a child waits for a person, and goes on at the right child in a
later run, also in another process.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import aclosing
from typing import cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from pydantic import PrivateAttr

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.events.signals import failure, note_problems, pauses, refused, starts_again
from adk_fluent.backends.adk.steps.checkpoints import has_ended, since_checkpoint, start_afresh
from adk_fluent.backends.adk.steps.leaves import Events, Position, events_of, waits
from adk_fluent.backends.adk.steps.passing import Start, end_of, stretch
from adk_fluent.backends.adk.steps.per_piece import RelayingAgent
from adk_fluent.backends.adk.steps.seen import Seen
from adk_fluent.backends.adk.steps.tree import below
from adk_fluent.backends.events import DISCARDS
from adk_fluent.errors import MockError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import NO_LIMIT, LoopNode, RouteNode
from adk_fluent.ir.predicates import report_missed_label


class Composite(RelayingAgent):
    """Base of agents that run others.

    Attributes:
        _enders: names of the agents whose `escalate` ends this composite.
        _strange: names of the children through which that of an agent ends it that is in none of the tree's
            nodes: a native agent may hold and run one without having it below itself.
        _known: the names of all that is in the tree.
        _movers: names of the transfer steps after which the rest of its sequence is skipped.
        _may_restart: whether there are transfers in its tree.
    """

    _enders: frozenset[str] = PrivateAttr(default=frozenset())
    _strange: frozenset[str] = PrivateAttr(default=frozenset())
    _known: frozenset[str] = PrivateAttr(default=frozenset())
    _movers: frozenset[str] = PrivateAttr(default=frozenset())
    _may_restart: bool = PrivateAttr(default=False)

    def listen(self, enders: Iterable[str], movers: Iterable[str], *, may_restart: bool) -> None:
        """Set whose events end this composite or what is left of its sequence, or start it again."""
        self._enders, self._movers, self._may_restart = frozenset(enders), frozenset(movers), may_restart

    def _run_async_impl(self, ctx: InvocationContext) -> Events:
        # One generator fewer for each event to pass through, where nothing leads back to this composite.
        return self._run_again(ctx) if self._may_restart else self._run_once(ctx)

    async def _run_again(self, ctx: InvocationContext) -> Events:
        """The events of its runs: a transfer inside may start it again."""
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

    def listen_to_strangers(self, through: Iterable[str], known: Iterable[str]) -> None:
        """Set through which children events of agents may end this composite that are not in the tree."""
        self._strange, self._known = frozenset(through), frozenset(known)

    async def relay(self, child: BaseAgent, ctx: InvocationContext, seen: Seen) -> Events:
        """The events of one child, unchanged, noting in `seen` what they ask for."""
        async with aclosing(events_of(child, ctx)) as events:
            async for event in events:
                self._note(event, ctx, seen, child)
                yield event
        seen.paused = seen.paused or waits(child, ctx)

    def _note(self, event: Event, ctx: InvocationContext, seen: Seen, child: BaseAgent) -> None:
        """Note in `seen` what an event of a child asks for."""
        if pauses(ctx, event):
            seen.paused = True
        note_problems(seen.problems, event)
        self._note_exits(event, seen, child)

    def _note_exits(self, event: Event, seen: Seen, child: BaseAgent) -> None:
        """Note in `seen` what an event ends."""
        if self.is_ended_by(event, child):
            seen.stop = True
        if event.actions.transfer_to_agent and event.author in self._movers:
            seen.skip = True
        if event.custom_metadata and (refused(event) or self._is_left(event)):
            seen.stop = True

    def is_ended_by(self, event: Event, child: BaseAgent) -> bool:
        """Whether an event of a child asks to end this composite."""
        if not event.actions.escalate:
            return False
        return event.author in self._enders or (
            child.name in self._strange and event.author not in self._known
        )

    def _is_left(self, event: Event) -> bool:
        """Whether this composite, or something around it, starts again."""
        name = starts_again(event)
        above: BaseAgent | None = self
        while name and above is not None and above.name != name:
            above = above.parent_agent
        return bool(name) and above is not None

    def start(self, ctx: InvocationContext) -> Start:
        """Where to begin: where an earlier run stopped, as its checkpoint and the events since then tell."""
        position = private.load_state(self, ctx, Position)
        if position is None:
            return Start()
        names = [agent.name for agent in self.sub_agents]
        if position.child not in names:  # the pipeline was changed while the run was paused
            return Start(rounds=position.round)
        index = names.index(position.child)
        child, passed = self.sub_agents[index], since_checkpoint(ctx, self)
        if not passed:
            start_afresh(ctx, child)
        seen = Seen()
        for event in passed:
            self._note_exits(event, seen, child)
        return Start(index, True, position.round, passed, has_ended(child, passed), seen)

    async def in_order(self, ctx: InvocationContext, start: Start) -> Events:
        """The events of one child after another, from where to start on, noted in `start.seen`."""
        resuming, seen, through = start.resuming, start.seen, -1
        passages, resumable = self.passages, ctx.is_resumable
        for index, child in enumerate(self.sub_agents[start.index :], start.index):
            if index <= through:
                continue
            in_pieces = passages and (
                index in passages or index - 1 in passages
            )  # gives its answer so, or takes it
            if in_pieces and not (resuming and start.ended and index not in passages):
                through = end_of(passages, index)
                async with aclosing(stretch(self, ctx, start, index).run()) as events:
                    async for event in events:
                        yield event
            else:
                if resumable and not resuming:
                    yield private.checkpoint(self, ctx, Position(child=child.name, round=start.rounds))
                if not (resuming and start.ended):
                    # As `relay`, without one more generator for each event to pass through.
                    async with aclosing(events_of(child, ctx)) as run:
                        async for event in run:
                            yield event
                            self._note(event, ctx, seen, child)
                    seen.paused = seen.paused or waits(child, ctx)
            resuming = False
            if seen.is_last:
                return

    async def only(
        self, child: BaseAgent, ctx: InvocationContext, start: Start, branch: InvocationContext | None = None
    ) -> Events:
        """The events of one child, and the checkpoints around it, noted in `start.seen`.

        Args:
            branch: where the child runs, if not where this composite does.
        """
        if ctx.is_resumable and not start.resuming:
            yield private.checkpoint(self, ctx, Position(child=child.name))
        if not start.ended:
            async with aclosing(self.relay(child, branch or ctx, start.seen)) as events:
                async for event in events:
                    yield event
        if ctx.is_resumable and not start.seen.unfinished:
            yield private.finished(self, ctx)


class SequentialComposite(Composite):
    """Runs its children in order."""

    def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        run = self.in_order(ctx, start)
        return self._finishing(run, ctx, start) if ctx.is_resumable else run

    async def _finishing(self, run: Events, ctx: InvocationContext, start: Start) -> Events:
        """The events of a run, and the checkpoint after the last one."""
        async with aclosing(run) as events:
            async for event in events:
                yield event
        if not start.seen.unfinished:
            yield private.finished(self, ctx)


class LoopComposite(Composite):
    """Runs its children in order, round after round.

    Attributes:
        max_iterations: how many rounds there are at most; without a limit if `None`, as in ADK's `LoopAgent`.
    """

    max_iterations: int | None = LoopNode.max_iterations

    def current_node(self) -> Node:
        """The node it was made from, with what was changed since."""
        limit = NO_LIMIT if self.max_iterations is None else self.max_iterations
        node = cast(LoopNode, super().current_node())
        return node if limit == node.max_iterations else node.replace(max_iterations=limit)

    async def _run_once(self, ctx: InvocationContext) -> Events:
        until = cast(LoopNode, self._ir).until
        start = self.start(ctx)
        while self.max_iterations is None or start.rounds < self.max_iterations:
            async with aclosing(self.in_order(ctx, start)) as events:
                async for event in events:
                    yield event
            if start.seen.unfinished:
                return
            if ctx.is_resumable:
                ctx.reset_sub_agent_states(self.name)
            if start.seen.stop or (until is not None and await self.holds(until, ctx)):
                break
            start = Start(rounds=start.rounds + 1)
        if ctx.is_resumable:
            yield private.finished(self, ctx)


class RouteComposite(Composite):
    """Runs the branch that the state chooses."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        branch = self.sub_agents[start.index] if start.resuming else await self._choose(ctx)
        if branch is None:
            return
        async with aclosing(self.only(branch, ctx, start)) as events:
            async for event in events:
                yield event

    async def _choose(self, ctx: InvocationContext) -> BaseAgent | None:
        node = cast(RouteNode, self._ir)
        for (test, _), branch in zip(node.rules, self.sub_agents, strict=False):
            if await self.holds(test, ctx):
                return branch
        report_missed_label(self.name, (test for test, _ in node.rules), state_of(ctx))
        return self.sub_agents[-1] if node.default is not None else None


class FallbackComposite(Composite):
    """Runs its children in order until one succeeds."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        start = self.start(ctx)
        for child in self.sub_agents[start.index :]:
            said = [event.id for event in start.passed if event.content and event.author != "user"]
            problem, is_last = None, child is self.sub_agents[-1]
            try:
                async with aclosing(self.only(child, ctx, start)) as events:
                    async for event in events:
                        said += [event.id] * bool((event.content or failure(event)) and not event.partial)
                        yield event
            except MockError:  # the test's script is wrong, not the branch
                raise
            except Exception as error:
                if is_last:
                    raise
                problem = f"{type(error).__name__}: {error}"
            problem = problem or start.seen.problem
            if problem is None or is_last:
                return
            yield self.event(ctx, metadata={DISCARDS: said, "adk_fluent.failed": {child.name: problem}})
            start = Start()
