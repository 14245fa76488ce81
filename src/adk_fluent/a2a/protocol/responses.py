"""What a remote agent says: its answer by the rules of the A2A protocol, and the pieces of it as they come.

| The server sends | It counts as |
| --- | --- |
| a message without a task | the answer |
| an artifact | a part of the answer; the same id again takes its place, with `append` it goes on or begins |
| a task | if it lists artifacts, these are all that there are; else none is taken back |
| a status message of a task that works | progress; it never becomes the answer |
| a status message of a completed task | the answer, if the task has no artifacts |
| a status message of any other task | the question, or the reason of the failure |
| the history of a task | nothing |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from google.adk.events.event import Event
from google.genai import types

from adk_fluent.a2a.protocol import sdk

FAILED: Final = frozenset({"failed", "canceled", "rejected"})
"""The states in which a task has ended without a result."""
WAITING: Final = frozenset({"input-required", "auth-required"})
"""The states in which a task goes on when it is answered."""
UNFINISHED: Final = frozenset({"submitted", "working"})
"""The states in which a task goes on by itself."""

Parts = list[types.Part]


@dataclass(frozen=True, slots=True)
class Told:
    """One item of a server's answer, the same for both versions of the protocol.

    Attributes:
        kind: what it is: "message", "task", "status" or "artifact".
        ids: the ids of the task and of its conversation, as ADK notes them.
        state: the state of the task, as `state_in` gives it; empty where none is told.
        parts: what the message, the status or the piece of the artifact holds.
        artifacts: those of a task, by their ids; of an artifact, itself.
        appends: whether a piece goes on with its artifact.
        asked: the ids of the calls among the parts that wait for an answer.
        is_spoken: whether a status tells a piece of the answer, as ADK's older servers do.
    """

    kind: str
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    state: str = ""
    parts: tuple[types.Part, ...] = ()
    artifacts: Mapping[str, tuple[types.Part, ...]] = field(default_factory=dict[str, tuple[types.Part, ...]])
    appends: bool = False
    asked: frozenset[str] = frozenset()
    is_spoken: bool = False


def told_in(item: Any) -> Told:
    """One item of what a client of a2a-sdk's gives."""
    held: Any = item
    if isinstance(item, tuple):  # version 0.3: a task, and what is new of it
        task, update = cast("tuple[Any, Any]", item)
        held = task if update is None else update
    elif hasattr(item, "WhichOneof"):
        held = getattr(item, str(item.WhichOneof("payload")))
    if not (hasattr(held, "status") or hasattr(held, "artifact")):
        return Told("message", _ids("", held), parts=_parts(held))
    if hasattr(held, "artifact"):
        made = {str(held.artifact.artifact_id): tuple(sdk.from_a2a(held.artifact.parts))}
        return Told("artifact", _ids(held.task_id, held), artifacts=made, appends=bool(held.append))
    state, said = _word(_name_of(held.status)), _parts(held.status.message)
    asked = sdk.asked_in(getattr(held.status.message, "parts", ()))
    if hasattr(held, "artifacts"):
        made = dict[str, tuple[types.Part, ...]]()
        for each in held.artifacts or ():  # servers that give them no ids give all the same one
            id = str(each.artifact_id)
            made[id] = (*made.get(id, ()), *sdk.from_a2a(each.parts))
        return Told("task", _ids(held.id, held), state, said, made, asked=asked)
    spoken = "adk_event_id" in (held.metadata or ())
    return Told("status", _ids(held.task_id, held), state, said, asked=asked, is_spoken=spoken)


def _ids(task: str, held: Any) -> dict[str, str]:
    found = {"a2a:task_id": task, "a2a:context_id": str(held.context_id or "")}
    return {name: id for name, id in found.items() if id}


def _parts(message: Any) -> tuple[types.Part, ...]:
    """What a message holds; nothing, if the caller said it."""
    if message is None or str(getattr(message.role, "value", message.role)) in ("user", "1"):
        return ()
    return tuple(sdk.from_a2a(message.parts))


def _name_of(status: Any) -> Any:
    if not sdk.is_newer():
        return status.state.value
    from a2a.types import TaskState

    return cast(Any, TaskState).Name(status.state)


@dataclass(slots=True)
class Reply:
    """What one call was answered so far.

    Attributes:
        ids: the ids of the task and of its conversation, as ADK notes them.
        state: the state of the task; "completed" for a message without one.
        asked: the ids of the calls that wait for an answer.
        given: the text that was given out in pieces.
    """

    ids: dict[str, str] = field(default_factory=dict[str, str])
    state: str = ""
    asked: frozenset[str] = frozenset()
    given: str = ""
    _artifacts: dict[str, Parts] = field(default_factory=dict[str, Parts])
    _said: Parts = field(default_factory=Parts)
    _running: str = ""

    @property
    def parts(self) -> Parts:
        """The answer; of a task that has none, its question or the reason of its failure."""
        made = [part for parts in self._artifacts.values() for part in parts]
        if self.state in FAILED or self.state in WAITING:
            return self._said
        return made or ([] if self.state in UNFINISHED else self._said)

    def hear(self, told: Told) -> tuple[str, str]:
        """Take in an item; give the text that is new of the answer, and what is told of progress."""
        self.ids |= told.ids
        self.state = "completed" if told.kind == "message" else told.state or self.state
        if told.kind == "task" and told.artifacts:
            self._artifacts.clear()
        for id, parts in told.artifacts.items():
            held = self._artifacts.setdefault(id, [])
            if not told.appends:
                held.clear()
            _extend(held, parts)
        if told.kind != "artifact":
            self._said, self.asked = [*told.parts], told.asked
        if told.kind == "status" and told.state in UNFINISHED:
            return (self._spoken(words(told.parts)), "") if told.is_spoken else ("", words(told.parts))
        return (self._new(), "") if told.artifacts else ("", "")

    def _spoken(self, text: str) -> str:
        """What is new in a piece of a message, which may be the whole message after its pieces."""
        if text == self._running:
            self._running = ""
            return ""
        self._running += text
        self.given += text
        return text

    def _new(self) -> str:
        """What of the artifacts was not given yet; what was given cannot be taken back."""
        whole = words(part for parts in self._artifacts.values() for part in parts)
        if not whole.startswith(self.given):
            return ""
        new, self.given = whole[len(self.given) :], whole
        return new


