"""What a remote agent is sent: the conversation, or the user's message with the keys that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from adk_fluent.a2a.protocol import sdk
from adk_fluent.backends.adk.context.entries import conversation
from adk_fluent.backends.adk.events.approvals import CREDENTIAL, answer_in, answer_to
from adk_fluent.backends.adk.steps.checkpoints import is_below
from adk_fluent.backends.events import DISCARDS
from adk_fluent.ir.nodes import RemoteAgentNode
from adk_fluent.state.fidelity import type_text
from adk_fluent.state.field_types import fault


class InputError(Exception):
    """What a remote agent would be sent is not what it takes."""


def data_for(node: RemoteAgentNode, state: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a remote agent reads, as JSON, by their names without the scope.

    What is not in state is left out, unless the agent's `input_schema` requires it.

    Raises:
        InputError: a value cannot be written as JSON, or is not what `input_schema` says.
    """
    found: dict[str, Any] = {}
    for key in node.declared_reads:
        if (value := state.get(key)) is None:
            continue
        try:
            found[key.rpartition(":")[2]] = to_jsonable_python(value)
        except (PydanticSerializationError, ValueError) as error:
            raise InputError(
                f"it is not called: state key {key!r} cannot be written as JSON: {error}"
            ) from error
    schema = cast("type[BaseModel] | None", node.input_schema)
    if schema is None:
        return found
    try:
        return schema.model_validate(found).model_dump(mode="json")
    except ValidationError as error:
        raise InputError(
            f"it is not called: it takes a {type_text(schema)}, and {fault(error, found)}"
        ) from error


def context_for(node: RemoteAgentNode, ctx: InvocationContext, data: Mapping[str, Any]) -> InvocationContext:
    """The context in which ADK's agent runs, whose session holds what is to be sent, and nothing else."""
    events = _heard_by(node, ctx)
    if data:
        content = types.Content(role="user", parts=[sdk.data_part(data)])
        asked = Event(invocation_id=ctx.invocation_id, author="user", branch=ctx.branch, content=content)
        return _with(ctx, [*events, asked])
    return _with(ctx, events if _has_news(node, events) else [*events, *_asked(ctx, events)])


def _has_news(node: RemoteAgentNode, events: list[Event]) -> bool:
    """Whether anything was said since the agent last spoke; nothing is no message that can be sent."""
    for event in reversed(events):
        if event.content and event.content.parts:
            return event.author != node.name
    return False


def _asked(ctx: InvocationContext, events: list[Event]) -> list[Event]:
    """What the user said in this run."""
    said = (e for e in events if e.author == "user" and not e.get_function_responses())
    return [e for e in said if e.invocation_id == ctx.invocation_id]


def _heard_by(node: RemoteAgentNode, ctx: InvocationContext) -> list[Event]:
    events = conversation(ctx, node.name)
    withdrawn = {key for event in events for key in (event.custom_metadata or {}).get(DISCARDS, ())}
    events = [event for event in events if event.id not in withdrawn]
    if not node.declared_reads:
        return events
    asked = _asked(ctx, events)
    return [e for e in events if e.author == node.name or any(e is one for one in asked)]


def _with(ctx: InvocationContext, events: list[Event]) -> InvocationContext:
    session = ctx.session.model_copy(update={"events": events})
    return ctx.model_copy(update={"session": session})


# --- going on after a person was asked ------------------------------------------------------------


def request_in(node: RemoteAgentNode, ctx: InvocationContext) -> Event | None:
    """What the remote agent asked a person in this run, if that is the last it said."""
    run = [
        event
        for event in ctx.session.events
        if event.invocation_id == ctx.invocation_id and is_below(event, ctx.branch)
    ]
    own = [event for event in run if event.author == node.name and (event.content or event.error_message)]
    return own[-1] if own and own[-1].long_running_tool_ids else None


def answer_for(request: Event, ctx: InvocationContext) -> Event | None:
    """The person's answers to a request, and to no other; `None` if they have not answered it all."""
    ids = request.long_running_tool_ids or set[str]()
    found: dict[str, types.Part] = {}
    for event in ctx.session.events:
        for part in (event.content.parts if event.author == "user" and event.content else None) or []:
            if part.function_response is not None and part.function_response.id in ids:
                found[str(part.function_response.id)] = part
    if set(found) != ids:
        return None
    content = types.Content(role="user", parts=[*found.values()])
    return Event(invocation_id=ctx.invocation_id, author="user", branch=ctx.branch, content=content)


def answering(ctx: InvocationContext, request: Event, answer: Event) -> InvocationContext:
    """The context in which ADK's agent goes on with a task that waited for a person."""
    return _with(ctx, [_as_asked(request), _as_said(request, answer)])


def refuses(answer: Event) -> bool:
    """Whether an answer refuses what was asked."""
    return any(
        not told.confirmed
        for response in answer.get_function_responses()
        if (told := answer_to(str(response.id), [answer])) is not None
    )


INPUT_OF_OTHERS: Final = "mock_function_call_for_required_user_input"
"""The name under which ADK has a server that is not ADK's ask; it sends the answer as text."""
OF_OTHERS: Final = "remote-"
"""Begins the ids of what such servers ask."""


def _as_asked(request: Event) -> Event:
    """A request under the name that ADK knows it by."""
    copy = request.model_copy(deep=True)
    for call in copy.get_function_calls():
        if _takes_words(call):
            call.name = INPUT_OF_OTHERS
    return copy


def _as_said(request: Event, answer: Event) -> Event:
    """An answer, in words where the server takes no other, or ADK would leave it out."""
    worded = {call.id for call in request.get_function_calls() if _takes_words(call)}
    copy = answer.model_copy(deep=True)
    for response in copy.get_function_responses():
        if response.id in worded:
            given = answer_in(response)
            said = ("yes" if given else "no") if isinstance(given, bool) else given
            words = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            response.name, response.response = INPUT_OF_OTHERS, {"result": words}
    return copy


def _takes_words(call: types.FunctionCall) -> bool:
    """Whether words answer a call: that of a server that knows nothing of ADK's, or for a credential.

    Newer releases of ADK send no credential to another process, not even to the one that asks for it. A
    request that has ADK's `AuthConfig` is one of ADK's own server, which takes nothing else.
    """
    is_ours = call.name == CREDENTIAL and not {"authConfig", "auth_config"} & (call.args or {}).keys()
    return is_ours or str(call.id).startswith(OF_OTHERS)
