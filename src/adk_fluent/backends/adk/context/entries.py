"""Between ADK's events and the entries that context specs select from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types

from adk_fluent.backends.adk.events.approvals import CONFIRMATION
from adk_fluent.backends.adk.events.signals import live, spoken_text
from adk_fluent.context.entries import CODE, USER, CallPart, Entry, FileRef, ResponsePart, line

INTERNAL: Final = frozenset({CONFIRMATION, "adk_request_credential", "adk_request_input", "adk_framework"})
"""Function names under which ADK talks to itself or to the client; no model sees them."""


def conversation(ctx: InvocationContext, agent: str) -> list[Event]:
    """The events that ADK would let `agent` see here, and the summaries it made of them.

    A run of a workflow node need not store its input as an event; then it stands here all the same.
    """
    events = [event for event in live(ctx.session.events) if visible(ctx, event)]
    asked = ctx.user_content
    is_new = any(part.text or part.inline_data or part.file_data for part in (asked and asked.parts) or [])
    stored = any(e.author == USER and e.invocation_id == ctx.invocation_id for e in events)
    if is_new and not stored and getattr(ctx, "isolation_scope", None) is None:
        own = (i for i, e in enumerate(events) if e.invocation_id == ctx.invocation_id and e.author == agent)
        message = Event(invocation_id=ctx.invocation_id, author=USER, branch=ctx.branch, content=asked)
        events.insert(next(own, len(events)), message)
    return events


def visible(ctx: InvocationContext, event: Event) -> bool:
    """Whether ADK's own assembly would consider an event for an agent that runs in `ctx`."""
    if event.branch and ctx.branch and not f"{ctx.branch}.".startswith(f"{event.branch}."):
        return False
    if getattr(event, "isolation_scope", None) != getattr(ctx, "isolation_scope", None):
        return False
    answers = event.get_function_responses()
    path = getattr(getattr(event, "node_info", None), "path", None)
    if event.author == USER and not answers and path and path != (getattr(ctx, "node_path", None) or ""):
        return False
    return INTERNAL.isdisjoint(use.name for use in (*event.get_function_calls(), *answers))


def to_entries(events: Sequence[Event], origins: Mapping[str, str]) -> tuple[Entry, ...]:
    """Events as entries; those without content are left out.

    Args:
        origins: unique name of an agent → the name the user gave it.
    """
    spans = _summaries(events)
    covered = {i for i, e in enumerate(events) if any(a <= e.timestamp <= b for _, a, b in spans)}
    last_covered = {
        index: max((i for i in covered if events[i].timestamp <= end), default=index)
        for index, _, end in spans
    }
    summaries = {last_covered[index]: index for index, _, _ in spans}
    found: list[Entry] = []
    turn = 0
    for index, event in enumerate(events):
        if event.actions.compaction is None:
            entry = _entry(index, event, origins)
            turn += entry.is_user_message
            if not entry.is_empty:
                found.append(replace(entry, turn=turn, compacted=index in covered))
        if index in summaries:
            found.append(_summary(index, events[summaries[index]], turn))
    return tuple(found)


def _summaries(events: Sequence[Event]) -> list[tuple[int, float, float]]:
    """Index, start and end of ADK's summaries, but for those that a wider one covers."""
    spans: list[tuple[int, float, float]] = []
    for index, event in enumerate(events):
        made = event.actions.compaction
        if made is not None:
            spans.append((index, made.start_timestamp, made.end_timestamp))
    return [
        (index, start, end)
        for index, start, end in spans
        if not any(
            a <= start and end <= b and (other > index or (a, b) != (start, end))
            for other, a, b in spans
            if other != index
        )
    ]


def _summary(index: int, event: Event, turn: int) -> Entry:
    made = event.actions.compaction
    content = made.compacted_content if made else None
    text = "".join(part.text or "" for part in (content and content.parts) or [])
    return Entry(
        kind="summary", text=text, turn=turn, timestamp=event.timestamp, index=index, branch=event.branch
    )


