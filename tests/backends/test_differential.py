"""One expression, every way to run it: the same events, the same state, the same requests to the models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import BaseModel, PrivateAttr

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, map_over, race, tap, transfer
from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.config import ExecutionConfig
from adk_fluent.testing import mock_backend
from tests.backends.support import Hang, replies, system

APP, USER = "same", "user"


class Size(BaseModel):
    size: int


class Book(BaseLlm):
    """A model that answers from a table and notes what it was asked."""

    _answers: list[Any] = PrivateAttr(default_factory=list[Any])
    _asked: list[LlmRequest] = PrivateAttr(default_factory=list[LlmRequest])

    @classmethod
    def of(cls, *answers: Any) -> Book:
        """Answers in order; the last repeats. A dict is a tool call, an exception is raised."""
        made = cls(model="book")
        made._answers = list(answers)
        return made

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._asked.append(
            llm_request.model_copy(deep=False, update={"contents": list(llm_request.contents)})
        )
        answer = self._answers[min(len(self._asked), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            call: dict[str, Any] = {"id": "call", **answer}
            part = types.Part(function_call=types.FunctionCall(**call))
        else:
            part = types.Part(text=answer)
        if stream and part.text:
            for word in part.text.split():
                piece = types.Content(role="model", parts=[types.Part(text=word)])
                yield LlmResponse(content=piece, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def requests(self) -> list[Any]:
        """What it was asked, as plain data: contents, system instruction, tools and schema."""
        return [
            (
                [content.model_dump(exclude_none=True) for content in request.contents],
                system(request),
                sorted(request.tools_dict),
                str(request.config.response_schema),
            )
            for request in self._asked
        ]


def look(word: str) -> dict[str, str]:
    """Look a word up."""
    return {"found": word}


Shape = Callable[[Callable[..., Book]], Any]


def _agent(model: Callable[..., Book], name: str, *answers: Any) -> Agent[str]:
    return Agent(name, model(*(answers or (f"from {name}",))))


Model = Callable[..., Book]


def _tools(m: Model) -> Any:
    calls = _agent(m, "a", {"name": "look", "args": {"word": "w"}}, "found it")
    return calls.tool(look) >> _agent(m, "b")


def _looping(m: Model) -> Any:
    loop = Loop(_agent(m, "a", "one", "two"), S.counter("n")).until(lambda s: s["n"] == 2)
    return loop >> _agent(m, "b")


def _transferring(m: Model) -> Any:
    inner = Pipeline("p", _agent(m, "a"), transfer("d"), _agent(m, "b"))
    return inner >> Route("n").eq(1, _agent(m, "d"))


def _delegating(m: Model) -> Any:
    boss = _agent(m, "boss", {"name": "transfer_to_agent", "args": {"agent_name": "d"}})
    return boss.delegate(Pipeline("d", _agent(m, "a"), _agent(m, "b")))


def _reusing(m: Model) -> Any:
    agent = _agent(m, "a", "one", "two")
    return agent >> S.set(y=1) >> agent


SHAPES: dict[str, Shape] = {
    "agent": lambda m: _agent(m, "a").instruct("Say {x}.").writes("said"),
    "sequence": lambda m: _agent(m, "a").writes("k") >> _agent(m, "b").instruct("Got {k}.") >> _agent(m, "c"),
    "nested": lambda m: _agent(m, "a") >> Pipeline("q", _agent(m, "b"), S.counter("n")) >> _agent(m, "c"),
    "transforms": lambda m: S.capture("q") >> S.set(y=1) >> S.rename(y="z") >> S.drop("x") >> _agent(m, "a"),
    "tool": _tools,
    "schema": lambda m: _agent(m, "a") >> (_agent(m, "b", '{"size": 3}') @ Size).writes("size"),
    "fan out": lambda m: FanOut("f", _agent(m, "a").writes("ka")) >> _agent(m, "c"),
    "fan out of two": lambda m: (_agent(m, "a") | S.set(side=1).named("side")) >> _agent(m, "c"),
    "loop": _looping,
    "route": lambda m: Route("x").eq(1, _agent(m, "a")).otherwise(_agent(m, "b")) >> _agent(m, "c"),
    "fallback": lambda m: (_agent(m, "a", RuntimeError("no")) // _agent(m, "b")) >> _agent(m, "c"),
    "race": lambda m: race(_agent(m, "a"), _agent(m, "b", RuntimeError("no"))) >> _agent(m, "c"),
    "map": lambda m: map_over("items", _agent(m, "a").instruct("{_item}"), concurrency=1) >> _agent(m, "b"),
    "timeout and tap": lambda m: _agent(m, "a").timeout(60).tap(lambda s: None) >> tap(lambda s: None),
    "transfer": _transferring,
    "delegate": _delegating,
    "reuse": _reusing,
}
UNORDERED = {"fan out of two"}  # whose branches write when they come to it
STATE = {"x": 1, "items": ["i", "j"]}


@dataclass
class Seen:
    """What a run did: events, state after it, and what each model was asked."""

    events: list[tuple[str, str | None, Any]]
    state: dict[str, Any]
    requests: list[Any]


def _events(native: list[Event]) -> list[tuple[str, str | None, Any]]:
    found: list[tuple[str, str | None, Any]] = []
    for event in native:
        if not event.partial:
            parts = (event.content.parts if event.content else None) or []
            text = "".join(part.text or "" for part in parts) or None
            found.append((event.author, text, dict(event.actions.state_delta)))
    return found


async def play(shape: str, way: str) -> Seen:
    """Run a shape in one way; the models, session service and expression are fresh."""
    books: list[Book] = []

    def book(*answers: Any) -> Book:
        books.append(Book.of(*answers))
        return books[-1]

    expression, service = SHAPES[shape](book), InMemorySessionService()
    await service.create_session(app_name=APP, user_id=USER, session_id="s", state=STATE)
    options: dict[str, Any] = {
        "app_name": APP,
        "user_id": USER,
        "session_id": "s",
        "session_service": service,
    }
    await WAYS[way](expression, options)
    session = await service.get_session(app_name=APP, user_id=USER, session_id="s")
    assert session is not None
    stored = [event for event in session.events if event.author != "user"]
    state = {key: value for key, value in session.state.items() if value is not None}
    return Seen(_events(stored), state, [model.requests() for model in books])


async def _native(runner: Runner) -> None:
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id=USER, session_id="s", new_message=message):
        pass


def _runner(app: App, options: dict[str, Any]) -> Runner:
    return Runner(app=app, session_service=options["session_service"])


async def _built(expression: Any, options: dict[str, Any]) -> None:
    await _native(Runner(app_name=APP, agent=expression.build(), session_service=options["session_service"]))


async def _app(expression: Any, options: dict[str, Any]) -> None:
    await _native(_runner(expression.to_app(ExecutionConfig(app_name=APP)), options))


async def _to_runner(expression: Any, options: dict[str, Any]) -> None:
    config = ExecutionConfig(app_name=APP)
    await _native(expression.to_runner(config, session_service=options["session_service"]))


async def _run(expression: Any, options: dict[str, Any]) -> None:
    result = await expression.run("hi", **options)
    assert [(e.author, e.content, e.state_delta) for e in result] == _events([e.raw for e in result])


async def _stream(expression: Any, options: dict[str, Any]) -> None:
    async for _ in expression.stream("hi", **options):
        pass


async def _ask(expression: Any, options: dict[str, Any]) -> None:
    await expression.ask_async("hi", **options)


async def _session(expression: Any, options: dict[str, Any]) -> None:
    async with expression.session(**options) as chat:
        await chat.send("hi")


async def _resumable(expression: Any, options: dict[str, Any]) -> None:
    await expression.run("hi", config=ExecutionConfig(resumable=True), **options)


async def _backend(expression: Any, options: dict[str, Any]) -> None:
    await expression.run("hi", backend=ADKBackend(session_service=options.pop("session_service")), **options)


WAYS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "build": _built,
    "to_app": _app,
    "to_runner": _to_runner,
    "stream": _stream,
    "ask_async": _ask,
    "session": _session,
    "resumable": _resumable,
    "own backend": _backend,
    "run": _run,
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_way_to_run_is_the_same(shape: str) -> None:
    """Native and own entry points give the same events, state and model requests for the same expression."""
    expected = await play(shape, "run")
    assert expected.events
    assert any(expected.requests)
    for way in WAYS:
        found = await play(shape, way)
        if way == "resumable":  # checkpoints are events of their own
            found.events = [event for event in found.events if event[1] or event[2]]
            expected_events = [event for event in expected.events if event[1] or event[2]]
        else:
            expected_events = expected.events
        if shape in UNORDERED:
            found.events, expected_events = sorted(found.events, key=str), sorted(expected_events, key=str)
        assert found.events == expected_events, way
        assert found.state == expected.state, way
        assert found.requests == expected.requests, way


@pytest.mark.parametrize("shape", SHAPES)
def test_asking_without_a_loop_is_the_same(shape: str) -> None:
    """`ask` asks the models the same as `run` does, and gives the same answer."""
    answers: list[Any] = []
    requests: list[Any] = []
    for way in ("ask", "run"):
        books: list[Book] = []

        def book(*given: Any, books: list[Book] = books) -> Book:
            books.append(Book.of(*given))
            return books[-1]

        expression = SHAPES[shape](book)
        if way == "ask":
            answers.append(expression.ask("hi", state=STATE))
        else:
            answers.append(asyncio.run(expression.run("hi", state=STATE)).output)
        requests.append([model.requests() for model in books])
    assert answers[0] == answers[1]
    assert requests[0] == requests[1]


async def test_mapping_over_prompts_is_the_same() -> None:
    """`map` gives for each prompt what `ask_async` gives for it alone."""
    expression = S.capture("q") >> Agent("a").instruct("{q}").writes("x")
    backend = mock_backend({"a": replies(lambda request: system(request)[:3].upper())})
    prompts = ["one", "two", "six"]
    alone = [await expression.ask_async(prompt, backend=backend) for prompt in prompts]
    assert await expression.map(prompts, backend=backend) == alone == ["ONE", "TWO", "SIX"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_running_twice_is_the_same(shape: str) -> None:
    """The same expression over the same models gives the same run each time."""
    one, two = await play(shape, "run"), await play(shape, "run")
    assert (one.events, one.state, one.requests) == (two.events, two.state, two.requests)


async def test_a_mock_asks_what_the_real_backend_asks() -> None:
    """The requests a mock notes are those that the agents' own models would have got."""
    agents = [Agent(name).instruct("Say {x}.").writes(f"k{name}") for name in "ab"]
    books = [Book.of("from a"), Book.of("from b")]
    real = agents[0].model(books[0]) >> agents[1].model(books[1])
    await real.run("hi", state=STATE)
    backend = mock_backend({"a": "from a", "b": "from b"})
    await real.run("hi", state=STATE, backend=backend)
    for name, model in zip("ab", books, strict=True):
        (mocked,), ((contents, instruction, _, _),) = backend.calls[name], model.requests()
        assert [content.model_dump(exclude_none=True) for content in mocked.contents] == contents
        assert system(mocked) == instruction


async def test_events_can_be_stored_as_json() -> None:
    """Everything that a run puts into a session can be written as JSON, checkpoints included."""
    service = InMemorySessionService()
    expression = (Agent("a") | Agent("b")) >> map_over("items", Agent("c")) >> race(Agent("d"), Agent("e"))
    await expression.run(
        "hi",
        backend=mock_backend({"e": Hang()}, default={"k": 1}),
        session_service=service,
        session_id="s",
        state=STATE,
        config=ExecutionConfig(resumable=True),
    )
    session = await service.get_session(app_name="adk_fluent_app", user_id=USER, session_id="s")
    assert session is not None
    assert json.loads(session.model_dump_json())["events"]