def _extend(held: Parts, parts: Iterable[types.Part]) -> None:
    """Add parts; words that go on with words are one text."""
    for part in parts:
        if held and _is_plain(part) and _is_plain(held[-1]):
            held[-1] = types.Part(text=f"{held[-1].text}{part.text}")
        else:
            held.append(part)


def _is_plain(part: types.Part) -> bool:
    return part.text is not None and not part.thought


# --- as events ------------------------------------------------------------------------------------


def pieces(news: Iterable[tuple[str, str]], event: Callable[[], Event]) -> list[Event]:
    """What is new of an answer, and of its progress, as partial events; progress is a thought, as in ADK."""
    made: list[Event] = []
    for said, progress in news:
        for text, thought in ((said, None), (progress, True)):
            if text:
                piece = event()
                piece.content = types.Content(role="model", parts=[types.Part(text=text, thought=thought)])
                piece.partial = True
                made.append(piece)
    return made


def outcome(reply: Reply, event: Event) -> Event:
    """What a call came to: the answer, a question, or the reason of a failure."""
    event.custom_metadata = noted_of(reply.ids, reply.state)
    if reply.state in UNFINISHED:
        event.error_message = f"it stopped answering while its task was {reply.state}"
        return event
    event.content = types.Content(role="model", parts=reply.parts)
    if reply.state in WAITING:
        event.long_running_tool_ids = set(reply.asked) or None
    return event


def asked_in(event: Event) -> list[types.FunctionCall]:
    """The calls of an event that wait to be answered."""
    ids = event.long_running_tool_ids or set[str]()
    return [] if event.partial else [call for call in event.get_function_calls() if call.id in ids]


def noted_of(ids: Mapping[str, str], state: str) -> dict[str, Any]:
    """What ADK's agent reads of an event the next time: whose conversation it is, and how that stands."""
    return {**ids, "a2a:response": {"status": {"state": state or "completed"}}}


@dataclass(slots=True)
class AttemptState:
    """The state of one attempt to ask a remote agent.

    Attributes:
        answer: what the answer holds; empty as long as there is none.
        has_spoken: whether a piece of the answer was given out.
        task: the ids of the task and of its conversation, as ADK notes them.
        state: the state of the task.
        is_refusing: whether it is told that a person does not agree.
    """

    answer: Parts = field(default_factory=Parts)
    has_spoken: bool = False
    task: dict[str, str] = field(default_factory=dict[str, str])
    state: str = ""
    is_refusing: bool = False

    def note(self, task: dict[str, str], state: str) -> None:
        """Take note of the task that is spoken of."""
        self.task |= task
        self.state = state or self.state


# --- reading --------------------------------------------------------------------------------------


def words(parts: Iterable[types.Part]) -> str:
    r"""What parts say: their text, and data as JSON on lines of its own, without thoughts and files.

    >>> words([types.Part(text="Paid."), sdk.data_part({"total": 5}), types.Part(text="Bye.")])
    'Paid.\n{"total": 5}\nBye.'
    """
    text, is_data = "", False
    for part in parts:
        now_data = sdk.is_data(part)
        said = _json(sdk.data_in(part)) if now_data else (part.text or "") if _is_plain(part) else ""
        if said:
            text += "\n" * bool(text and (is_data or now_data) and not text.endswith("\n")) + said
            is_data = now_data
    return text


def _json(data: object) -> str:
    """Data as a model reads them: letters of all languages as they are."""
    return json.dumps(data, ensure_ascii=False)


def readings(parts: Iterable[types.Part]) -> list[str]:
    """What may be meant where one JSON value is wanted, most likely first: data before text.

    >>> readings([types.Part(text="Here:"), sdk.data_part({"total": 5})])[0]
    '{"total": 5}'
    """
    parts = list(parts)
    data = [sdk.data_in(part) for part in parts if sdk.is_data(part)]
    several = [_json(data)] if len(data) > 1 else []
    text = words(part for part in parts if not sdk.is_data(part))
    return [*map(_json, data), *several, *([text] if text or not data else [])]


def state_in(metadata: Mapping[str, Any] | None) -> str:
    """The state of the task that ADK noted on an event, as version 0.3 of the protocol writes it.

    >>> state_in({"a2a:response": {"status": {"state": "TASK_STATE_INPUT_REQUIRED"}}})
    'input-required'
    """
    found: Any = metadata
    for name in ("a2a:response", "status", "state"):
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return _word(found)


def _word(state: Any) -> str:
    """The name of a state as version 0.3 writes it; empty where it is not known."""
    name = str(getattr(state, "value", state) or "").lower().removeprefix("task_state_").replace("_", "-")
    return "" if name in ("unknown", "unspecified") else name
