"""What a run waits for, in words for those outside it, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from google.adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
)
from google.adk.auth.auth_tool import AuthConfig, AuthToolArguments
from google.adk.events.event import Event
from google.adk.sessions import Session
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.signals import (
    CONFIRMATION,
    Approval,
    about_call,
    approval_in,
    live,
    unanswered,
)
from adk_fluent.backends.events import Awaited, Pending, call_text
from adk_fluent.errors import ArgumentError, SessionError
from adk_fluent.ir.tools import ASKED_BY_ADK
from adk_fluent.state.field_types import fault

CREDENTIAL: Final = "adk_request_credential"
"""The function name under which ADK asks for a credential."""

_Type = AuthCredentialTypes

_FOR_PROGRAMS: Final = "FunctionResponse"
"""Stands in the hint that ADK gives for a tool that says nothing itself: it tells a client what to send."""


# --- what is asked --------------------------------------------------------------------------------


def pending_in(event: Event) -> tuple[Pending, ...]:
    """What an event asks of those outside the run."""
    if event.partial:
        return ()
    waits = event.long_running_tool_ids or ()
    calls = event.get_function_calls()
    return tuple(_pending(event, call) for call in calls if call.name == CONFIRMATION or call.id in waits)


def _pending(event: Event, call: types.FunctionCall) -> Pending:
    message, payload, kind = _KINDS.get(call.name or "", _result)(call)
    return Pending(call.id or "", event.author, message, payload, kind)


_Question = tuple[str, dict[str, Any], Awaited]


def _approval(call: types.FunctionCall) -> _Question:
    arguments: Mapping[str, Any] = call.args or {}
    hint = str(_mapping(arguments.get("toolConfirmation")).get("hint") or "")
    original = _mapping(arguments.get("originalFunctionCall"))
    payload = {key: original[key] for key in ("name", "args") if key in original}
    if original and (not hint or _FOR_PROGRAMS in hint):
        hint = f"Run {call_text(payload)}?"
    return hint or "Approval required", payload, "approval"


def _result(call: types.FunctionCall) -> _Question:
    payload = {"name": call.name or "", "args": dict(call.args or {})}
    said = f"{call_text(payload)} runs outside of this process. What is its result?"
    return said, payload, "result"


def _credential(call: types.FunctionCall) -> _Question:
    arguments: Mapping[str, Any] = call.args or {}
    config = _requested(call)
    if config is None:
        told = {key: arguments[key] for key in ("type", "url") if key in arguments}
        return str(arguments.get("message") or "Credential required"), told, "credential"
    kind, oauth = _credential_type(config), _oauth_of(config)
    payload = {"type": kind.value, **({"url": oauth.auth_uri} if oauth and oauth.auth_uri else {})}
    asked = {_Type.API_KEY: f"API key {getattr(config.auth_scheme, 'name', '')!r}?", _Type.HTTP: "Token?"}
    sign_in = f"Sign in at {oauth.auth_uri}" if oauth and oauth.auth_uri else f"Credential ({kind.value})?"
    return asked.get(kind, sign_in), payload, "credential"


def _requested(call: types.FunctionCall) -> AuthConfig | None:
    """What a request for a credential is about; `None` where it cannot be read."""
    try:
        return AuthToolArguments.model_validate(call.args).auth_config
    except (ValidationError, TypeError):
        return None


def _oauth_of(config: AuthConfig) -> OAuth2Auth | None:
    return config.exchanged_auth_credential.oauth2 if config.exchanged_auth_credential else None


def _credential_type(config: AuthConfig) -> AuthCredentialTypes:
    """The type of the credential that is asked for: what the tool says, or else what its scheme takes."""
    if (raw := config.raw_auth_credential) is not None:
        return raw.auth_type
    scheme: Any = getattr(config.auth_scheme, "type_", None)
    name = getattr(scheme, "value", scheme)  # a scheme of somebody's own has text
    return _Type(name) if name in list(_Type) else _Type.OAUTH2


def _input(call: types.FunctionCall) -> _Question:
    arguments: Mapping[str, Any] = call.args or {}
    schema = arguments.get("response_schema") or arguments.get("responseSchema")
    given = {"payload": arguments.get("payload"), "schema": schema}
    payload = {name: value for name, value in given.items() if value is not None}
    return str(arguments.get("message") or "Input required"), payload, "input"


_KINDS: Final[Mapping[str, Callable[[types.FunctionCall], _Question]]] = {
    CONFIRMATION: _approval,
    CREDENTIAL: _credential,
    "adk_request_input": _input,
}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Asked:
    """Something that was asked for, and the event that asks."""

    pending: Pending
    event: Event


def waiting_in(session: Session) -> dict[str, Asked]:
    """What a session asks and nobody answered yet, nor a rewind annulled, by id."""
    events = live(session.events)
    asking = unanswered(events)
    held = {about_call(call) for event in asking.values() for call in event.get_function_calls()}
    given = {response.id: response for event in events for response in event.get_function_responses()}
    return {
        pending.id: Asked(_with_response(pending, given.get(pending.id)), event)
        for request, event in asking.items()
        if request not in held  # a call that did not run yet, since it needs an answer itself
        for pending in pending_in(event)
        if pending.id == request
    }


def _with_response(pending: Pending, given: types.FunctionResponse | None) -> Pending:
    """What is asked of a long-running tool, with what it gave until now."""
    if pending.kind != "result" or given is None or given.response is None:
        return pending
    return replace(pending, payload={**pending.payload, "response": given.response})


def asked_by(session: Session, answers: Mapping[str, Any]) -> dict[str, Asked]:
    """What some answers are for; all of one run.

    Raises:
        SessionError: nothing waits for one of them, there is none, or they belong to different runs.
    """
    waiting = waiting_in(session)
    ids = ", ".join(map(repr, waiting)) or "nothing"
    for request in answers:
        if request not in waiting:
            raise SessionError(f"Session {session.id!r} does not wait for {request!r}; it waits for {ids}.")
    if not answers:
        raise SessionError(
            "resume() needs approvals={id: True} or answers={id: value}; "
            f"session {session.id!r} waits for {ids}."
        )
    asked = {request: waiting[request] for request in answers}
    if len({found.event.invocation_id for found in asked.values()}) > 1:
        raise SessionError(
            f"These answers for session {session.id!r} belong to different runs; resume one run at a time."
        )
    return asked


# --- what is answered -----------------------------------------------------------------------------


def message_of(answers: Mapping[str, Any], asked: Mapping[str, Asked]) -> types.Content:
    """The user's message that answers what a run waits for.

    Args:
        answers: id of what is asked → the answer, in the form that `Pending.form` names.
        asked: the same ids → what is asked.

    Raises:
        ArgumentError: an answer is `None`, cannot be written as JSON, or has another form.
    """
    return types.Content(
        role="user", parts=[_part(asked[request], said) for request, said in answers.items()]
    )


def _part(asked: Asked, answer: object) -> types.Part:
    pending = asked.pending
    if answer is None:
        raise ArgumentError(f"The answer to {pending.id!r} is None; give {pending.form}.")
    call = next(call for call in asked.event.get_function_calls() if call.id == pending.id)
    value = _as_json(pending, answer)
    make = {"credential": partial(_signed_in, call=call), "input": _typed_in}.get(pending.kind, _response)
    response = make(pending, answer=value)
    return types.Part(
        function_response=types.FunctionResponse(id=pending.id, name=call.name, response=response)
    )


def _as_json(pending: Pending, answer: object) -> Any:
    """An answer as JSON holds it.

    Raises:
        ArgumentError: it cannot.
    """
    value: object = answer
    if isinstance(answer, BaseModel):
        value = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"The answer to {pending.id!r} cannot be written as JSON: {error}. "
            "Give text, numbers, lists or dicts."
        ) from error


def _response(pending: Pending, answer: Any) -> dict[str, Any]:
    """An answer as ADK reads it."""
    if pending.kind == "approval":
        payload = {} if isinstance(answer, bool) else {"payload": answer}
        return {"confirmed": answer is not False, **payload}
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"result": answer}


def _typed_in(pending: Pending, answer: Any) -> dict[str, Any]:
    """The answer to a question as ADK reads it, which takes text for JSON where it can.

    ADK checks it only once the run goes on, and then the run waits no more.

    Raises:
        ArgumentError: it does not fit the schema of the question.
    """
    schema, response = pending.payload.get("schema"), _response(pending, answer)
    if (wrong := private.misfit(response, schema)) is None:
        return response
    quoted = {"result": json.dumps(answer)}  # text that looks like a number, perhaps
    if isinstance(answer, str) and private.misfit(quoted, schema) is None:
        return quoted
    reason = f": {fault(wrong, answer)}" if isinstance(wrong, ValidationError) else ""
    reason = reason.replace(" or instance of DynamicModel", "")  # which ADK makes of the schema
    raise ArgumentError(f"The answer to {pending.id!r} does not fit{reason}. Give {pending.form}.") from wrong


def _signed_in(pending: Pending, call: types.FunctionCall, answer: Any) -> dict[str, Any]:
    """A credential as ADK reads it: what was requested, with the credential in its place.

    Of an `AuthConfig` only its credential counts, since others may answer, and the request has the addresses
    and secrets of this side.

    Raises:
        ArgumentError: it is none.
    """
    config = _requested(call)
    if config is None:  # another process asks, which knows what it wants
        return _response(pending, answer)
    try:
        found = _credential_of(config, answer)
    except (ValidationError, TypeError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise ArgumentError(
            f"The answer to {pending.id!r} is no credential: {said}. Give {pending.form}."
        ) from error
    made = config.model_copy(update={"exchanged_auth_credential": found})
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def _credential_of(config: AuthConfig, answer: Any) -> AuthCredential:
    """The credential that somebody gave: as a whole, or what there is of it as text."""
    kind, oauth = _credential_type(config), _oauth_of(config)
    if not isinstance(answer, str):
        held: Any = answer
        for name in ("exchangedAuthCredential", "exchanged_auth_credential"):
            held = _mapping(answer).get(name, held)
        found = AuthCredential.model_validate(held)
        if found.oauth2 is None or oauth is None:
            return found
        own = oauth.model_dump(include={"client_id", "client_secret"}, exclude_none=True)
        return found.model_copy(update={"oauth2": found.oauth2.model_copy(update=own)})
    if not answer.strip():
        raise TypeError("it is blank")
    if kind is _Type.API_KEY:
        return AuthCredential(auth_type=kind, api_key=answer)
    if kind is _Type.HTTP:
        scheme = getattr(config.auth_scheme, "scheme", None) or "bearer"
        return AuthCredential(
            auth_type=kind, http=HttpAuth(scheme=scheme, credentials=HttpCredentials(token=answer))
        )
    if kind not in (_Type.OAUTH2, _Type.OPEN_ID_CONNECT):
        raise TypeError(f"text is none of type {kind.value}")
    update = {"auth_response_uri" if "://" in answer else "access_token": answer}
    return AuthCredential(auth_type=kind, oauth2=(oauth or OAuth2Auth()).model_copy(update=update))


def answer_in(response: types.FunctionResponse) -> Any:
    """The answer in a response, from which `message_of` makes an equal response."""
    given: Mapping[str, Any] = response.response or {}
    if response.name == CONFIRMATION:
        read = approval_in(response)
        return read.payload if read.confirmed and read.payload is not None else read.confirmed
    if set(given) != {"result"} or given["result"] is None or isinstance(given["result"], dict):
        return dict(given)  # the value alone is another answer, or none
    return given["result"]


def answer_to(request: str, events: Iterable[Event]) -> Approval | None:
    """The last answer of the person to a request; `None` if there is none.

    Only what the user says counts: a tool's result may have any id that a model made up.
    """
    given: list[types.FunctionResponse] = []
    for event in events:
        if event.author == "user":
            given += [response for response in event.get_function_responses() if response.id == request]
    return approval_in(given[-1]) if given else None


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
    return {one.id: answer_in(one) for one in given if one is not None and one.id}