def _entry(index: int, event: Event, origins: Mapping[str, str]) -> Entry:
    parts = (event.content.parts if event.content else None) or []
    heard = event.input_transcription or event.output_transcription
    tags: Any = (event.custom_metadata or {}).get("tags") or ()
    return Entry(
        author=event.author,
        origin=origins.get(event.author, event.author),
        text=spoken_text(event) if event.content else (heard.text or "" if heard else ""),
        timestamp=event.timestamp,
        invocation_id=event.invocation_id,
        branch=event.branch,
        files=tuple(file for at, part in enumerate(parts) if (file := _file(part, (index, at)))),
        function_calls=tuple(
            CallPart(call.name or "", dumped(call.args), call.id or "", (index, at))
            for at, part in enumerate(parts)
            if (call := part.function_call)
        ),
        function_responses=tuple(
            ResponsePart(answer.name or "", dumped(answer.response), answer.id or "", (index, at))
            for at, part in enumerate(parts)
            if (answer := part.function_response)
        ),
        tags=frozenset([tags] if isinstance(tags, str) else cast("Iterable[str]", tags)),
        index=index,
    )


def _file(part: types.Part, at: tuple[int, int]) -> FileRef | None:
    blob = part.inline_data or part.file_data
    if blob is not None:
        return FileRef(blob.mime_type or "application/octet-stream", at, blob.display_name or "")
    if part.executable_code or part.code_execution_result:
        return FileRef(CODE, at)
    return None


def dumped(value: object) -> str:
    """Arguments or results of a tool as JSON."""
    return json.dumps(value or {}, ensure_ascii=False, default=str)


# --- and back -------------------------------------------------------------------------------------


def to_events(
    chosen: Sequence[Entry], pinned: Sequence[Entry], events: Sequence[Event], originals: Iterable[Entry]
) -> list[Event]:
    """Entries as events for ADK to make contents of; an entry that did not change is its own event."""
    before = {entry.index: entry for entry in originals if entry.kind == "event"}
    entries = sorted((*chosen, *pinned), key=lambda entry: entry.index)
    calls = {call.id for entry in entries for call in entry.function_calls}
    paired = calls & {answer.id for entry in entries for answer in entry.function_responses}
    always = {call.id for entry in pinned for call in entry.function_calls}
    made: list[Event] = []
    for entry in entries:
        entry, original = _worded(entry, paired | always), before.get(entry.index)
        same = entry.kind == "event" and _same(entry, original)
        made.append(events[entry.index] if same else _event(entry, events, original))
    return made


def _same(entry: Entry, original: Entry | None) -> bool:
    return original is not None and replace(entry, tier=original.tier) == original


def _worded(entry: Entry, keep: set[str]) -> Entry:
    """The entry with calls and results that lost their other half in words."""
    lone_calls = tuple(call for call in entry.function_calls if call.id not in keep)
    lone_answers = tuple(answer for answer in entry.function_responses if answer.id not in keep)
    if not lone_calls and not lone_answers:
        return entry
    words = line(
        Entry(kind="state", text=entry.text, function_calls=lone_calls, function_responses=lone_answers)
    )
    return replace(
        entry,
        text=words,
        function_calls=tuple(call for call in entry.function_calls if call.id in keep),
        function_responses=tuple(answer for answer in entry.function_responses if answer.id in keep),
    )


def _event(entry: Entry, events: Sequence[Event], original: Entry | None) -> Event:
    if entry.kind != "event" or original is None:
        content = types.Content(role="user", parts=[types.Part(text=line(entry))])
        return Event(author=USER, branch=entry.branch, timestamp=entry.timestamp, content=content)
    event = events[entry.index]
    source = {
        (entry.index, at): part for at, part in enumerate((event.content and event.content.parts) or [])
    }
    parts = [types.Part(text=entry.text)] if entry.text else []
    for file in entry.files:
        parts.append(_part(events, file.at))
    for call in entry.function_calls:
        parts.append(source.get(call.at) or _part(events, call.at))
    for answer in entry.function_responses:
        parts.append(_answered(_part(events, answer.at), answer))
    role = event.content.role if event.content else ("user" if entry.author == USER else "model")
    return event.model_copy(update={"content": types.Content(role=role, parts=parts)})


def _part(events: Sequence[Event], at: tuple[int, int]) -> types.Part:
    content = events[at[0]].content
    assert content is not None
    assert content.parts is not None
    return content.parts[at[1]]


def _answered(part: types.Part, answer: ResponsePart) -> types.Part:
    """The part with the result as the entry has it, where a filter changed it."""
    given = part.function_response
    assert given is not None
    if dumped(given.response) == answer.result:
        return part
    try:
        response: Any = json.loads(answer.result)
    except ValueError:
        response = {"result": answer.result}
    changed = given.model_copy(
        update={"response": response if isinstance(response, dict) else {"result": response}}
    )
    return part.model_copy(update={"function_response": changed})
