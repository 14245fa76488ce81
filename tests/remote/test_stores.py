"""What a server keeps, in SQLite and PostgreSQL: over a restart, a crash, a database that goes away."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from adk_fluent import Agent, RemoteAgent
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.backends.postgres import Postgres
from tests.limits import LIMIT
from tests.remote.test_server import GATED, instruction, served
from tests.remote.wire import asking, call, message, state, task, task_in, text_of

pytestmark = pytest.mark.newest
NEEDS = pytest.mark.needs("initdb")


@pytest.fixture(scope="module")
def server_of_databases() -> Iterator[Postgres]:
    """A PostgreSQL server for these tests."""
    made = Postgres()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def postgres(server_of_databases: Postgres) -> Iterator[Postgres]:
    """That server, which a test may stop."""
    yield server_of_databases
    if not server_of_databases.runs:
        server_of_databases.start()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDS)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What is given as `store=`."""
    return (
        str(tmp_path / "served.db") if request.param == "sqlite" else request.getfixturevalue("postgres").url
    )


async def changed(store: str, statement: str, **values: Any) -> None:
    """Change what a database holds behind the back of its servers."""
    engine = create_async_engine(store if "://" in store else f"sqlite+aiosqlite:///{store}")
    try:
        async with engine.begin() as connection:
            await connection.execute(text(statement), values)
    finally:
        await engine.dispose()


async def now(url: str, told: dict[str, Any]) -> dict[str, Any]:
    """A task as its server has it now."""
    return (await call(url, asking(told["id"]))).json()["result"]


async def test_a_restart_loses_nothing(store: str) -> None:
    """A task that waits goes on in another server on the same store, with its conversation and state."""
    async with served(GATED, {"clerk": "draft", "teller": "Told."}, store=store) as server:
        asked = await task(server.url, "Go.", parts=[{"text": "Go."}, {"data": {"amount": 5}}])
    assert not [each for each in asyncio.all_tasks() if "a2a" in str(each)]  # nothing waits in this process
    again = mock_backend({"clerk": "again", "teller": "Told."})
    async with A2AServer(GATED, backend=again, store=store) as server:
        told = await task(server.url, "yes", taskId=asked["id"], contextId=asked["contextId"])
    assert state(told) == "COMPLETED"
    assert "clerk" not in again.calls
    assert "Tell draft." in instruction(again.calls["teller"][0])


async def test_a_conversation_goes_on_after_a_restart(store: str) -> None:
    """A caller's next turn is answered with what was said before, by a server that was not there then."""
    near = mock_backend(remotes="real")
    async with served(Agent("clerk"), {"clerk": "I note it."}, store=store) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        session = RemoteAgent("far", endpoint=server.url).session(backend=near)
        await session.send("My name is Ann.")
    again = mock_backend({"clerk": "Ann."})
    later = A2AServer(Agent("clerk"), backend=again, store=store)
    await later.start(port=port)
    try:
        await session.send("Who am I?")
    finally:
        await later.stop()
    assert "My name is Ann." in str(again.calls["clerk"][0].contents)


async def test_tasks_of_a_server_that_died_are_handed_back(store: str) -> None:
    """What was running is failed in the store, and says that it can be sent again."""
    async with served(Agent("clerk"), {"clerk": "ok"}, store=store) as server:
        told = await task(server.url, "Go.")
    running = json.dumps({"state": "TASK_STATE_WORKING"})
    await changed(store, "update tasks set status = :status where id = :id", status=running, id=told["id"])
    long_ago = {"then": datetime(2020, 1, 1), "id": told["id"]}
    await changed(store, "update tasks set last_updated = :then where id = :id", **long_ago)
    async with served(Agent("clerk"), {"clerk": "ok"}, store=store) as server:
        found = await now(server.url, told)
    assert state(found) == "FAILED"
    assert text_of(found) == "The server stopped before this was done. Send it again."


MANY = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.mark.parametrize("clients", [40, pytest.param(500, marks=MANY)])
async def test_many_clients_write_one_file(clients: int, tmp_path: Path) -> None:
    """None of them hears that the database is locked, and every conversation is in the file afterwards."""
    path = tmp_path / "served.db"
    backend = mock_backend({"clerk": lambda request: "Paid."})
    unlimited = httpx.Limits(max_connections=None)
    async with (
        A2AServer(Agent("clerk"), backend=backend, store=path) as server,
        httpx.AsyncClient(timeout=10 * LIMIT, limits=unlimited) as client,
    ):
        headers = {"a2a-version": "1.0"}
        posts = [client.post(server.url, json=message(f"m{n}"), headers=headers) for n in range(clients)]
        answers = [task_in(answer) for answer in await asyncio.gather(*posts)]
    assert [state(each) for each in answers] == ["COMPLETED"] * clients
    with closing(sqlite3.connect(path)) as file:
        kept = [
            file.execute(f"select count(*) from {table}").fetchone()[0] for table in ("tasks", "sessions")
        ]
        assert kept == [clients, clients]
        assert file.execute("pragma journal_mode").fetchone() == ("wal",)


@NEEDS
async def test_a_server_that_starts_leaves_the_tasks_of_others_alone(postgres: Postgres) -> None:
    """On a database that several share, what another one runs goes on."""
    begun, gate = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        begun.set()
        await gate.wait()
        yield "Paid."

    async with served(Agent("clerk"), {"clerk": pieces()}, store=postgres.url) as one:
        running = asyncio.ensure_future(task(one.url, "Go."))
        await begun.wait()
        async with served(Agent("clerk"), {"clerk": "ok"}, store=postgres.url) as other:
            assert state(await task(other.url, "Mine.")) == "COMPLETED"
        gate.set()
        assert state(await running) == "COMPLETED"


@NEEDS
async def test_a_database_that_goes_away_is_one_clear_line_and_comes_back(postgres: Postgres) -> None:
    """A caller hears that it can send it again, and nothing of where the database is; then all goes on."""
    async with served(Agent("clerk"), {"clerk": "ok"}, store=postgres.url) as server:
        assert state(await task(server.url, "first")) == "COMPLETED"
        postgres.stop()
        told = (await call(server.url, message("second"))).json()["error"]["message"]
        assert told == "The tasks of this server cannot be reached. Send it again later."
        postgres.start()
        assert state(await task(server.url, "third")) == "COMPLETED"
        postgres.stop()
        postgres.start()
        assert state(await task(server.url, "fourth")) == "COMPLETED"
