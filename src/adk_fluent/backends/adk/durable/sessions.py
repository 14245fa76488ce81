"""The session of a run: held while it runs, kept in ADK's session service before and after."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from adk_fluent.backends.adk.compat.temporary import temporary
from adk_fluent.backends.adk.durable.steps import Json, jsonable
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.backends.adk.running.store_errors import telling_of


class HeldSession(BaseSessionService):
    """A session service for one run, which holds the one session of it.

    Args:
        opened: the session as `opened` gave it.
        going_on: the `temp:` state with which the run goes on.
        thins: whether a note of where an agent is goes when the agent makes another one.

    Attributes:
        notes: the ids of these notes: events that tell nothing else.
    """

    def __init__(
        self,
        opened: Mapping[str, Json],
        going_on: Mapping[str, Json] = MappingProxyType({}),
        *,
        thins: bool = False,
    ) -> None:
        self._session = Session.model_validate(opened["session"])
        self._session.state.update(going_on)
        self._running = self._session
        self.notes: set[str] = set()
        self._thins, self._last = thins, dict[str, str]()
        self._there = not opened["new"]
        self._saved = len(self._session.events)

    @property
    def session(self) -> Session:
        """The session, to look at."""
        return self._session

    @property
    def state(self) -> dict[str, Any]:
        """What the state holds, without what is `temp:`."""
        given = self._session.state
        return {key: value for key, value in given.items() if key not in temporary(given)}

    @property
    def temporary(self) -> dict[str, Any]:
        """What is `temp:` in the state, which is that of the run alone."""
        return temporary(self._running.state)

    def unsaved(self, *, notes: bool) -> list[Json]:
        """The events that were added since the last call.

        Args:
            notes: whether the notes are wanted, too.
        """
        events = self._session.events[self._saved :]
        self._saved += len(events)
        self._last.clear()
        wanted = [event for event in events if notes or event.id not in self.notes]
        return [jsonable(event, "an event", event.author) for event in wanted]

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """The session, which was created when it was opened."""
        self._there = True
        return copy.deepcopy(self._session)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session, once ADK has created it."""
        return copy.deepcopy(self._session) if self._there and session_id == self._session.id else None

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The one session."""
        return ListSessionsResponse(sessions=[self._session])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """The worker deletes sessions."""

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event to the session of the run, and to the one held."""
        if event.partial:
            return event
        if _is_note(event):
            self.notes.add(event.id)
            if self._thins and (void := self._last.get(event.author)):
                _drop(session.events, void)
                _drop(self._session.events, void)
            self._last[event.author] = event.id
        event = await super().append_event(session, event)
        self._running = session
        self._session.state.update(event.actions.state_delta)
        self._session.events.append(event)
        return event


def _is_note(event: Event) -> bool:
    actions = event.actions
    tells = actions.agent_state is not None or bool(actions.end_of_agent)
    return tells and event.content is None and not actions.state_delta


def _drop(events: list[Event], name: str) -> None:
    """Leave out an event, which is one of the last."""
    for index in range(len(events) - 1, -1, -1):
        if events[index].id == name:
            del events[index]
            return


async def opened(
    services: Services, *, app_name: str, user_id: str, session_id: str, state: Mapping[str, Any]
) -> Json:
    """A stored session, created with this state when missing, and whether it outlasts the process."""
    service = services.session_service
    assert service is not None
    whose: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    with telling_of(service, session_id):
        found = await service.get_session(**whose)
        new = found is None
        if found is None:
            kept = {key: value for key, value in state.items() if key not in temporary(state)}
            found = await service.create_session(**whose, state=kept)
    stays = not isinstance(service, InMemorySessionService)
    return {"session": found.model_dump(mode="json", exclude_none=True), "new": new, "stays": stays}


async def saved(
    services: Services, *, app_name: str, user_id: str, session_id: str, events: list[Json]
) -> None:
    """Add those events to a stored session that it does not have yet."""
    service = services.session_service
    assert service is not None
    with telling_of(service, session_id):
        found = await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if found is None:  # somebody deleted it meanwhile
            return
        known = {event.id for event in found.events}
        for event in map(Event.model_validate, events):
            if event.id not in known:
                await service.append_event(found, event)
