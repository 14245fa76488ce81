"""Session services that stand before the one of a run: what they are told to append goes where it belongs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session

from adk_fluent._tasks import run_to_end
from adk_fluent.backends.adk.compat import private
from adk_fluent.state.fidelity import check_storable


class SessionsOver(BaseSessionService):
    """Base of such services: all but `append_event` is as the service below has it.

    Attributes:
        below: the service that it stands before.
        is_store: whether what is appended goes to the store below; else it goes to an agent's branch first.
    """

    is_store: ClassVar[bool] = False

    def __init__(self, below: BaseSessionService) -> None:
        self.below: BaseSessionService = below

    async def create_session(self, **options: Any) -> Session:
        """As the service below."""
        return await self.below.create_session(**options)

    async def get_session(self, **options: Any) -> Session | None:
        """As the service below."""
        return await self.below.get_session(**options)

    async def list_sessions(self, **options: Any) -> Any:
        """As the service below."""
        return await self.below.list_sessions(**options)

    async def delete_session(self, **options: Any) -> None:
        """As the service below."""
        await self.below.delete_session(**options)

    async def get_user_state(self, **options: Any) -> Any:
        """As the service below; only newer ADKs ask for it."""
        return await cast(Any, self.below).get_user_state(**options)

    async def flush(self) -> None:
        """As the service below; only newer ADKs ask for it."""
        await cast(Any, self.below).flush()


class BranchSessions(SessionsOver):
    """The session service of a branch of a run."""

    def __init__(self, below: BaseSessionService, append: Callable[[Event], Awaitable[Event]]) -> None:
        super().__init__(below)
        self._append = append

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event that does not come from the agents, such as a summary that ADK writes."""
        return await self._append(event)


class OneByOne(SessionsOver):
    """A session service that stores one event after another, whoever asks it to at once.

    In a live conversation ADK stores what the user says while its runner stores what the model says.
    """

    def __init__(self, below: BaseSessionService) -> None:
        super().__init__(below)
        self._lock = asyncio.Lock()

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event when nothing else is being appended."""
        async with self._lock:
            return await run_to_end(self.below.append_event(session=session, event=event))


class StorableOnly(SessionsOver):
    """A session service for a native root agent, which takes what every session store holds.

    Agents of ours, and native ones that are steps, see to it where they write.
    """

    is_store: ClassVar[bool] = True

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event.

        Raises:
            StateTypeError: it writes a value that some session store cannot hold.
        """
        if (delta := event.actions.state_delta) and not event.partial:
            check_storable(delta, f"Agent {event.author!r} wrote")
        return await self.below.append_event(session=session, event=event)


def really(service: BaseSessionService) -> BaseSessionService:
    """The service that really keeps the sessions."""
    while isinstance(service, SessionsOver):
        service = service.below
    return service


def store(ctx: InvocationContext) -> BaseSessionService:
    """The service that really keeps the session of a run."""
    return really(ctx.session_service)


async def append(ctx: InvocationContext, event: Event) -> Event:
    """Store an event that does not come from the agents, to the end even when its branch is cancelled.

    The store may have it by then, and would refuse all that the run stores after it: the session, which knows
    nothing of it, would be older. Where ADK's runner takes events from a queue, it is left to the runner.
    """
    service = ctx.session_service
    if isinstance(service, SessionsOver) and not service.is_store:
        return await service.append_event(session=ctx.session, event=event)
    if (hand_over := private.handing_over(ctx)) is not None:
        await hand_over(event)
        return event
    return await run_to_end(service.append_event(session=ctx.session, event=event))
