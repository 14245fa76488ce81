"""What a policy leaves alone: the stored history, the next agent's request, and everything but words."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, FanOut, Loop, Route, S, gate, map_over
from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import SERVICES, close, script, session_service
from tests.contracts.pipelines import Failure, sample
from tests.sampling import examples

a, b, c, d = (Agent(name) for name in "abcd")
HI = types.Content(role="user", parts=[types.Part(text="hi")])
CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
Policy = Callable[[Expr[Any]], Expr[Any]]
POLICIES: Mapping[str, Policy] = {
    "annotated": lambda e: e.annotated(),
    "filtered": lambda e: e.filtered(),
    "transparent": lambda e: e.transparent(),
    "hidden": lambda e: e.hide().filtered(),
}


def look(word: str) -> str:
    """Look a word up."""
    return f"found {word}"


def _once(state: Mapping[str, Any]) -> bool:
    return True


PIPELINE = (
    S.set(xs=["x", "y"])
    >> a.writes("k").tool(look)
    >> Route("k").eq("label", Loop(b.writes("l"), S.counter("n"), max_iterations=2))
    >> map_over("xs", c, concurrency=1)
    >> FanOut(Agent("beside") >> S.set(m=1))
    >> (Agent("broken") // Agent("spare"))
    >> gate(_once, message="Send it?")
    >> d.instruct("Use {k} and {l}.")
)
"""Most shapes in one pipeline, in an order that does not change."""

RESPONSES: Mapping[str, Any] = {
    "a": [call_tool("look", word="w"), "label"],
    "broken": RuntimeError("no"),
    "d": "answer",
}


async def _history(
    expression: Expr[Any], service: BaseSessionService, backend: MockBackend, config: ExecutionConfig
) -> str:
    """Run in two turns on a store, through different terminals, and give what is stored then as text."""
    options: Any = {
        "backend": backend,
        "session_service": service,
        "session_id": "s",
        "config": config,
    }
    first = await expression.run("one", **options)
    await expression.resume(approvals={p.id: True for p in first.pending}, **options)
    async with aclosing(expression.stream("two", **options)) as stream:
        pending = [p async for event in stream for p in event.pending]
    await expression.resume(approvals={p.id: False for p in pending}, **options)
    return await _stored(service, config.app_name)


async def _stored(service: BaseSessionService, app: str) -> str:
    session = await service.get_session(app_name=app, user_id="user", session_id="s")
    assert session is not None
    events = [_plain(event) for event in session.events]
    return CHANGING.sub("*", json.dumps([events, session.state], default=str, sort_keys=True))


def _plain(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", exclude={"id", "timestamp", "invocation_id"})


def _sent(request: LlmRequest) -> list[Any]:
    schema = {"response_schema"}  # may be a class, which JSON cannot hold
    plain = request.model_dump(mode="json", exclude={"tools_dict": True, "config": schema})
    return [plain, repr(request.config.response_schema)]


def _requests(backend: MockBackend) -> str:
    calls = {agent: [_sent(request) for request in requests] for agent, requests in backend.calls.items()}
    return CHANGING.sub("*", json.dumps(calls, default=str, sort_keys=True))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("memory", "none"),
        ("memory", "sse"),
        ("sqlite", "sse"),
        pytest.param("database", "none", marks=pytest.mark.newest),
    ],
)
async def test_no_policy_touches_history_or_requests(kind: str, mode: Any, tmp_path: Path) -> None:
    """The stored events, the state, and every agent's requests are the same bytes under every policy."""
    found: dict[str, tuple[str, str]] = {}
    for policy, apply in POLICIES.items():
        service = session_service(kind, _folder(tmp_path, policy))
        backend = mock_backend(RESPONSES, default=_piecewise)
        config = ExecutionConfig(streaming_mode=mode)
        history = await _history(apply(PIPELINE), service, backend, config)
        found[policy] = (history, _requests(backend))
        await close(service)
    history, requests = found["annotated"]
    assert history.count('"label"') > 2  # the words of inner agents are in it
    assert "adk_fluent.visibility" not in history
    assert "answer" in history
    assert "label" in requests
    assert found == dict.fromkeys(POLICIES, (history, requests))


async def _words(request: object) -> Any:
    for word in ("some ", "words"):
        yield word


def _piecewise(request: object) -> Any:
    return _words(request)


