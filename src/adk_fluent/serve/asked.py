"""What a request asks of an expression: words, values for its state, or answers to what it asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.adk.events.event import Event
from google.genai import types

from adk_fluent.analysis.facts import analyse
from adk_fluent.backends.adk.events.approvals import CONFIRMATION, answer_to
from adk_fluent.backends.adk.remote import sdk
from adk_fluent.backends.events import Pending
from adk_fluent.ir.base import Node

_YES = frozenset({"yes", "y", "ok", "okay", "true", "approve", "approved", "confirm", "confirmed"})
_NO = frozenset({"no", "n", "false", "reject", "rejected", "refuse", "deny", "denied", "cancel"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What a message asks.

    Attributes:
        parts: what is said.
        state: values for the state.
        approvals: id of what was asked → `True`, `False` or a payload.
    """

    parts: tuple[types.Part, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approvals: Mapping[str, Any] = field(default_factory=dict[str, Any])


def inputs_of(root: Node) -> frozenset[str]:
    """The state keys that a caller may set: those that are read before the tree itself has surely set them.

    Keys with a scope are not among them: they belong to the user or the app, not to one conversation.
    """
    return frozenset(
        read.key for read in analyse(root).reads if read.status != "must" and ":" not in read.key
    )


def read(parts: Iterable[types.Part], inputs: Collection[str]) -> Asked:
    """What the parts of a message ask."""
    said: list[types.Part] = []
    state: dict[str, Any] = {}
    approvals: dict[str, Any] = {}
    for part in parts:
        data = sdk.data_in(part)
        response = part.function_response
        if response is not None:
            if response.name == CONFIRMATION:
                approvals[str(response.id)] = _decision(response)
        elif isinstance(data, dict):
            values = cast("dict[str, Any]", data)
            known = {name: _whole(value) for name, value in values.items() if name in inputs}
            state |= known
            if left := {name: value for name, value in values.items() if name not in known}:
                said.append(types.Part(text=json.dumps(_whole(left), ensure_ascii=False)))
        elif part.function_call is None:
            said.append(part)
    return Asked(tuple(said), state, approvals)


def _decision(response: types.FunctionResponse) -> Any:
    content = types.Content(role="user", parts=[types.Part(function_response=response)])
    told = answer_to(str(response.id), [Event(author="user", content=content)])
    if told is None or not told.confirmed:
        return False
    return True if told.payload is None else told.payload


def _whole(value: Any) -> Any:
    """A value whose whole numbers are `int`: protobuf makes a `float` of each."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_whole(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def in_words(parts: Iterable[types.Part], pending: Sequence[Pending]) -> Mapping[str, Any] | None:
    """What a person says in words to what was asked; `None` if it is neither a yes nor a no.

    A JSON object approves with it as the payload; so not if it is a confirmation, which some releases of ADK
    send in words.
    """
    text = " ".join(part.text for part in parts if part.text).strip()
    word = text.lower().rstrip(".!")
    decision: Any = True if word in _YES else False if word in _NO else _in_json(text)
    return None if decision is None else {each.id: decision for each in pending}


def _in_json(text: str) -> Any:
    held = _object(text)
    inner = _object(str(held["response"])) if held is not None and set(held) == {"response"} else None
    if any(told is not None and isinstance(told.get("confirmed"), bool) for told in (held, inner)):
        return _decision(types.FunctionResponse(id="", name=CONFIRMATION, response=held))
    return held


def _object(text: str) -> dict[str, Any] | None:
    try:
        held: object = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", held) if isinstance(held, dict) else None


def request_parts(pending: Sequence[Pending]) -> list[types.Part]:
    """What a caller is asked: in words, and as the calls that ADK's clients answer."""
    return [types.Part(text="\n".join(each.message for each in pending)), *map(_call, pending)]


def ids_in(parts: Iterable[types.Part]) -> frozenset[str]:
    """The ids of what `request_parts` asks."""
    return frozenset(str(part.function_call.id) for part in parts if part.function_call is not None)


def _call(pending: Pending) -> types.Part:
    arguments: dict[str, Any] = {"toolConfirmation": {"hint": pending.message, "confirmed": False}}
    if pending.payload:
        arguments["originalFunctionCall"] = dict(pending.payload)
    return types.Part(function_call=types.FunctionCall(id=pending.id, name=CONFIRMATION, args=arguments))
