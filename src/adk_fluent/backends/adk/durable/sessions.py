"""The session of a run: held while it runs, kept in ADK's session service before and after."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from adk_fluent.backends.adk.compat.temporary import temporary
from adk_fluent.backends.adk.durable.steps import Json, jsonable
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.backends.adk.running.store_errors import telling_of


class HeldSession(BaseSessionService):
    """A session service for one run, which holds the one session of it.

    Args:
        opened: the session as `opened` gave it.
    """

    def __init__(self, opened: Mapping[str, Json]) -> None:
        self._session = Session.model_validate(opened["session"])
        self._there = not opened["new"]
        self._saved = len(self._session.events)

    @property
    def state(self) -> dict[str, Any]:
        """What the state holds, without what is `temp:`."""
        given = self._session.state
        return {key: value for key, value in given.items() if key not in temporary(given)}

    def unsaved(self) -> list[Json]:
        """The events that were added since the last call."""
        events = self._session.events[self._saved :]
        self._saved += len(events)
        return [jsonable(event, "an event", event.author) for event in events]

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
        event = await super().append_event(session, event)
        self._session.state.update(event.actions.state_delta)
        self._session.events.append(event)
        return event


async def opened(
    services: Services, *, app_name: str, user_id: str, session_id: str, state: Mapping[str, Any]
) -> Json:
    """A stored session, which is created with this state when missing."""
    service = services.session_service
    assert service is not None
    whose: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    with telling_of(service, session_id):
        found = await service.get_session(**whose)
        new = found is None
        if found is None:
            kept = {key: value for key, value in state.items() if key not in temporary(state)}
            found = await service.create_session(**whose, state=kept)
    return {"session": found.model_dump(mode="json", exclude_none=True), "new": new}


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
