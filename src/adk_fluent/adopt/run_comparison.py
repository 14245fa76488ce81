"""Runs a native agent as it is, and says where an expression of it does anything else."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic_core import to_jsonable_python

from adk_fluent.adopt.native_runs import as_compiled
from adk_fluent.adopt.tool_stubs import StandingBackend
from adk_fluent.backends.adk.api import Scripting
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


class ProvidedArtifacts(InMemoryArtifactService):
    """An artifact service that has a text for each of some files, in every session, until a run saves it.

    Attributes:
        provided: the names of these files.
    """

    provided: tuple[str, ...] = ()

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Load what a run saved, or else the text that is provided."""
        found = await super().load_artifact(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id, version=version
        )
        if found is None and filename in self.provided:
            return types.Part(text=f"(what is in {filename})")
        return found


STEADY: Final = "(differs between two native runs)"
"""What stands in a comparison for what the native project itself does differently in each run."""


def steady(one: Played, again: Played, other: Played) -> tuple[Played, Played]:
    """The first and the last of three runs, without what two native runs do differently."""
    pairs = [_steady(getattr(one, name), getattr(again, name), getattr(other, name)) for name in _PARTS]
    return Played(*(mine for mine, _ in pairs)), Played(*(theirs for _, theirs in pairs))


def varying(one: Played, again: Played) -> list[str]:
    """What of two runs of the same native project is not compared: a line each, with its name first."""
    pairs = {"events": (one.events, again.events), "state": (one.state, again.state)}
    pairs |= {
        f"requests of {agent}": (one.requests.get(agent), again.requests.get(agent))
        for agent in {**one.requests, **again.requests}
    }
    pairs["calls of tools"] = (one.called, again.called)
    return [f"{name}: {differing(*pair)}" for name, pair in pairs.items() if pair[0] != pair[1]]


_PARTS: Final = ("events", "requests", "state", "called")


def _steady(one: Any, again: Any, other: Any) -> tuple[Any, Any]:
    """The first and the last value, with `STEADY` where the first differs from the second."""
    if one == again:
        return one, other
    three = (one, again, other)
    if all(isinstance(each, str) for each in three):
        mine, theirs = _steady_items(*(_WORDS.split(each) for each in three), words=True)
        return "".join(mine), "".join(theirs)
    if all(isinstance(each, Mapping) for each in three):
        return _steady_entries(one, again, other)
    if all(isinstance(each, list | tuple) for each in three):
        made = _steady_items(*(list(each) for each in three))
        mine, theirs = [tuple(each) if isinstance(one, tuple) else each for each in made]
        return mine, theirs
    return (STEADY, STEADY) if type(other) in (type(one), type(again)) else (one, other)


def _steady_entries(one: Mapping[Any, Any], again: Mapping[Any, Any], other: Mapping[Any, Any]) -> Any:
    """Entries under the keys of both native runs; where these have others, so may the last run."""
    pairs = {key: _steady(one[key], again[key], other[key]) for key in one if key in again and key in other}
    mine, theirs = [{key: pair[at] for key, pair in pairs.items()} for at in (0, 1)]
    mine |= {key: one[key] for key in one if key in again and key not in other}
    if one.keys() == again.keys():
        theirs |= {key: held for key, held in other.items() if key not in one}
    return mine, theirs


def _steady_items(
    one: list[Any], again: list[Any], other: list[Any], *, words: bool = False
) -> tuple[list[Any], list[Any]]:
    """Items place by place; where their number varies, all between what begins and ends alike is left out."""
    varies = len(one) != len(again) or (words and len(one) != len(other))
    if not varies:
        places = list(zip(one, again, other, strict=False))
        pairs = [
            ((mine, theirs) if mine == same else (STEADY, STEADY)) if words else _steady(mine, same, theirs)
            for mine, same, theirs in places
        ]
        left = len(pairs)
        return [mine for mine, _ in pairs] + one[left:], [theirs for _, theirs in pairs] + other[left:]
    begin = _alike(one, again)
    rest = min(len(one), len(again)) - begin
    end = min(_alike(one[::-1], again[::-1]), rest)
    if len(other) < begin + end:
        return one, other
    mine, theirs = [[*run[:begin], STEADY, *run[len(run) - end :]] for run in (one, other)]
    return mine, theirs


def _alike(one: list[Any], again: list[Any]) -> int:
    """How many items two lists begin with that are equal."""
    pairs = enumerate(zip(one, again, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(again)))


_WORDS: Final = re.compile(r"(\W)")


async def played(value: Any, backend: MockBackend, prompt: str, state: Mapping[str, Any]) -> Played:
    """One run of an agent, a workflow or an app of ADK's, with a script in place of its models."""
    scripting = Scripting(backend.model_for, backend.helper_for, backend.remote_for)
    root = value.root_agent if isinstance(value, App) else value
    scripted = scripting.of(root) if isinstance(root, BaseAgent) else root
    if isinstance(value, App):
        scripted = value.model_copy(update={"root_agent": scripted, "plugins": [*value.plugins]})
    compiled = as_compiled(scripted, ExecutionConfig())
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
    kept = {key: _as_stored(value) for key, value in state.items() if value is not None}
    called = backend.standing.called if isinstance(backend, StandingBackend) else []
    return Played([row for event in events if any((row := _row(event))[1:])], requests, kept, list(called))


def _row(event: AgentEvent) -> Row:
    actions: Any = getattr(event.raw, "actions", None)
    written: dict[str, Any] = getattr(actions, "state_delta", None) or {}
    return (
        event.author,
        event.content or "",
        [(call.tool_name, _without_ids(call.args)) for call in event.tool_calls],
        [(given.tool_name, _without_ids(given.result)) for given in event.tool_responses],
        {key: _as_stored(value) for key, value in written.items()},
        getattr(actions, "transfer_to_agent", None) or "",
        event.error or "",
    )


def _as_stored(value: Any) -> Any:
    """A value as stores hold it, without `None` in it: ADK leaves such fields of typed answers out."""
    return _without_none(to_jsonable_python(value, fallback=repr))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return {key: _without_none(inner) for key, inner in held.items() if inner is not None}
    return [_without_none(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


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
