"""Approvals: what a run waits for, in words for a person, and what the person answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from google.adk.events.event import Event
from google.adk.sessions import Session
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_fluent.backends.adk.events.signals import live, unanswered
from adk_fluent.backends.events import Pending, call_text
from adk_fluent.errors import ArgumentError, SessionError
from adk_fluent.ir.tools import ASKED_BY_ADK

CONFIRMATION: Final = "adk_request_confirmation"
"""The function name under which ADK asks a person to confirm."""

_FOR_PROGRAMS: Final = "FunctionResponse"
"""Stands in the hint that ADK gives for a tool that says nothing itself: it tells a client what to send."""


# --- what is asked --------------------------------------------------------------------------------


def pending_in(event: Event) -> tuple[Pending, ...]:
    """The approvals that an event asks for."""
    return tuple(_pending(event, call) for call in event.get_function_calls() if call.name == CONFIRMATION)


def _pending(event: Event, call: types.FunctionCall) -> Pending:
    arguments: Mapping[str, Any] = call.args or {}
    hint = str(_mapping(arguments.get("toolConfirmation")).get("hint") or "")
    original = _mapping(arguments.get("originalFunctionCall"))
    payload = {key: original[key] for key in ("name", "args") if key in original}
    if original and (not hint or _FOR_PROGRAMS in hint):
        hint = f"Run {call_text(payload)}?"
    return Pending(call.id or "", event.author, hint or "Approval required", payload)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Asked:
    """An approval that was asked for, and the event that asks."""

    pending: Pending
    event: Event


def waiting_in(session: Session) -> dict[str, Asked]:
    """The confirmation requests of a session that nobody answered yet, nor a rewind annulled, by id."""
    return {
        pending.id: Asked(pending, event)
        for request, event in unanswered(live(session.events)).items()
        for pending in pending_in(event)
        if pending.id == request
    }


def asked_by(session: Session, approvals: Mapping[str, Any]) -> dict[str, Asked]:
    """What the approvals answer; all of one run.

    Raises:
        SessionError: nobody waits for one of them, there is none, or they belong to different runs.
    """
    waiting = waiting_in(session)
    ids = ", ".join(map(repr, waiting)) or "nothing"
    for request in approvals:
        if request not in waiting:
            raise SessionError(f"Session {session.id!r} does not wait for {request!r}; it waits for {ids}.")
    if not approvals:
        raise SessionError(f"resume() needs approvals={{id: True}}; session {session.id!r} waits for {ids}.")
    asked = {request: waiting[request] for request in approvals}
    if len({found.event.invocation_id for found in asked.values()}) > 1:
        raise SessionError(
            f"These approvals of session {session.id!r} belong to different runs; resume one run at a time."
        )
    return asked


# --- what is answered -----------------------------------------------------------------------------


def message_of(approvals: Mapping[str, Any]) -> types.Content:
    """The user's message that answers confirmation requests.

    Args:
        approvals: id of a request → `True`, `False`, or a JSON-able payload, which approves with it.

    Raises:
        ArgumentError: an answer is `None`, or cannot be written as JSON.
    """
    return types.Content(role="user", parts=[_part(request, said) for request, said in approvals.items()])


def _part(request: str, answer: object) -> types.Part:
    if answer is None:
        raise ArgumentError(f"The approval of {request!r} is None; give True, False or a payload.")
    response: dict[str, Any] = {"confirmed": answer is not False}
    if not isinstance(answer, bool):
        try:
            response["payload"] = json.loads(json.dumps(answer))
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"The payload for {request!r} cannot be written as JSON: {error}. "
                "Give text, numbers, lists or dicts."
            ) from error
    return types.Part(
        function_response=types.FunctionResponse(id=request, name=CONFIRMATION, response=response)
    )


class Approval(BaseModel):
    """What a person answered, read as ADK reads it for a tool.

    Attributes:
        confirmed: whether they agree.
        payload: what they gave beside that.
    """

    confirmed: bool = False
    payload: Any = None


def answer_to(request: str, events: Iterable[Event]) -> Approval | None:
    """The last answer of the person to a request; `None` if there is none.

    Only what the user says counts: a tool's result may have any id that a model made up.
    """
    given: list[types.FunctionResponse] = []
    for event in events:
        if event.author == "user":
            given += [response for response in event.get_function_responses() if response.id == request]
    return _read(given[-1].response or {}) if given else None


def _read(response: Mapping[str, Any]) -> Approval:
    """An answer, also in the form in which some clients wrap it; what cannot be read does not approve."""
    try:
        if set(response) == {"response"}:
            return Approval.model_validate_json(response["response"])
        return Approval.model_validate(response)
    except ValidationError:
        return Approval()


def addressed(said: types.Content, events: Sequence[Event]) -> tuple[types.Content, str | None]:
    """A message whose answers go to what a run asks, and the name of an answer to what it has not asked.

    Args:
        said: a message that was recorded in another run, so that its answers have the ids of that.
        events: what happened in this run so far.
    """
    asked = unanswered(live(events))
    waiting = [
        call for event in asked.values() for call in event.get_function_calls() if (call.id or "") in asked
    ]
    parts: list[types.Part] = []
    stray: str | None = None
    for part in said.parts or ():
        given = part.function_response
        if given is None:
            parts.append(part)
            continue
        fitting = [call for call in waiting if call.name == given.name]
        found = next((call for call in fitting if call.id == given.id), *fitting[:1] or [None])
        if found is not None:
            waiting.remove(found)
            given = given.model_copy(update={"id": found.id})
        elif given.name in ASKED_BY_ADK:
            stray = stray or given.name
        parts.append(part.model_copy(update={"function_response": given}))
    return (said.model_copy(update={"parts": parts}) if said.parts else said), stray


def approvals_of(said: types.Content) -> dict[str, Any]:
    """Request → answer, for a message of approvals alone, as `message_of` takes them; empty for any other."""
    given = [part.function_response for part in said.parts or ()]
    if not all(one is not None and one.name == CONFIRMATION for one in given):
        return {}
    message = [Event(author="user", content=said)]
    found = {one.id: answer_to(one.id, message) for one in given if one is not None and one.id}
    return {
        request: one.payload if one.confirmed and one.payload is not None else one.confirmed
        for request, one in found.items()
        if one is not None
    }