def _folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


@pytest.mark.parametrize("kind", SERVICES)
async def test_history_is_what_plain_adk_stores(kind: str, tmp_path: Path) -> None:
    """What `run` stores under `.filtered()` is what ADK's own runner stores for the same native agents."""
    pipeline = a.writes("k") >> (b // c) >> d
    stored: list[str] = []
    for native in (False, True):
        service = session_service(kind, _folder(tmp_path, str(native)))
        backend = script({"a": "label"})
        config = ExecutionConfig()
        if native:
            app = backend.compile(pipeline.node, config).app
            runner = Runner(app=app, session_service=service, auto_create_session=True)
            _ = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
        else:
            await pipeline.filtered().run(
                "hi", backend=backend, session_service=service, session_id="s", config=config
            )
        stored.append(await _stored(service, config.app_name))
        await close(service)
    assert stored[0] == stored[1]


@pytest.mark.parametrize("kind", SERVICES)
async def test_the_plugin_changes_no_more_than_the_mark(kind: str, tmp_path: Path) -> None:
    """With `to_app()` on ADK's own runner the history differs at most by the marks, requests not at all."""
    pipeline = (a.writes("k") >> b.instruct("Use {k}.")).filtered()
    found: list[tuple[str, str]] = []
    for published in (False, True):
        service = session_service(kind, _folder(tmp_path, str(published)))
        backend = script({"a": "label"})
        compiled = backend.compile(pipeline.node)
        app = compiled.published() if published else compiled.app
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        native = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
        assert all(bool((e.custom_metadata or {}).get("adk_fluent.visibility")) is published for e in native)
        session = await service.get_session(app_name=app.name, user_id="user", session_id="s")
        assert session is not None
        events = [{**_plain(event), "custom_metadata": None} for event in session.events]
        found.append((json.dumps([events, session.state], default=str), _requests(backend)))
        await close(service)
    assert found[0] == found[1]
    assert "label" in found[0][0]


# --- random pipelines -----------------------------------------------------------------------------


async def _events(expression: Expr[Any], responses: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """The events of a run until it ended or failed, what it failed with, the history, and the answer."""
    backend, service = mock_backend(responses), InMemorySessionService()
    options: Any = {"backend": backend, "session_service": service, "session_id": "s", "state": state}
    events: list[AgentEvent] = []
    problem = ""
    try:
        async with aclosing(expression.stream("hi", **options)) as stream:
            async for event in stream:
                events.append(event)
    except (ADKFluentError, Failure) as error:
        problem = f"{type(error).__name__}: {error}"
    stored = await _stored(service, "adk_fluent_app")
    return events, CHANGING.sub("*", problem), (stored, _requests(backend))


def _rest(event: AgentEvent) -> str:
    """Everything of an event but its words, as text in which what changes from run to run is starred."""
    kept = (
        event.author, event.state_delta, event.artifact_delta, event.transfer_to, event.escalate,
        event.is_final, event.is_partial, event.end_of_agent, event.agent_state, event.metadata,
        event.branch, event.model, event.usage, event.error, event.visibility,
        [pending.agent for pending in event.pending],
    )  # fmt: skip
    return CHANGING.sub("*", repr(kept))


def _words_of(event: AgentEvent) -> object:
    calls = [(call.tool_name, call.args) for call in event.tool_calls]
    return event.content, event.parts, calls, [(r.tool_name, str(r.result)) for r in event.tool_responses]


@settings(max_examples=examples(150))
@given(st.integers(0, 100_000))
@pytest.mark.newest
def test_filtering_changes_nothing_but_words(seed: int) -> None:
    """A filtered run is the annotated run without the words of what is not for the user, and no more."""
    made = sample(seed)

    async def both() -> Any:
        return (
            await _events(made.expression, made.responses, made.state),
            await _events(made.expression.filtered(), made.responses, made.state),
        )

    (whole, problem, kept), (blank, same_problem, same_kept) = asyncio.run(both())
    assert problem == same_problem
    assert kept == same_kept
    assert [_rest(event) for event in whole] == [_rest(event) for event in blank]
    for one, other in zip(whole, blank, strict=True):
        if one.visibility == "user":
            assert _words_of(one) == _words_of(other)
        else:
            assert _words_of(other) == (None, (), [], [])
            assert other.raw is not None
            assert other.raw.content is None
