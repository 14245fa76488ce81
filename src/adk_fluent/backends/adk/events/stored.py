"""ADK's events and messages as JSON-able data, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.adk.events.event import Event
from google.genai import types

Json = Mapping[str, Any]


def to_json(event: Event) -> Json:
    """An event as JSON-able data, without what it wrote to the state: that may be anything."""
    said = event
    if event.actions.state_delta:
        said = event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": {}})})
    return said.model_dump(mode="json", by_alias=True, exclude_none=True)


def from_json(data: Json, *, invocation_id: str = "", delta: Mapping[str, Any] | None = None) -> Event:
    """The event of JSON-able data.

    Args:
        invocation_id: the run that it belongs to here, if another than there.
        delta: what it wrote to the state.
    """
    event = Event.model_validate_json(json.dumps(data))
    if invocation_id:
        event.invocation_id = invocation_id
    if delta:
        event.actions.state_delta = dict(delta)
    return event


def message_to_json(content: types.Content | None) -> Json | None:
    """A message as JSON-able data."""
    return None if content is None else content.model_dump(mode="json", by_alias=True, exclude_none=True)


def message_from_json(data: Json | None) -> types.Content:
    """The message of JSON-able data; nothing is an empty message of the user."""
    if data is None:
        return types.Content(role="user", parts=[])
    return types.Content.model_validate_json(json.dumps(data))
