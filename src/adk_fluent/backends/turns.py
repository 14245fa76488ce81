"""Conversations in one process, for backends that store none: what each turn is told of those before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from adk_fluent.backends.events import AgentEvent, Pending
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.delta import detached


def state_after(state: Mapping[str, Any], events: Iterable[AgentEvent]) -> dict[str, Any]:
    """What the state holds after a run: what it held before, and what the events wrote, in order.

    A key that was written `None` is gone. `temp:` keys live for one run. What a later fallback withdrew of
    the answers stays in the state, since it was written as it happened.

    >>> wrote = [AgentEvent("a", state_delta={"x": 1, "temp:y": 2}), AgentEvent("b", state_delta={"z": None})]
    >>> state_after({"z": 0, "user:name": "Ann"}, wrote)
    {'user:name': 'Ann', 'x': 1}
    """
    held = dict(state)
    for event in events:
        if not event.is_partial:
            held.update(event.state_delta)
    kept = {key: value for key, value in held.items() if value is not None}
    return {key: detached(value) for key, value in kept.items() if not is_temporary(key)}


def pending_after(events: Iterable[AgentEvent]) -> list[Pending]:
    """What events ask for, each once."""
    return list({asked.id: asked for event in events for asked in event.pending}.values())


def user_said(prompt: object, session_id: str = "") -> AgentEvent:
    """The event of a prompt.

    Args:
        prompt: text, a `Content`, a `Part`, or a list of texts and parts.

    Raises:
        ArgumentError: it is empty, or nothing a message can hold.

    >>> user_said("Hi").content
    'Hi'
    """
    items = _items(prompt)
    text = "".join(item if isinstance(item, str) else item.text or "" for item in items)
    parts = tuple(item for item in items if not isinstance(item, str) and item.text is None and _holds(item))
    if not (parts or text):
        raise ArgumentError(EMPTY)
    return AgentEvent("user", text or None, parts=parts, session_id=session_id)


def _holds(part: Any) -> bool:
    return bool(part.model_dump(exclude_none=True))


EMPTY: Final = "The prompt is empty; give text, or at least one part."


def no_prompt(item: object) -> ArgumentError:
    """The error for what a message cannot hold."""
    return ArgumentError(
        f"A prompt is text, a google.genai Content, or a list of texts and Parts, not {type(item).__name__}. "
        "For an image write Part.from_bytes(data=..., mime_type='image/png')."
    )


def _items(prompt: object) -> Sequence[Any]:
    """The texts and parts of a prompt; parts are told by their fields, since genai takes long to import."""
    if hasattr(type(prompt), "model_fields") and hasattr(prompt, "parts"):
        return cast("Sequence[Any]", getattr(prompt, "parts") or ())  # noqa: B009  # `object` has no `parts`
    items = cast("Sequence[Any]", prompt) if isinstance(prompt, list | tuple) else [prompt]
    for item in items:
        if not isinstance(item, str) and not hasattr(item, "inline_data"):
            raise no_prompt(item)
    return items
