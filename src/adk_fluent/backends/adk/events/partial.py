"""The session of a segment, which holds a part of the session it works for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import ListSessionsResponse


class PartOfSession(BaseSessionService):
    """Holds the one session of a segment, with what crossed of the session that it works for.

    Nobody else knows that session, and it ends with the run of the segment. So it is given as it is, where a
    store for many gives a copy to each.

    Args:
        session: the session, with what was said in earlier runs.
        said: what earlier segments of this run said, which comes behind the message of the user.
        known: the keys that crossed if that session had them; `None` if all of its state did. Of any other
            key a segment cannot know whether it is there, so that it says that it is gone in any case.
    """

    def __init__(
        self, session: Session, said: Sequence[Event] = (), known: Iterable[str] | None = None
    ) -> None:
        self._session, self._said = session, said
        self.known: frozenset[str] | None = None if known is None else frozenset(known)

    async def create_session(self, **asked: Any) -> Session:
        """The session, which is there."""
        return self._session

    async def get_session(self, **asked: Any) -> Session | None:
        """The session, if it is the one that is asked for."""
        return self._session if asked["session_id"] == self._session.id else None

    async def list_sessions(self, **asked: Any) -> ListSessionsResponse:
        """The session."""
        return ListSessionsResponse(sessions=[self._session])

    async def delete_session(self, **asked: Any) -> None:
        """Nothing: the session ends with the run."""

    async def append_event(self, session: Session, event: Event) -> Event:
        """Put an event into the session; behind the message of the user, what earlier segments said."""
        added = await super().append_event(session, event)
        if self._said and event.author == "user" and event.content:
            session.events += [
                told.model_copy(update={"invocation_id": event.invocation_id}) for told in self._said
            ]
            self._said = ()
        return added
