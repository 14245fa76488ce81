"""What a request asks of an expression: words, values for its state, or answers to what it asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.adk.events.event import Event
from google.genai import types

from adk_fluent.a2a.protocol import sdk
from adk_fluent.analysis.facts import analyse
from adk_fluent.backends.adk.api import approvals as asking
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
        answers: id of what else was asked → the answer.
    """

    parts: tuple[types.Part, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approvals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def given(self, ids: Collection[str]) -> dict[str, Any]:
        """The approvals, and of the other answers those to what is asked."""
        return {**self.approvals, **{id: value for id, value in self.answers.items() if id in ids}}


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
    answers: dict[str, Any] = {}
    for part in parts:
        data = sdk.data_in(part)
        response = part.function_response
        if response is not None:
            if response.name == asking.CONFIRMATION:
                approvals[str(response.id)] = _decision(response)
            else:
                answers[str(response.id)] = _whole(asking.answer_in(response))
        elif isinstance(data, dict):
            values = cast("dict[str, Any]", data)
            known = {name: _whole(value) for name, value in values.items() if name in inputs}
            state |= known
            if left := {name: value for name, value in values.items() if name not in known}:
                said.append(types.Part(text=json.dumps(_whole(left), ensure_ascii=False)))
        elif part.function_call is None:
            said.append(part)
    return Asked(tuple(said), state, approvals, answers)


def _decision(response: types.FunctionResponse) -> Any:
    content = types.Content(role="user", parts=[types.Part(function_response=response)])
    told = asking.answer_to(str(response.id), [Event(author="user", content=content)])
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
    """What a person says in words to what was asked; `None` if it is no answer.

    A yes or a no, or a JSON object that approves, answers the approvals; a JSON object is no payload if it is
    a confirmation, which some releases of ADK send in words. Where no approval is asked, any words answer the
    first question. What is left is asked again.
    """
    text = " ".join(part.text for part in parts if part.text).strip()
    approvals = [each for each in pending if each.kind == "approval"]
    said = _decided(text) if approvals else _words(text)
    return None if said is None else {each.id: said for each in approvals or pending[:1]}


def _decided(text: str) -> Any:
    word = text.lower().rstrip(".!")
    return True if word in _YES else False if word in _NO else _in_json(text)


def _words(text: str) -> Any:
    """Words as an answer: a JSON object as what it holds; `None` if there are none."""
    held = _object(text)
    inner = held.get("response", held.get("result")) if held is not None and len(held) == 1 else None
    return inner if inner is not None else held if held is not None else text or None


def again(pending: Sequence[Pending]) -> str:
    """What a caller is told whose answer does not fit."""
    if any(each.kind == "approval" for each in pending):
        return "Answer yes or no."
    return f"Give {pending[0].form}."


def _in_json(text: str) -> Any:
    held = _object(text)
    inner = _object(str(held["response"])) if held is not None and set(held) == {"response"} else None
    if any(told is not None and isinstance(told.get("confirmed"), bool) for told in (held, inner)):
        return _decision(types.FunctionResponse(id="", name=asking.CONFIRMATION, response=held))
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
    if pending.kind == "result":
        name, given = str(pending.payload.get("name")), dict(pending.payload.get("args") or {})
        return types.Part(function_call=types.FunctionCall(id=pending.id, name=name, args=given))
    if pending.kind != "approval":  # what ADK's own request holds beside this may be secret
        given = {"message": pending.message, **pending.payload}
        if schema := given.pop("schema", None):
            given["response_schema"] = schema
        name = f"adk_request_{pending.kind}"
        return types.Part(function_call=types.FunctionCall(id=pending.id, name=name, args=given))
    arguments: dict[str, Any] = {"toolConfirmation": {"hint": pending.message, "confirmed": False}}
    if pending.payload:
        arguments["originalFunctionCall"] = dict(pending.payload)
    return types.Part(
        function_call=types.FunctionCall(id=pending.id, name=asking.CONFIRMATION, args=arguments)
    )
