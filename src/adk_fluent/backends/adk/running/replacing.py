"""An event with what a middleware makes of it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from google.adk.events.event import Event
from google.genai import types

from adk_fluent.backends.events import AgentEvent

_KEPT: Final = frozenset({"id", "invocation_id", "timestamp", "custom_metadata"})
_CHANGEABLE: Final = ("content", "metadata", "state_delta")


def replaced(event: Event, given: AgentEvent, answer: object) -> Event:
    """A copy of `event` with what a hook changed; its identity and its metadata stay.

    Args:
        given: the event as the hook got it.
        answer: what the hook returned.

    Raises:
        TypeError: it is no event.
        ValueError: it differs in what only a native event can say.
    """
    if isinstance(answer, Event):
        changes = {name: getattr(answer, name) for name in answer.model_fields_set - _KEPT}
        return _with(event, changes, answer.custom_metadata)
    if not isinstance(answer, AgentEvent):
        raise TypeError(f"it returned {answer!r:.60}, and on_event returns an event or None")
    others = [
        field.name
        for field in fields(AgentEvent)
        if field.compare and getattr(answer, field.name) != getattr(given, field.name)
    ]
    if unknown := [name for name in others if name not in _CHANGEABLE]:
        raise ValueError(
            f"it changed {', '.join(unknown)} of an event; return a native Event to change more than "
            f"{', '.join(_CHANGEABLE)}"
        )
    changes = dict[str, Any]()
    if "content" in others:
        changes["content"] = _saying(event.content, answer.content)
    if "state_delta" in others:
        changes["actions"] = event.actions.model_copy(update={"state_delta": dict(answer.state_delta)})
    return _with(event, changes, answer.metadata)


def _with(event: Event, changes: dict[str, Any], metadata: dict[str, Any] | None) -> Event:
    """The event with changes; who should see it is said in its metadata, so none is dropped."""
    both = {**(event.custom_metadata or {}), **(metadata or {})}
    return event.model_copy(update={**changes, "custom_metadata": both or None})


def _saying(content: types.Content | None, text: str | None) -> types.Content:
    """The content with other text; what is not text, and the model's thoughts, stay."""
    new = [] if text is None else [types.Part(text=text)]
    parts = list[types.Part]()
    for part in (content and content.parts) or ():
        if part.text and not part.thought:  # the first makes room for the new one, the others go
            parts += new
            new = []
        else:
            parts.append(part)
    return types.Content(role=content.role if content else "model", parts=[*parts, *new])
