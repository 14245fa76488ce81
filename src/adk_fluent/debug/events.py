"""Events of JSON again, and what of an event counts when two are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

from adk_fluent.backends.events import AgentEvent, Pending, ToolCallInfo, ToolResponseInfo, Usage

_COUNTS: Final = ("calls", "input_tokens", "output_tokens", "cached_tokens")


def event_from(data: Mapping[str, Any]) -> AgentEvent:
    """An event of what `AgentEvent.to_dict` gave; what is not known of it is left out.

    >>> event_from(AgentEvent("a", "Hi.", state_delta={"k": 1}).to_dict())
    AgentEvent(author='a', content='Hi.', state_delta={'k': 1}, ...)
    """
    given = {each.name: data[each.name] for each in fields(AgentEvent) if each.name in data}
    given["tool_calls"] = [
        ToolCallInfo(each["tool_name"], dict(each["args"]), each["call_id"])
        for each in given.get("tool_calls", ())
    ]
    given["tool_responses"] = [
        ToolResponseInfo(each["tool_name"], each["result"], each["call_id"])
        for each in given.get("tool_responses", ())
    ]
    given["pending"] = tuple(
        Pending(
            each["id"], each["agent"], each["message"], dict(each["payload"]), each.get("kind", "approval")
        )
        for each in given.get("pending", ())
    )
    if (usage := given.get("usage")) is not None:
        calls, given_in, given_out, cached = (int(usage.get(name, 0)) for name in _COUNTS)
        given["usage"] = Usage(calls, given_in, given_out, cached)
    given["parts"] = _parts(given["parts"]) if given.get("parts") else ()
    given.pop("raw", None)
    return AgentEvent(**given)


def _parts(parts: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    from adk_fluent.backends.adk.api import parts as adk_parts

    return adk_parts.parts_from(parts)


_COMPARED: Final = ("content", "parts", "state_delta", "artifact_delta", "transfer_to", "escalate", "error")
"""Fields of an event that are compared as they are."""

_ID: Final = 16
"""Characters of the shortest id that is made up; others are words, such as the name of a session."""


def facts_of(event: AgentEvent) -> dict[str, Any]:
    """What of an event counts, as JSON."""
    data = event.to_dict()
    facts: dict[str, Any] = {name: data[name] for name in _COMPARED if data[name]}
    calls = [{"name": call["tool_name"], "args": call["args"]} for call in data["tool_calls"]]
    results = [{"name": each["tool_name"], "result": each["result"]} for each in data["tool_responses"]]
    asked = [{"agent": e["agent"], "message": e["message"], "payload": e["payload"]} for e in data["pending"]]
    more = {"tool_calls": calls, "tool_responses": results, "pending": asked}
    return facts | {name: value for name, value in more.items() if value}


class IdNames:
    """Gives the ids of a run names that are the same in every run: the order in which they occur."""

    def __init__(self, events: Iterable[AgentEvent]) -> None:
        self._names: dict[str, str] = {}
        for event in events:
            for call in (*event.tool_calls, *event.tool_responses):
                self._name(call.call_id, "call")
            for asked in event.pending:
                self._name(asked.id, "approval")
            self._name(event.invocation_id, "run")
            self._name(event.session_id, "session")
            self._name(event.id, "event")

    def _name(self, key: str, kind: str) -> None:
        if len(key) >= _ID:
            self._names.setdefault(key, f"<{kind} {len(self._names) + 1}>")

    def of_branch(self, branch: str | None) -> str | None:
        """The branch, with the names of the calls inside which its agents run: `child@<id of the call>`."""
        parts = [part.partition("@") for part in (branch or "").split(".")]
        return ".".join(agent + at + self.given_to(key) for agent, at, key in parts) if branch else None

    def given_to(self, value: Any) -> Any:
        """The value, with names in the place of ids."""
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, list):
            return [self.given_to(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: self.given_to(item) for key, item in cast("dict[str, Any]", value).items()}
        return value
