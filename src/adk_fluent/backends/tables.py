"""A run as a notebook shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from adk_fluent import _html as html

if TYPE_CHECKING:
    from adk_fluent.backends.events import AgentEvent, RunResult


def run_tables(result: RunResult[Any]) -> str:
    """The answer, the events, the state after them, and what the run waits for."""
    rows = [
        (event.author, event.visibility, "\n".join(_happened(event)), "\n".join(_written(event)))
        for event in result
        if not event.is_partial
    ]
    parts = [html.title("Answer"), html.preformatted(result.text)] if result.text else []
    parts += [html.title("What happened"), html.table(["author", "for", "what", "state"], rows)]
    if result.state:
        state = [(key, _shown(value)) for key, value in result.state.items()]
        parts += [html.title("State after it"), html.table(["key", "value"], state)]
    if result.pending:
        waits = [(asked.agent, asked.awaited, asked.message, asked.id) for asked in result.pending]
        parts += [html.title("It waits"), html.table(["agent", "for", "asks", "id"], waits)]
    return "".join(parts)


def _happened(event: AgentEvent) -> Iterator[str]:
    """What an event says and does, a line each."""
    if event.content:
        yield event.content
    for call in event.tool_calls:
        arguments = ", ".join(f"{name}={_shown(value)}" for name, value in call.args.items())
        yield f"calls {call.tool_name}({arguments})"
    for response in event.tool_responses:
        yield f"{response.tool_name} gave {_shown(response.result)}"
    for part in event.parts:
        kind = part.inline_data.mime_type if part.inline_data else None
        yield f"[{kind or 'content that is not text'}]"
    if event.transfer_to:
        yield f"hands over to {event.transfer_to}"
    if event.error:
        yield f"error: {event.error}"


def _written(event: AgentEvent) -> Iterator[str]:
    for key, value in event.state_delta.items():
        yield f"{key} removed" if value is None else f"{key} = {_shown(value)}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
