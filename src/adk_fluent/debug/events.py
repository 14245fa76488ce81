"""Events of JSON again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

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
