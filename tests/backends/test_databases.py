"""Sessions in databases: turns at once, stale writers, and a server that goes away in the middle."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from adk_fluent import Agent, Route, S, gate, map_over
from adk_fluent.errors import SessionConflictError, SessionError, SessionStoreError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.postgres import Postgres
from tests.backends.support import PlainLlm, close, replies, reply

A, B = Agent("a").writes("a"), Agent("b").writes("b")
NEEDS = pytest.mark.needs("initdb")
Open = Callable[[], BaseSessionService]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL server for these tests."""
    made = Postgres()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def postgres(server: Postgres) -> Iterator[Postgres]:
    """That server, which a test may stop."""
    yield server
    if not server.runs:
        server.start()


@pytest.fixture(params=["sqlite", "database", pytest.param("postgres", marks=NEEDS)])
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Connects to one database as each of several processes would: a service of its own each time."""
    made: list[BaseSessionService] = []
    url = f"sqlite+aiosqlite:///{tmp_path / 'database.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").url

    def open_one() -> BaseSessionService:
        one = SqliteSessionService(str(tmp_path / "s.db")) if request.param == "sqlite" else _database(url)
        made.append(one)
        return one

    yield open_one
    for one in made:
        await close(one)


def _database(url: str) -> DatabaseSessionService:
    return DatabaseSessionService(url)


def new_session() -> str:
    """A session id that nobody has used."""
    return uuid.uuid4().hex


async def texts(service: BaseSessionService, session_id: str) -> list[str]:
    """What was said in a session, in the order in which it is stored."""
    found = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id=session_id)
    assert found is not None
    parts = [part for event in found.events if event.content for part in event.content.parts or ()]
    return [part.text for part in parts if part.text]


COMPOSITES: dict[str, Callable[[], Expr[Any]]] = {
    "one agent": lambda: A,
    "sequence": lambda: A >> S.set(n=1) >> B,
    "parallel": lambda: (A | Agent("c")) >> B,
    "loop": lambda: (A * 1) >> B,
    "fallback": lambda: (A // Agent("c")) >> B,
    "timeout": lambda: A.timeout(60) >> B,
    "map": lambda: S.set(xs=[1]) >> map_over("xs", A) >> B,
    "route": lambda: S.set(k=1) >> Route("k").eq(1, A) >> B,
}


WHERE = [
    *(("sqlite", shape) for shape in COMPOSITES),
    *(("database", shape) for shape in ("one agent", "parallel")),
    *(pytest.param("postgres", shape, marks=NEEDS) for shape in ("one agent", "parallel")),
]
"""Every shape on one store, and on the others those with one and with several writers."""


@pytest.mark.parametrize(("connect", "shape"), WHERE, indirect=["connect"])
async def test_of_two_turns_at_once_none_is_lost(shape: str, connect: Open) -> None:
    """Of two turns on one session at once, both are stored, or one is refused and can be sent again."""
    mine, theirs, session_id = connect(), connect(), new_session()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncGenerator[str, None]:
        asked.set()
        await go_on.wait()
        yield "slow"

    first = COMPOSITES[shape]()
    options: dict[str, Any] = {"session_id": session_id}
    held = replies(lambda request: slow())
    scripted = mock_backend({"a": held, "c": held, "b": "mine"})
    turn = asyncio.create_task(first.run("one", session_service=mine, backend=scripted, **options))
    await asked.wait()
    quick = mock_backend({"a": "quick", "b": "theirs", "c": "third"})
    second = await (A >> B).run("two", session_service=theirs, backend=quick, **options)
    go_on.set()
    (refused,) = await asyncio.gather(turn, return_exceptions=True)
    if isinstance(refused, BaseException):
        assert isinstance(refused, SessionConflictError)
        assert "\n" not in str(refused)
        assert session_id in str(refused)
        assert "Send the prompt again" in str(refused)
        assert isinstance(refused.__cause__, ValueError)
        again = mock_backend({"a": "again", "b": "mine again", "c": "third"})
        await first.run("one", session_service=mine, backend=again, **options)
        assert "again" in await texts(connect(), session_id)
    else:  # this ADK joins both
        assert "slow" in await texts(connect(), session_id)
    assert second.text == "theirs"
    stored = await texts(connect(), session_id)
    assert [text for text in stored if text in ("two", "quick", "theirs")] == ["two", "quick", "theirs"]


async def test_a_whole_conversation_goes_on_after_a_refused_turn(connect: Open) -> None:
    """In a conversation, the turn after a refused one answers from all that is stored."""
    session_id = new_session()
    interrupts = mock_backend({"b": "from elsewhere"})

    async def other_run(request: Any) -> AsyncGenerator[str, None]:
        await B.run("elsewhere", session_id=session_id, session_service=connect(), backend=interrupts)
        yield "mine"

    models = mock_backend({"a": [other_run, "after"]})
    async with A.session(session_id=session_id, session_service=connect(), backend=models) as chat:
        try:
            await chat.send("one")
        except SessionConflictError:
            assert (await chat.send("two")).text == "after"
            sent = [part.text for content in models.calls["a"][-1].contents for part in content.parts or ()]
            assert any(text and "from elsewhere" in text for text in sent)
        else:  # this ADK joins both
            assert {"from elsewhere", "mine"} <= set(await texts(connect(), session_id))


async def test_the_native_runner_tells_of_a_stale_writer_in_the_same_words(tmp_path: Path) -> None:
    """A Runner from `to_runner`, driven as ADK's own are, raises the same error as `run`."""
    path = str(tmp_path / "s.db")
    elsewhere = mock_backend({"b": "x"})

    async def other_run(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        service = SqliteSessionService(path)
        await B.run("elsewhere", session_id="s", session_service=service, backend=elsewhere)
        yield reply("mine")

    agent = A.model(PlainLlm.of(other_run))
    runner = agent.to_runner(session_service=SqliteSessionService(path))
    message = types.Content(role="user", parts=[types.Part(text="go")])
    with pytest.raises(SessionConflictError, match="Another run wrote to session 's'"):
        async for _ in runner.run_async(user_id="user", session_id="s", new_message=message):
            pass


async def test_many_first_turns_at_once_each_get_their_session(connect: Open) -> None:
    """Runs that start at once on an empty database each have their session, at once or when sent again."""
    expression = A >> B

    options: list[dict[str, Any]] = [
        {"session_id": new_session(), "user_id": f"u{number}"} for number in range(8)
    ]
    service = connect()

    async def turn(number: int) -> str:
        backend = mock_backend({"a": "x", "b": f"answer {number}"})
        given = options[number]
        return (await expression.run("go", session_service=service, backend=backend, **given)).text

    async def again(number: int) -> str:
        try:
            return await first[number]
        except SessionError:  # ADK 1.25 runs into tables that it has not made yet
            return await turn(number)

    first = [asyncio.ensure_future(turn(number)) for number in range(8)]
    await asyncio.wait(first)
    answers = [await again(number) for number in range(8)]
    assert answers == [f"answer {number}" for number in range(8)]


# --- a server that goes away ----------------------------------------------------------------------


@NEEDS
async def test_a_server_that_stops_during_a_run_is_named_and_the_prompt_can_be_sent_again(
    postgres: Postgres,
) -> None:
    """When the database stops under a run, one line says so; when it is back, nothing stored is lost."""
    service, session_id = _database(postgres.url), new_session()
    options: dict[str, Any] = {"session_id": session_id, "session_service": service}
    pipeline = A >> S.set(secret="s3cret-value") >> B
    await pipeline.run("one", backend=mock_backend({"a": "a1", "b": "b1"}), **options)

    def stops(request: Any) -> str:
        postgres.stop()
        return "b2"

    with pytest.raises(SessionStoreError) as caught:
        await pipeline.run("two", backend=mock_backend({"a": "a2", "b": stops}), **options)
    told = str(caught.value)
    assert told.startswith(f"DatabaseSessionService cannot reach the database of session {session_id!r}: ")
    assert "Send the prompt again when the database answers." in told
    assert "\n" not in told
    assert "INSERT" not in told
    assert "s3cret-value" not in told
    assert caught.value.__cause__ is not None

    postgres.start()
    assert await texts(service, session_id) == ["one", "a1", "b1", "two", "a2"]
    again = await pipeline.run("two", backend=mock_backend({"a": "a3", "b": "b3"}), **options)
    assert again.text == "b3"
    assert again.state["secret"] == "s3cret-value"
    await close(service)


@NEEDS
async def test_a_restart_between_two_steps_loses_nothing(postgres: Postgres) -> None:
    """A database that was restarted between two steps of a run: the run goes on, or can be sent again."""
    service, session_id = _database(postgres.url), new_session()
    options: dict[str, Any] = {"session_id": session_id, "session_service": service}

    def restarts(request: Any) -> str:
        postgres.stop()
        postgres.start()
        return "b1"

    try:
        result = await (A >> B).run("one", backend=mock_backend({"a": "a1", "b": restarts}), **options)
    except SessionStoreError:
        result = await (A >> B).run("one", backend=mock_backend({"a": "a1", "b": "b1"}), **options)
    assert result.text == "b1"
    stored = await texts(service, session_id)
    assert stored[:2] == ["one", "a1"]
    assert stored[-1] == "b1"
    await close(service)


@NEEDS
async def test_a_database_that_is_not_there_is_one_line(postgres: Postgres) -> None:
    """A run that never reached its database says so, with and without initial state, and no password."""
    postgres.stop()
    service = _database(postgres.url.replace("tester@", "tester:p4ssword@"))
    backend = mock_backend({"a": "x"})
    given: list[dict[str, Any]] = [{}, {"state": {"k": 1}}]
    for options in given:
        with pytest.raises(SessionStoreError, match="cannot reach the database of session 's'") as caught:
            await A.run("go", session_id="s", session_service=service, backend=backend, **options)
        assert "p4ssword" not in str(caught.value)
    with pytest.raises(SessionStoreError, match="cannot reach"):
        await A.resume(session_id="s", approvals={"x": True}, session_service=service, backend=backend)
    with pytest.raises(SessionStoreError, match="cannot reach"):
        await A.rewind(session_id="s", before_invocation_id="i", session_service=service, backend=backend)
    await close(service)


@NEEDS
async def test_a_paused_run_survives_a_restart_of_its_server(postgres: Postgres) -> None:
    """What waits for approval in PostgreSQL goes on after the server and the program were started again."""
    session_id = new_session()
    pipeline = A >> gate(lambda state: True, message="Send {a}?") >> B
    models = {"a": "draft", "b": "sent"}
    service = _database(postgres.url)
    paused = await pipeline.run(
        "go", session_id=session_id, session_service=service, backend=mock_backend(models)
    )
    await close(service)
    postgres.stop()
    postgres.start()
    service = _database(postgres.url)
    (asked,) = paused.pending
    assert asked.message == "Send draft?"
    result = await pipeline.resume(
        session_id=session_id,
        approvals={asked.id: True},
        session_service=service,
        backend=mock_backend(models),
    )
    assert result.text == "sent"
    assert await texts(service, session_id) == ["go", "draft", "sent"]
    await close(service)


# --- what is the store's fault, and what is not ---------------------------------------------------


async def test_a_file_that_another_process_holds_is_one_line(tmp_path: Path) -> None:
    """SQLite that stays locked says what to do, and takes the prompt when it is free again."""
    path = tmp_path / "held.db"
    url = f"sqlite+aiosqlite:///{path}"
    service = DatabaseSessionService(url, connect_args={"timeout": 0.05})
    backend = mock_backend(default="ok", session_service=service)
    await A.run("hi", session_id="s", backend=backend)
    with closing(sqlite3.connect(path)) as other:
        other.execute("begin exclusive")
        with pytest.raises(SessionStoreError) as caught:
            await A.run("hi", session_id="s", backend=backend)
    assert str(caught.value) == (
        "DatabaseSessionService cannot reach the database of session 's': OperationalError: database is "
        "locked. What it took before is kept. Send the prompt again when the database answers."
    )
    assert (await A.run("hi", session_id="s", backend=backend)).text == "ok"
    await close(service)


async def test_what_a_store_cannot_keep_is_named(tmp_path: Path) -> None:
    """A store that refuses a value says which store and session it was, and keeps what it took before."""

    class Full(SqliteSessionService):
        async def append_event(self, session: Any, event: Any) -> Any:
            if event.author == "b":
                raise RuntimeError("disk quota")
            return await super().append_event(session, event)

    service = Full(str(tmp_path / "s.db"))
    backend = mock_backend({"a": "x", "b": "y"})
    with pytest.raises(SessionStoreError) as caught:
        await (A >> B).run("go", session_id="s", session_service=service, backend=backend)
    assert str(caught.value) == (
        "Full failed with session 's': RuntimeError: disk quota. What it took before is kept."
    )
    assert await texts(service, "s") == ["go", "x"]


async def test_a_tool_that_speaks_of_stale_sessions_is_still_the_tool(tmp_path: Path) -> None:
    """An error of a tool is told as the tool's, whatever its words."""

    def look() -> str:
        """Look."""
        raise ValueError("stale session")

    backend = mock_backend({"a": [call_tool("look"), "x"]})
    service = SqliteSessionService(str(tmp_path / "s.db"))
    with pytest.raises(ToolError, match="'look' raised ValueError: stale session"):
        await A.tool(look).run("go", session_service=service, backend=backend)
