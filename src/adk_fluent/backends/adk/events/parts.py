"""ADK's values of JSON again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def parts_from(parts: Iterable[Mapping[str, Any]]) -> tuple[types.Part, ...]:
    """Parts of a message."""
    return tuple(types.Part.model_validate_json(json.dumps(dict(part))) for part in parts)


def content_from(content: Mapping[str, Any]) -> types.Content:
    """A message."""
    return types.Content(role=content.get("role"), parts=list(parts_from(content.get("parts") or ())))


def response_from(response: Mapping[str, Any]) -> LlmResponse:
    """What a model answered; fields that the installed ADK does not have are left out."""
    known = {name: value for name, value in response.items() if name in LlmResponse.model_fields}
    return LlmResponse.model_validate_json(json.dumps(known))


def silence() -> LlmResponse:
    """An answer that says nothing."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="")]))


def actions_from(changes: Mapping[str, Any]) -> EventActions:
    """What a tool did; fields that the installed ADK does not have are left out."""
    known = {name: value for name, value in changes.items() if name in EventActions.model_fields}
    return EventActions.model_validate(known)


def session_event(data: Mapping[str, Any], runs: Mapping[str, str]) -> Event:
    """An event of a session; fields that the installed ADK does not have are left out.

    Args:
        runs: id of a run → the id that it has here, for an event that undoes it.
    """
    known = {name: value for name, value in data.items() if name in Event.model_fields}
    actions: Mapping[str, Any] = data.get("actions") or {}
    known["actions"] = {name: value for name, value in actions.items() if name in EventActions.model_fields}
    if (undone := actions.get(_UNDONE)) is not None:
        known["actions"][_UNDONE] = runs.get(undone, undone)
    return Event.model_validate_json(json.dumps(known))


_UNDONE: Final = "rewind_before_invocation_id"


def act(actions: EventActions, changes: Mapping[str, Any]) -> None:
    """Do what a tool did to the actions of its event, again."""
    made = actions_from(changes)
    for name in made.model_fields_set:
        value, held = getattr(made, name), getattr(actions, name)
        if isinstance(held, dict):
            held.update(value)  # pyright: ignore[reportUnknownMemberType]  # of many types
        else:
            setattr(actions, name, value)
