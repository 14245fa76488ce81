"""Runs a native agent as it is, and says where an expression of it does anything else."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest

from adk_fluent.backends.adk.running.native import adopt
from adk_fluent.backends.adk.running.standing import StandingBackend
from adk_fluent.backends.adk.running.unscripted import Scripting
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.mock import MockBackend
from adk_fluent.config import ExecutionConfig

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What one run did.

    Attributes:
        events: author, words, tool calls and results, what was written, and who was handed over to, in order.
        requests: agent → what its model was asked, in order.
        state: the session's state afterwards.
        called: the calls of tools that were recorded, in order.
    """

    events: list[Row]
    requests: Mapping[str, list[Row]]
    state: Mapping[str, Any]
    called: list[Row]


STEADY: Final = "(differs between two native runs)"
"""What stands in a comparison for what the native project itself does differently in each run."""


def steady(one: Played, again: Played, run: Played) -> Played:
    """A run without what differs between two runs of the same native project, such as times and ids."""
    return Played(*(_steady(getattr(one, name), getattr(again, name), getattr(run, name)) for name in _PARTS))


def varying(one: Played, again: Played) -> list[str]:
    """What of two runs of the same native project is not compared, in a line each."""
    pairs = ((name, getattr(one, name), getattr(again, name)) for name in _PARTS)
    return [f"{name}: {differing(mine, theirs)}" for name, mine, theirs in pairs if mine != theirs]


_PARTS: Final = ("events", "requests", "state", "called")


def _steady(one: Any, again: Any, value: Any) -> Any:
    if one == again:
        return value
    if all(isinstance(each, str) for each in (one, again, value)):
        words, others, mine = [_WORDS.split(each) for each in (one, again, value)]
        if len(words) != len(others):
            return STEADY
        if len(words) != len(mine):
            return value
        triples = zip(words, others, mine, strict=True)
        return "".join(text if word == other else STEADY for word, other, text in triples)
    if all(isinstance(each, Mapping) for each in (one, again, value)):
        shared = one.keys() & again.keys()
        return {
            key: _steady(one[key], again[key], held) if key in shared else held for key, held in value.items()
        }
    if all(isinstance(each, list | tuple) for each in (one, again, value)):
        if len(one) != len(again) or len(one) != len(value):
            return value
        made = [_steady(*each) for each in zip(one, again, value, strict=True)]
        return tuple(made) if isinstance(value, tuple) else made
    return STEADY if type(one) is type(again) is type(value) else value


_WORDS: Final = re.compile(r"(\W)")


async def played(value: Any, backend: MockBackend, prompt: str, state: Mapping[str, Any]) -> Played:
    """One run of an agent, a workflow or an app of ADK's, with a script in place of its models."""
    scripting = Scripting(backend.model_for, backend.helper_for, backend.remote_for)
    root = value.root_agent if isinstance(value, App) else value
    scripted = scripting.of(root) if isinstance(root, BaseAgent) else root
    if isinstance(value, App):
        scripted = value.model_copy(update={"root_agent": scripted, "plugins": [*value.plugins]})
    compiled = adopt(scripted, ExecutionConfig())
    compiled.app.plugins.extend(backend.plugins())  # they answer where no copy could be made
    with restoring(backend):
        events = await backend.run(compiled, prompt, session_id="proof", state=dict(state))
    session = await backend.session(compiled, "proof")
    return of(events, backend, session.state)


@contextmanager
def restoring(backend: MockBackend) -> Generator[None]:
    """Give tools their bodies back after a run that took them away."""
    try:
        yield
    finally:
        if isinstance(backend, StandingBackend):
            backend.standing.restore()


def of(events: Iterable[AgentEvent], backend: MockBackend, state: Mapping[str, Any]) -> Played:
    """What there is to compare of a run."""
    requests = {name: [_asked(request) for request in asked] for name, asked in backend.calls.items()}
    kept = {key: value for key, value in state.items() if value is not None}
    called = backend.standing.called if isinstance(backend, StandingBackend) else []
    return Played([row for event in events if any((row := _row(event))[1:])], requests, kept, list(called))


def _row(event: AgentEvent) -> Row:
    actions: Any = getattr(event.raw, "actions", None)
    return (
        event.author,
        event.content or "",
        [(call.tool_name, _without_ids(call.args)) for call in event.tool_calls],
        [(given.tool_name, _without_ids(given.result)) for given in event.tool_responses],
        dict(getattr(actions, "state_delta", None) or {}),
        getattr(actions, "transfer_to_agent", None) or "",
        event.error or "",
    )


def _asked(request: LlmRequest) -> Row:
    contents = [(content.role, [_part(part) for part in content.parts or []]) for content in request.contents]
    config: Any = request.config
    tools: list[Any] = [tool for tool in config.tools or () if hasattr(tool, "model_dump")]
    declared = [tool.model_dump(exclude_none=True) for tool in tools]
    return str(config.system_instruction or ""), contents, sorted(request.tools_dict), declared


def _part(part: Any) -> Row:
    call, given = part.function_call, part.function_response
    return (
        part.text,
        call and (call.name, _without_ids(call.args)),
        given and (given.name, _without_ids(given.response)),
    )


def _without_ids(value: Any) -> Any:
    """A value without the ids that ADK draws for calls, which differ in every run."""
    if isinstance(value, str):
        return _ID.sub("adk-id", value)
    if isinstance(value, Mapping):
        return {key: _without_ids(held) for key, held in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without_ids(held) for held in cast("list[Any]", value)]
    return value


_ID: Final = re.compile(r"\badk-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def differences(one: Played, other: Played) -> list[str]:
    """Where two runs differ, in a line each; none if they are alike."""
    found = [
        f"event {place + 1} is {differing(mine, theirs)}"
        for place, (mine, theirs) in enumerate(zip(one.events, other.events, strict=False))
        if mine != theirs
    ]
    if len(one.events) != len(other.events):
        found.append(f"there are {len(one.events)} events and {len(other.events)}")
    for agent in sorted({*one.requests, *other.requests}):
        if (mine := one.requests.get(agent)) != (theirs := other.requests.get(agent)):
            found.append(f"the model of {agent!r} is asked {differing(mine, theirs)}")
    if one.called != other.called:
        found.append(f"the tools are called with {differing(one.called, other.called)}")
    if one.state != other.state:
        found.append(f"the state afterwards is {differing(dict(one.state), dict(other.state))}")
    return found


def differing(one: object, other: object) -> str:
    """Both values from shortly before the first difference on."""
    mine, theirs = repr(one), repr(other)
    pairs = enumerate(zip(mine, theirs, strict=False))
    first = next((at for at, (a, b) in pairs if a != b), min(len(mine), len(theirs)))
    return f"{_from(mine, first)} and {_from(theirs, first)}"


def _from(text: str, first: int) -> str:
    start = max(first - 60, 0) if len(text) > 200 else 0
    return f"{'…' if start else ''}{text[start : start + 200]}{'…' if start + 200 < len(text) else ''}"
