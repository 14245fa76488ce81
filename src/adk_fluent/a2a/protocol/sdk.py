"""What the versions of a2a-sdk differ in: 0.3 has pydantic models, 1.x has protobuf messages.

The package comes with the extra `a2a`, so it is imported when something needs it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any, Final, cast

from google.genai import types

from adk_fluent.errors import MissingExtraError, install

WAITING: Final = 60.0
"""Seconds after which a2a-sdk lets go of what it holds in memory of a task that waits for a person."""
_MIME: Final = "text/plain"
_BEGIN: Final = b"<a2a_datapart_json>"
_END: Final = b"</a2a_datapart_json>"
NEWER: Final = "adk_agent_executor_v2"
"""Noted on a task by a server of ADK's that marks nothing but thoughts as thoughts."""


def need(what: str) -> None:
    """Refuse what needs a2a-sdk where that is not installed.

    Raises:
        MissingExtraError: it is not; the message begins with `what`.
    """
    if find_spec("a2a") is None:
        raise MissingExtraError(f"{what} needs a2a-sdk. Install it: {install('a2a')}.")
    _use_knowingly()


@cache
def _use_knowingly() -> None:
    """Silence ADK's warning that its part of A2A is experimental; it repeats it for each part of a call."""
    told = r"\[EXPERIMENTAL\].*ADK Implementation for A2A support"
    warnings.filterwarnings("ignore", message=told, category=UserWarning)


@cache
def is_newer() -> bool:
    """Whether a2a-sdk is 1.x."""
    import a2a.types

    return hasattr(a2a.types, "StreamResponse")


def versions() -> tuple[str, ...]:
    """The versions of the protocol that a card lists; before 1.0 it listed none."""
    return ("1.0", "0.3") if is_newer() else ()


# --- data parts -----------------------------------------------------------------------------------


def data_part(data: Mapping[str, Any]) -> types.Part:
    """JSON values as the part of ADK's that becomes an A2A data part."""
    held: object = dict(data) if is_newer() else {"kind": "data", "data": dict(data)}
    blob = _BEGIN + json.dumps(held).encode() + _END
    return types.Part(inline_data=types.Blob(data=blob, mime_type=_MIME))


def is_data(part: types.Part) -> bool:
    """Whether ADK made a part of an A2A data part."""
    blob = part.inline_data
    return blob is not None and blob.mime_type == _MIME and (blob.data or b"").startswith(_BEGIN)


def data_in(part: types.Part) -> Any:
    """What an A2A data part held, which may be `None`; `None` for any other part, too."""
    blob = part.inline_data
    if blob is None or not is_data(part):
        return None
    held: Any = json.loads((blob.data or b"")[len(_BEGIN) : -len(_END)])
    if not is_newer() and isinstance(held, dict):
        return cast("dict[str, Any]", held).get("data")
    return _whole(held)


def _whole(value: Any) -> Any:
    """JSON whose whole numbers are whole; protobuf has no numbers but floats."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def to_a2a(part: types.Part) -> Any:
    """A part of ADK's as one of A2A's; a call is marked as one that waits to be answered."""
    from google.adk.a2a.converters.part_converter import convert_genai_part_to_a2a_part

    made: Any = convert_genai_part_to_a2a_part(part)
    if part.function_call is not None:
        mark = {"adk_is_long_running": True}
        if is_newer():
            made.metadata.update(mark)
        else:
            made.root.metadata = {**(made.root.metadata or {}), **mark}
    return made


def asked_in(parts: Iterable[Any]) -> frozenset[str]:
    """The ids of the calls among parts of A2A's that are marked as waiting to be answered."""
    found: set[str] = set()
    for part in parts:
        metadata: Any = (part if is_newer() else part.root).metadata
        if metadata and "adk_is_long_running" in metadata and metadata["adk_is_long_running"] is True:
            found |= {str(each.function_call.id) for each in from_a2a([part]) if each.function_call}
    return frozenset(found)


def from_a2a(parts: Iterable[Any]) -> list[types.Part]:
    """Parts of A2A's as ADK's."""
    from google.adk.a2a.converters.part_converter import convert_a2a_part_to_genai_part

    found: list[types.Part] = []
    for part in parts:
        made: Any = convert_a2a_part_to_genai_part(part)
        if made is not None:
            found += made if isinstance(made, list) else [made]
    return found


