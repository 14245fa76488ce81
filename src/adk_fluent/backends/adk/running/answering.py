"""What keeps an approval from being given twice, as by two clicks at the same time."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from google.adk.agents.invocation_context import InvocationContext
from google.genai import types

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.events.approvals import CONFIRMATION
from adk_fluent.backends.adk.events.signals import live, unanswered
from adk_fluent.backends.adk.middleware.stack import by_hook
from adk_fluent.errors import SessionError

_Answer = tuple[str, str, str, str]

_on: Final[set[_Answer]] = set()
"""The answers of this process with which runs go on now, each with the session that it is for."""


@contextmanager
def answering(app_name: str, user_id: str, session_id: str, requests: Iterable[str]) -> Generator[None]:
    """Inside, nobody else in this process answers these requests of a session.

    Enter it before the session is read: whoever reads it later finds the answer of the first one there, and
    could only say that nothing waits.

    Raises:
        SessionError: somebody does already.
    """
    mine = {(app_name, user_id, session_id, request) for request in requests}
    if taken := mine & _on:
        raise _twice(session_id, min(taken)[-1])
    _on.update(mine)
    try:
        yield
    finally:
        _on.difference_update(mine)


def _twice(session_id: str, request: str) -> SessionError:
    return SessionError(
        f"Session {session_id!r} does not wait for {request!r} any more: another resume() has answered it, "
        "and goes on."
    )


class AnsweredOnce(AddedPlugin):
    """Refuses the answer for a tool that was answered before: ADK would run the tool once more.

    A gate knows itself that it was answered. This looks when the runner has read the session, so also at what
    other processes and ADK's own runner wrote since the one who answers did.
    """

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_answered_once")

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Refuse a message that approves a tool again, or refuses it."""
        given = [part.function_response for part in user_message.parts or () if part.function_response]
        ids = {answer.id for answer in given if answer.name == CONFIRMATION}
        if not ids:
            return
        events = live(invocation_context.session.events)
        calls = [call for event in events for call in event.get_function_calls()]
        asked = {call.id for call in calls if "originalFunctionCall" in (call.args or {})}
        if twice := sorted(map(str, ids & asked - unanswered(events).keys())):
            raise by_hook(_twice(invocation_context.session.id, twice[0]))
