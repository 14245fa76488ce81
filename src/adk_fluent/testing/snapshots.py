"""Runs as stable text, for any snapshot library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from adk_fluent.backends.events import AgentEvent, events_in
from adk_fluent.backends.requests import request_text
from adk_fluent.errors import ArgumentError

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest


class Called(Protocol):
    """A backend that keeps the requests of each agent."""

    @property
    def calls(self) -> Mapping[str, Sequence[LlmRequest]]:
        """Agent → its requests, in order."""
        ...


def snapshot_requests(backend: Called) -> str:
    """Every request that a backend's models got, agent by agent, as text that is the same in every run.

    Agents stand in the order of their names, since parallel branches ask in any order.

    Args:
        backend: one with `.calls`, such as `mock_backend({...})`.

    Raises:
        ArgumentError: it has no `.calls`.
    """
    if not hasattr(backend, "calls"):
        raise ArgumentError(
            f"snapshot_requests() needs a backend with .calls, as mock_backend({{...}}), not {backend!r:.40}."
        )
    blocks: list[str] = []
    for agent in sorted(backend.calls):
        requests = backend.calls[agent]
        for number, request in enumerate(requests, 1):
            of = f", call {number} of {len(requests)}" if len(requests) > 1 else ""
            blocks.append(f"{agent}{of}\n{request_text(request)}")
    return "\n\n".join(blocks) + "\n" * bool(blocks)


def snapshot_events(result: Iterable[AgentEvent]) -> str:
    """Everything that happened in a run, a line each, as text that is the same in every run.

    Ids, times and tokens are left out, pieces of streamed answers too. Events of parallel branches stand
    branch by branch, in the order of the branches' names, where they ran at the same time.

    Raises:
        ArgumentError: it is not the events of a run.

    Example:
        >>> print(snapshot_events([AgentEvent("a", "Hi.", state_delta={"k": 1})]), end="")
        a: Hi.
          k = 1
    """
    events = [event for event in events_in(result, "snapshot_events()") if not event.is_partial]
    return "".join(f"{line}\n" for event in _settled(events) for line in _lines(event))


def _settled(events: list[AgentEvent]) -> Iterator[AgentEvent]:
    """The events, those of branches that ran at the same time branch by branch."""
    together: list[AgentEvent] = []
    for event in events:
        if event.branch is None:
            yield from sorted(together, key=_branch)
            together = []
            yield event
        else:
            together.append(event)
    yield from sorted(together, key=_branch)


def _branch(event: AgentEvent) -> str:
    return event.branch or ""


def _lines(event: AgentEvent) -> Iterator[str]:
    where = f" [{event.branch}]" if event.branch else ""
    yield f"{event.author}{where}: {event.content}" if event.content else f"{event.author}{where}"
    for call in event.tool_calls:
        if call.tool_name != "adk_request_confirmation":  # what it asks follows in words, without ids
            yield f"  calls {call.tool_name}({_text(call.args)})"
    for response in event.tool_responses:
        yield f"  {response.tool_name} gave {_text(response.result)}"
    for part in event.parts:
        kind = part.inline_data.mime_type if part.inline_data else "content that is not text"
        yield f"  [{kind}]"
    for key, value in sorted(event.state_delta.items()):
        yield f"  {key} removed" if value is None else f"  {key} = {_text(value)}"
    for name, number in sorted(event.artifact_delta.items()):
        yield f"  file {name}, version {number}"
    for asked in event.pending:
        yield f"  waits for {asked.awaited}: {asked.message}"
    if event.transfer_to:
        yield f"  hands over to {event.transfer_to}"
    if event.error:
        yield f"  error: {event.error}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