# --- cards ----------------------------------------------------------------------------------------


def card_of(data: Mapping[str, Any]) -> Any:
    """The library's `AgentCard` of a card's JSON, whichever version of the protocol that is written in.

    Raises:
        ValueError: it is no card.
    """
    if is_newer():
        from a2a.client.card_resolver import parse_agent_card
        from google.protobuf.json_format import ParseError

        try:
            return parse_agent_card(json.loads(json.dumps(data)))
        except (ParseError, ValueError, TypeError) as error:
            raise ValueError(str(error)) from error
    from a2a.types import AgentCard

    return cast(Any, AgentCard).model_validate(_as_older(data))


def _as_older(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A card with the fields that version 0.3 of the protocol requires; servers of 1.0 answer that, too."""
    interfaces: list[Any] = list(data.get("supportedInterfaces") or ())
    if "url" in data or not interfaces:
        return data
    chosen = next((one for one in interfaces if one.get("protocolBinding") == "JSONRPC"), interfaces[0])
    older = {
        "url": chosen.get("url"),
        "preferredTransport": chosen.get("protocolBinding", "JSONRPC"),
        "protocolVersion": "0.3.0",
    }
    return {**data, **older}


def json_of(card: Any) -> dict[str, Any]:
    """A card as JSON; one that is JSON already, as it is.

    Raises:
        ValueError: it is no card.
    """
    if isinstance(card, Mapping):
        return dict(cast("Mapping[str, Any]", card))
    if hasattr(card, "model_dump") and not isinstance(card, type):
        return card.model_dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(card, "DESCRIPTOR"):
        from a2a.server.request_handlers.response_helpers import agent_card_to_dict

        return agent_card_to_dict(cast(Any, card))
    raise ValueError(f"{card!r:.60} is no agent card")


def card_forms(card: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A card in the newest version of the protocol that the library speaks, and in version 0.3.

    The second is `None` where the card offers nothing of that version.
    """
    if not is_newer():
        older = json_of(card_of(card))
        return older, older
    from a2a.compat.v0_3.conversions import to_compat_agent_card
    from a2a.utils.errors import VersionNotSupportedError
    from google.protobuf.json_format import MessageToDict

    held = card_of(card)
    try:
        compat: Any = to_compat_agent_card(held)
    except VersionNotSupportedError:
        return MessageToDict(held), None
    return MessageToDict(held), compat.model_dump(mode="json", by_alias=True, exclude_none=True)


def urls_in(card: Mapping[str, Any]) -> tuple[str, ...]:
    """Every URL to which the JSON of a card sends calls, in its order."""
    interfaces: list[Any] = [
        *(card.get("supportedInterfaces") or ()),
        *(card.get("additionalInterfaces") or ()),
    ]
    found = [card, *(cast("Mapping[str, Any]", one) for one in interfaces if isinstance(one, Mapping))]
    return tuple(dict.fromkeys(str(one["url"]) for one in found if one.get("url")))


# --- calls ----------------------------------------------------------------------------------------


def with_pieces(item: Any) -> Any:
    """An item of a stream of answers so that ADK passes it on.

    Of version 0.3 ADK's agent leaves out the pieces of an artifact that is on its way; what a task says while
    it works it passes on. Of 1.x it fails at a piece that goes on with an artifact that was not begun.
    """
    if is_newer() and item.WhichOneof("payload") == "artifact_update" and item.artifact_update.append:
        whole = type(item)()
        whole.CopyFrom(item)
        whole.artifact_update.append = False
        return whole
    if is_newer() or not isinstance(item, tuple):
        return cast("object", item)
    import a2a.types

    types_: Any = a2a.types
    task, update = cast("tuple[Any, Any]", item)
    is_piece = isinstance(update, types_.TaskArtifactUpdateEvent) and not update.last_chunk
    if not is_piece or not (update.append or update.last_chunk is False) or NEWER in str(task.metadata):
        return task, update
    said = types_.Message(
        message_id=update.artifact.artifact_id, role=types_.Role.agent, parts=update.artifact.parts
    )
    status = types_.TaskStatus(state=types_.TaskState.working, message=said)
    ids = {"task_id": update.task_id, "context_id": update.context_id}
    return task, types_.TaskStatusUpdateEvent(**ids, status=status, final=False)


async def cancel(client: Any, task: str) -> None:
    """Ask a server to cancel a task."""
    if is_newer():
        from a2a.types import CancelTaskRequest

        await client.cancel_task(CancelTaskRequest(id=task))
        return
    import a2a.types

    await client.cancel_task(cast(Any, a2a.types).TaskIdParams(id=task))


# --- serving --------------------------------------------------------------------------------------


_BEGINNING: Final = frozenset({"message/send", "message/stream", "SendMessage", "SendStreamingMessage"})


def begins_task(body: bytes) -> bool:
    """Whether a call has a task begin or go on.

    >>> begins_task(b'{"method": "message/send"}'), begins_task(b'{"method": "tasks/cancel"}')
    (True, False)
    """
    try:
        called: object = json.loads(body)
    except (ValueError, RecursionError):
        return False
    method: object = cast("dict[str, object]", called).get("method") if isinstance(called, dict) else None
    return isinstance(method, str) and method in _BEGINNING


def new_task(context: Any) -> Any:
    """The task that a request begins."""
    import a2a.types

    types_: Any = a2a.types
    submitted = types_.TaskState.TASK_STATE_SUBMITTED if is_newer() else types_.TaskState.submitted
    return types_.Task(
        id=context.task_id,
        context_id=context.context_id,
        status=types_.TaskStatus(state=submitted),
        history=[context.message],
    )


def size_of(message: Any) -> int:
    """Bytes of a message, about."""
    return message.ByteSize() if is_newer() else len(message.model_dump_json())


def call_of(user: str) -> Any:
    """The context of a call that a user makes; of nobody in particular where the name is empty."""
    from a2a.auth.user import UnauthenticatedUser, User
    from a2a.server.context import ServerCallContext

    class Known(User):
        @property
        def is_authenticated(self) -> bool:
            return True

        @property
        def user_name(self) -> str:
            return user

    return ServerCallContext(user=Known() if user else UnauthenticatedUser())


async def send_again(handler: Any, task: Any, user: str) -> None:
    """Send the message that began a task once more, as the user who sent it."""
    from a2a.types import SendMessageRequest

    request = SendMessageRequest(message=task.history[0])
    request.message.task_id, request.message.context_id = task.id, task.context_id
    await handler.on_message_send(request, call_of(user))


def waits(context: Any) -> bool:
    """Whether a request goes on with a task that waits for an answer."""
    task = context.current_task
    if task is None:
        return False
    import a2a.types

    states: Any = a2a.types.TaskState
    if is_newer():
        return task.status.state in (states.TASK_STATE_INPUT_REQUIRED, states.TASK_STATE_AUTH_REQUIRED)
    return task.status.state in (states.input_required, states.auth_required)


def rpc_routes(executor: Any, store: Any, card: Mapping[str, Any], grace: float) -> tuple[list[Any], Any]:
    """The routes that answer calls: a2a-sdk's own, which speak both versions of the protocol from 1.x on.

    Beside them, the library's handler of requests.
    """
    from a2a.server.request_handlers import DefaultRequestHandler

    handler: Any = DefaultRequestHandler
    if is_newer():
        from a2a.server.routes import create_jsonrpc_routes

        given: dict[str, Any] = {}
        if "interrupted_task_timeout" in signature(handler.__init__).parameters:
            given["interrupted_task_timeout"] = WAITING  # a task that waits is then in the store alone
        made = handler(agent_executor=executor, task_store=store, agent_card=card_of(card), **given)
        routes = create_jsonrpc_routes(made, "/", enable_v0_3_compat=True, shutdown_grace_period=grace)
        return [*routes], made
    apps: Any = import_module("a2a.server.apps")  # which is gone in 1.x
    made = handler(agent_executor=executor, task_store=store)
    app: Any = apps.A2AStarletteApplication(agent_card=card_of(card), http_handler=made)
    return [*app.routes(agent_card_url="/.well-known/agent-card-0.3.json")], made
