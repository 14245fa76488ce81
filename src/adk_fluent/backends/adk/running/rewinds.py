"""Rewinds: the state and the files of a session as they were before a run.

ADK's own rewind puts the state together from the events before the run. The state that a session was created
with is on no event, so ADK removes it. In the place of a file that was new, ADK leaves an empty version, and
listings still name it. What belongs to the user or the app, and so to other sessions too, stays, as in ADK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext, new_invocation_context_id
from google.adk.artifacts import BaseArtifactService
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.artifacts.files import Files
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.branch_sessions import really
from adk_fluent.backends.adk.events.signals import live
from adk_fluent.backends.adk.steps.shrinking import removed_before
from adk_fluent.backends.events import BEGINNING
from adk_fluent.ir.state_keys import is_session_scoped


class Beginnings(AddedPlugin):
    """Notes the state that a session was created with, on an event before all others.

    The event says it in its metadata: as a change of the state it could undo what another run, which begins
    in the session at the same time, has written meanwhile.
    """

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_beginnings")

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Note it before the first message is stored."""
        await self._note(invocation_context)

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note it before a live conversation, which has no first message."""
        await self._note(invocation_context)

    async def _note(self, ctx: InvocationContext) -> None:
        session = ctx.session
        if session.events or private.caller(ctx) is not None:  # an agent that is a tool has no rewinds
            return
        if state := {key: value for key, value in session.state.items() if is_session_scoped(key)}:
            event = Event(
                invocation_id=ctx.invocation_id,
                author="user",
                custom_metadata={BEGINNING: deepcopy(state)},
            )
            await ctx.session_service.append_event(session=session, event=event)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A session, and where its files are."""

    session: Session
    artifact_service: BaseArtifactService | None


async def rewound(
    session: Session, before: str, sessions: BaseSessionService, artifacts: BaseArtifactService | None
) -> None:
    """Undo a run of a session, and all after it, as ADK marks it: by an event that says so.

    Args:
        before: the `invocation_id` of the run.

    Raises:
        ArtifactError: the artifact service failed; the state is not changed then.
    """
    position = next(i for i, event in enumerate(session.events) if event.invocation_id == before)
    files = {} if artifacts is None else await _files_before(_Stored(session, artifacts), position)
    event = Event(
        invocation_id=new_invocation_context_id(),
        author="user",
        actions=EventActions(
            rewind_before_invocation_id=before,
            state_delta=_changes(session, position),
            artifact_delta=files,
        ),
    )
    if (removed := removed_before(event, session.state, type(really(sessions)))) is not None:
        await sessions.append_event(session=session, event=removed)
    await sessions.append_event(session=session, event=event)


def _changes(session: Session, position: int) -> dict[str, Any]:
    """What to write so that the session's own state is what it was before the event at a position.

    `None` removes a key. A key that no later event has written is still what it was.
    """
    events = session.events
    later = {key for event in events[position:] for key in event.actions.state_delta}
    before = {**_beginning(events), **_written(events[:position])}
    return {
        key: deepcopy(before.get(key))
        for key in sorted(later)
        if is_session_scoped(key) and (key in before or session.state.get(key) is not None)
    }


def _beginning(events: Sequence[Event]) -> Mapping[str, Any]:
    noted = (event.custom_metadata or {} for event in events)
    found: Any = next((metadata[BEGINNING] for metadata in noted if BEGINNING in metadata), None)
    return cast("Mapping[str, Any]", found or {})


def _written(events: Sequence[Event]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for event in events:
        state.update(event.actions.state_delta)
    return state


async def _files_before(stored: _Stored, position: int) -> dict[str, int]:
    """Take back the session's files that runs from a position on have saved.

    Returns:
        Filename → the version that holds the earlier content now, of those files that had any.
    """
    first: dict[str, int] = {}
    for event in live(stored.session.events[position:]):
        for filename, version in event.actions.artifact_delta.items():
            first[filename] = min(version, first.get(filename, version))
    files = Files(stored, "rewind()")
    taken = {
        filename: await files.take_back(filename, version)
        for filename, version in first.items()
        if not filename.startswith("user:")
    }
    return {filename: version for filename, version in taken.items() if version is not None}
