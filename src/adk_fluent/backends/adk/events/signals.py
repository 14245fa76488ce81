"""What an event tells the composites it passes through: pause, stop, failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_fluent.backends.events import DISCARDS, SAYS
from adk_fluent.ir.tools import ASKED_BY_ADK

REFUSED: Final = "adk_fluent.refused"
"""Metadata of the final event of a gate that a person refused; everything around it ends."""

STARTS_AGAIN: Final = "adk_fluent.starts_again"
"""Metadata of a transfer to an agent around it: the name of that agent, which starts again."""

CONFIRMATION: Final = "adk_request_confirmation"
"""The function name under which ADK asks a person to confirm."""

_CUT: Final = types.FinishReason.MAX_TOKENS.value


def pauses(ctx: InvocationContext, event: Event) -> bool:
    """Whether the run stops after this event until somebody answers it.

    ADK 1.x says no for apps that are not resumable and lets later steps run unapproved; here they never do.
    """
    if not (calls := event.get_function_calls()):
        return False
    if not event.long_running_tool_ids:
        return ctx.should_pause_invocation(event)
    return any(call.id in event.long_running_tool_ids for call in calls)


def live(events: Sequence[Event]) -> list[Event]:
    """The events that no rewind annulled."""
    kept: list[Event] = []
    position = len(events) - 1
    while position >= 0:
        event = events[position]
        if undone := event.actions.rewind_before_invocation_id:
            first = next((i for i in range(position) if events[i].invocation_id == undone), position)
            position = first
        else:
            kept.append(event)
        position -= 1
    return kept[::-1]


def undone(events: Sequence[Event]) -> set[str]:
    """The runs that a rewind annulled."""
    if not any(event.actions.rewind_before_invocation_id for event in events):
        return set()
    return {event.invocation_id for event in events} - {event.invocation_id for event in live(events)}


def unanswered(events: Iterable[Event]) -> dict[str, Event]:
    """The calls that wait for somebody outside the run: id → the event that makes the call.

    A call that needed an approval and was refused waits no more, also where its tool is a long-running one.
    """
    listed = list(events)
    asked = {
        call.id: event
        for event in listed
        if event.long_running_tool_ids
        for call in event.get_function_calls()
        if call.id in event.long_running_tool_ids
    }
    given = {
        response.id: response
        for event in listed
        if event.author == "user"
        for response in event.get_function_responses()
    }
    over = given.keys() | _refused_calls(listed, given) if given else given.keys()
    return {call: event for call, event in asked.items() if call not in over}


def _refused_calls(
    events: Iterable[Event], given: Mapping[str | None, types.FunctionResponse]
) -> set[str | None]:
    """The ids of the tool calls that a person refused."""
    return {
        about_call(call)
        for event in events
        for call in event.get_function_calls()
        if call.name == CONFIRMATION and call.id in given and not approval_in(given[call.id]).confirmed
    }


def about_call(call: types.FunctionCall) -> str | None:
    """The id of the tool call for which one of ADK's calls asks."""
    arguments: Mapping[str, Any] = call.args or {} if call.name in ASKED_BY_ADK else {}
    original: object = arguments.get("originalFunctionCall")
    if isinstance(original, Mapping):
        return cast("Mapping[str, Any]", original).get("id")
    return arguments.get("functionCallId") or arguments.get("function_call_id")


class Approval(BaseModel):
    """What a person answered, read as ADK reads it for a tool.

    Attributes:
        confirmed: whether they agree.
        payload: what they gave beside that.
    """

    confirmed: bool = False
    payload: Any = None


def approval_in(response: types.FunctionResponse) -> Approval:
    """An answer, also in the form in which some clients wrap it; what cannot be read does not approve."""
    given: Mapping[str, Any] = response.response or {}
    try:
        if set(given) == {"response"}:
            return Approval.model_validate_json(given["response"])
        return Approval.model_validate(given)
    except ValidationError:
        return Approval()


def resumed(events: Iterable[Event], invocation_id: str) -> bool:
    """Whether a run has waited for a person and goes on."""
    run = (event for event in events if event.invocation_id == invocation_id)
    return any(event.author == "user" and event.get_function_responses() for event in run)


def refused(event: Event) -> bool:
    """Whether a person refused a gate, which ends the pipeline."""
    return bool(event.custom_metadata and event.custom_metadata.get(REFUSED))


def starts_again(event: Event) -> str | None:
    """The agent that starts again after this event, if one does."""
    return event.custom_metadata.get(STARTS_AGAIN) if event.custom_metadata else None


def failure(event: Event) -> str | None:
    """What went wrong, for an event that reports a failure instead of raising it.

    An answer that was cut at the token limit is still an answer.
    """
    if not (event.error_code or event.error_message) or (event.error_code == _CUT and event.content):
        return None
    return f"{event.error_code or 'error'}: {event.error_message or 'no message'}"


def note_problems(problems: dict[str, str], event: Event) -> None:
    """Keep in `problems` the failures that nothing caught: id of the event that reports one → what it is."""
    if not event.partial and (problem := failure(event)):
        problems[event.id] = problem
    if problems and event.custom_metadata:
        for withdrawn in event.custom_metadata.get(DISCARDS, ()):
            problems.pop(withdrawn, None)


def told_text(event: Event) -> str:
    """What an event says to the user: also what it keeps from other agents."""
    return spoken_text(event) or str((event.custom_metadata or {}).get(SAYS, ""))


def spoken_text(event: Event) -> str:
    """What an event says, without the model's thoughts."""
    parts = (event.content.parts if event.content else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)
