"""ADK's values as JSON: prompts, events, sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import Session
from google.genai import types

from adk_fluent.backends.adk.durable.steps import Json, jsonable
from adk_fluent.backends.adk.events.approvals import answer_in, asked_by, message_of
from adk_fluent.backends.adk.running.backend import Compiled
from adk_fluent.backends.adk.running.convert import Prompt, to_agent_event, to_content
from adk_fluent.backends.adk.running.stored import stored
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.protocol import StoredSession
from adk_fluent.errors import RunError, on_one_line


def prompt_json(prompt: Prompt) -> Json:
    """A prompt.

    Raises:
        ArgumentError: it is empty, or nothing a message can hold.
    """
    return jsonable(to_content(prompt).model_dump(mode="json", exclude_none=True), "the prompt", "user")


def prompt_of(told: Json) -> types.Content:
    """The prompt that `prompt_json` wrote."""
    return types.Content.model_validate(told)


def event_json(event: AgentEvent) -> str:
    """An event of a run.

    Raises:
        RunError: it holds what JSON cannot.
    """
    assert event.raw is not None
    try:
        return event.raw.model_dump_json(exclude_none=True)
    except ValueError as error:
        said = on_one_line(error)
        raise RunError(
            f"{event.author!r} wrote what JSON cannot hold: {said}. State of a durable run is text, numbers, "
            "lists or dicts."
        ) from error


def event_of(told: str, compiled: Compiled, session_id: str) -> AgentEvent:
    """The event that `event_json` wrote."""
    return to_agent_event(Event.model_validate_json(told), session_id, compiled.models)


def session_of(told: Json, compiled: Compiled) -> StoredSession:
    """A stored session."""
    return stored(Session.model_validate(told), compiled.outlet)


def check_approvals(told: Json | Session, approvals: Mapping[str, Any]) -> Json:
    """Answers to what a session, or one that is told as JSON, waits for; as JSON holds them.

    Raises:
        SessionError: it does not wait for one of them.
        ArgumentError: one is not of the form that is asked for.
    """
    asked = asked_by(Session.model_validate(told), approvals)
    given = message_of(approvals, asked).parts or []
    responses = [part.function_response for part in given if part.function_response is not None]
    return {str(response.id): answer_in(response) for response in responses}
