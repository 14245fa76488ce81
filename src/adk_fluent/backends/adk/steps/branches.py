"""What branches of a run see of the session, and what of theirs reaches it.

The branches of a fan-out share the session. An item of a map reads the state as it was when the map began,
with its own writes and its item laid over it; its events take ADK's way like all others. A branch of a race
keeps all to itself until it has won.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.events.asides import inside_tool
from adk_fluent.backends.adk.events.branch_sessions import BranchSessions, append
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.steps.checkpoints import states_from
from adk_fluent.backends.adk.steps.once import already_seen
from adk_fluent.backends.afoot import Afoot
from adk_fluent.state.delta import detached


def on_branch(ctx: InvocationContext, name: str) -> InvocationContext:
    """The context on a conversation branch below the current one, so siblings do not see each other."""
    return ctx.model_copy(update={"branch": branch_below(ctx, name)})


def branch_below(ctx: InvocationContext, name: str) -> str:
    """The name of a conversation branch below the current one."""
    return f"{ctx.branch}.{name}" if ctx.branch else name


class Overlay(dict[str, Any]):
    """State as one branch sees it: what was there, and its own changes, which nobody else sees.

    A container that was there is copied when it is first read, so that not even a change inside it is seen
    elsewhere. What cannot be copied, such as a lock, is shared.
    """

    def __init__(self, below: dict[str, Any], /, **laid_over: Any) -> None:
        super().__init__(below, **laid_over)
        self._shared = {key for key in below if key not in laid_over}

    def __getitem__(self, key: str) -> Any:
        if key in self._shared:
            self._shared.discard(key)
            super().__setitem__(key, detached(super().__getitem__(key)))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`."""
        return self[key] if key in self else default  # noqa: SIM401  # dict's own would not detach it

    def __setitem__(self, key: str, value: Any) -> None:
        self._shared.discard(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._shared.discard(key)
        super().__delitem__(key)

    def __iter__(self) -> Iterator[str]:
        # With an `__iter__` of its own, all that copies or merges a dict asks for each value.
        return super().__iter__()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value, which is set to `default` first where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        """The value, which is taken out."""
        self.get(key)
        return super().pop(key, *default)

    def update(self, /, *others: Any, **values: Any) -> None:
        """Set several."""
        for key, value in dict(*others, **values).items():
            self[key] = value

    def values(self) -> Any:
        """The values, none of them shared."""
        self._detach()
        return super().values()

    def items(self) -> Any:
        """Keys and values, none of them shared."""
        self._detach()
        return super().items()

    def _detach(self) -> None:
        for key in tuple(self._shared):
            self[key]


class Turns:
    """Lets what branches store themselves take turns with what the run stores of their events.

    Beside the events of agents, which the runner stores, ADK stores summaries, from inside the agent that it
    asks next. A store refuses what is written from a session older than its own; so of two that are stored at
    once, the second would be. Whoever gives out events of the branches holds `lock` meanwhile, as the runner
    stores an event before it asks for the next one.

    Args:
        ctx: where the composite runs.

    Attributes:
        ctx: the same for its branches.
        lock: held while something is stored.
    """

    def __init__(self, ctx: InvocationContext) -> None:
        self._outer = ctx
        self._afoot = runs.afoot(ctx) or Afoot()
        self.lock: asyncio.Lock = asyncio.Lock()
        service = BranchSessions(ctx.session_service, self._append)
        self.ctx: InvocationContext = ctx.model_copy(update={"session_service": service})

    async def _append(self, event: Event) -> Event:
        with self._afoot.waiting():
            await self.lock.acquire()
        try:
            return await append(self._outer, event)
        finally:
            self.lock.release()


def in_graph(ctx: InvocationContext) -> InvocationContext:
    """The context of a node of a graph: what is appended in it goes to the runner, as all that nodes give."""
    sessions = BranchSessions(ctx.session_service, partial(append, ctx))
    return ctx.model_copy(update={"session_service": sessions})


class Item:
    """A branch whose events take ADK's way, with state of its own laid over the session's.

    Args:
        ctx: where the composite runs.
        name: the branch.
        below: the state that was there when the composite began.
        laid_over: keys that only the branch has.
        passed: what happened on the branch in an earlier part of the run, when it goes on.
    """

    def __init__(
        self,
        ctx: InvocationContext,
        name: str,
        below: dict[str, Any],
        laid_over: dict[str, Any],
        passed: Iterable[Event] = (),
    ) -> None:
        self._outer = ctx
        self.events: list[Event] = list(passed)
        self._state = Overlay(below, **laid_over)
        for event in self.events:
            self._state.update(event.actions.state_delta)
        session = ctx.session.model_copy(update={"state": self._state})
        self.ctx: InvocationContext = states_from(
            ctx.model_copy(
                update={
                    "branch": branch_below(ctx, name),
                    "session": session,
                    "session_service": BranchSessions(ctx.session_service, self._append),
                }
            ),
            self.events,
        )

    async def _append(self, event: Event) -> Event:
        return await append(self._outer, event)

    def offer(self, event: Event) -> Event:
        """An event that is to be passed on; its `temp:` keys hold at once, since stores leave them out."""
        return with_temporary(self.ctx, event)

    def follow(self, event: Event) -> None:
        """Take over an event that the run has passed on: what was stored, which plugins may have changed."""
        if event.partial:
            return
        self.ctx.session.events = self._outer.session.events
        stored = find(self.ctx.session.events, event)
        self.events.append(stored)
        self._state.update(stored.actions.state_delta)


def find(events: list[Event], event: Event) -> Event:
    """The event as it was stored; itself, where it was not."""
    return next((stored for stored in reversed(events) if stored.id == event.id), event)


class Attempt:
    """What runs apart, as a branch of a race: nothing of it reaches the session until that is decided.

    Its events pass the plugins as they happen, and the branch sees what came out, as it would in the session.

    Args:
        ctx: where the composite runs.
        name: the branch; by default that of the composite.
        events: the conversation that it sees; by default that of the session.
        state: the state that it sees; likewise.
    """

    def __init__(
        self,
        ctx: InvocationContext,
        name: str = "",
        *,
        events: list[Event] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.events: list[Event] = []
        self._beside: dict[str, Any] = {}
        session = ctx.session.model_copy(
            update={
                "events": list(ctx.session.events if events is None else events),
                "state": Overlay(ctx.session.state if state is None else state),
            }
        )
        self.ctx: InvocationContext = ctx.model_copy(
            update={
                "branch": branch_below(ctx, name) if name else ctx.branch,
                "session": session,
                "session_service": BranchSessions(ctx.session_service, self._append),
                "agent_states": {},
                "end_of_agents": {},
            }
        )

    async def _append(self, event: Event) -> Event:
        if not event.partial:
            self._take(event)
            self._beside.update(event.actions.state_delta)
        return event

    def _take(self, event: Event) -> None:
        self.ctx.session.state.update(event.actions.state_delta)
        self.ctx.session.events.append(event)

    async def hear(self, event: Event) -> None:
        """Keep an event of the branch."""
        if event.partial:
            return
        if not inside_tool(self.ctx):
            event = await private.through_plugins(self.ctx, event)
            runs.heard_apart(self.ctx, event)
        if self._beside:  # what hooks wrote when they were asked about it
            delta = {**self._beside, **event.actions.state_delta}
            self._beside.clear()
            event = event.model_copy(
                update={"actions": event.actions.model_copy(update={"state_delta": delta})}
            )
        self._take(event)
        self.events.append(event)

    def pass_on(self) -> Iterator[Event]:
        """What the branch did, to be given out now that it has won.

        Stores order events by their time, so they get the time at which the session hears of them.
        """
        already_seen(self.ctx, self.events)
        for event in self.events:
            yield event.model_copy(update={"timestamp": time.time()})
