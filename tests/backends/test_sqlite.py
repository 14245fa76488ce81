"""Sessions in one SQLite file: whoever writes waits for the others, and is not refused."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adk_fluent import Agent, S
from adk_fluent.backends.adk.middleware import runs as middleware_runs
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.backends.adk.running.sqlite import OneWriter, Turns, one_writer, sqlite_sessions, turns_of
from adk_fluent.middleware import Context, Middleware
from adk_fluent.testing import mock_backend
from tests.backends.support import close
from tests.limits import LIMIT, in_thread

pytestmark = pytest.mark.newest  # older releases need a driver that is not installed there

STEPS = S.set(a=1) >> Agent("a") >> S.set(b=2) >> Agent("b")


def through_sqlalchemy(path: Path) -> BaseSessionService:
    """ADK's other service for the same kind of file."""
    from google.adk.sessions.database_session_service import DatabaseSessionService

    return DatabaseSessionService(f"sqlite+aiosqlite:///{path}")


def own(path: Path) -> BaseSessionService:
    """A service as a user makes it."""
    return SqliteSessionService(str(path))


class Counts(Middleware):
    """Middleware that keeps a value for each session."""

    def __init__(self) -> None:
        self.calls = self.per_session(list[str])

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.calls(ctx).append("call")


MAKERS: list[Callable[[Path], BaseSessionService]] = [own, sqlite_sessions, through_sqlalchemy]
FEW, MANY = 30, pytest.param(500, marks=[pytest.mark.faults, pytest.mark.timeout(900)])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("runs", [FEW, MANY])
async def test_runs_at_once_share_a_file(
    make: Callable[[Path], BaseSessionService], runs: int, tmp_path: Path
) -> None:
    """None of them hears that the database is locked, and the file has a write-ahead log."""
    path = tmp_path / "sessions.db"
    service, backend = make(path), mock_backend(default="ok")
    running = [
        STEPS.run("hi", session_id=f"s{n}", session_service=service, backend=backend) for n in range(runs)
    ]
    assert [result.text for result in await asyncio.gather(*running)] == ["ok"] * runs
    await close(service)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select count(*) from sessions").fetchone() == (runs,)
        assert file.execute("pragma journal_mode").fetchone() == ("wal",)


async def test_writers_of_a_file_come_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of two services, in two event loops: each waits for its turn, however long that takes."""
    path, writing, most = tmp_path / "sessions.db", 0, 0
    append = SqliteSessionService.append_event

    async def watched(self: SqliteSessionService, session: Session, event: Event) -> Event:
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        try:
            return await append(self, session, event)
        finally:
            writing -= 1

    monkeypatch.setattr(SqliteSessionService, "append_event", watched)

    async def some(name: str) -> None:
        service, backend = own(path), mock_backend(default="ok")
        running = [
            STEPS.run("hi", session_id=f"{name}{n}", session_service=service, backend=backend)
            for n in range(10)
        ]
        await asyncio.gather(*running)

    await asyncio.gather(some("a"), some("b"), *[in_thread(asyncio.run, some(n)) for n in "cd"])
    assert most == 1


def test_a_service_has_one_writer_that_goes_with_it(tmp_path: Path) -> None:
    """Each run finds the same one; services that keep sessions elsewhere are used as they are."""
    service = own(tmp_path / "sessions.db")
    first = Services(service).session_service
    assert isinstance(first, OneWriter)
    assert one_writer(service) is first
    assert one_writer(first) is first
    for other in (InMemorySessionService(), SqliteSessionService(":memory:")):
        assert one_writer(other) is other


async def test_what_middleware_keeps_goes_with_its_session(tmp_path: Path) -> None:
    """A session in a file that is deleted leaves no values of middleware, as one in memory leaves none."""
    service = own(tmp_path / "sessions.db")
    backend = mock_backend(default="ok", session_service=service)
    before = middleware_runs.kept()[1]
    steps = Agent("a").middleware(Counts())
    await steps.run("hi", session_id="s", backend=backend)
    assert middleware_runs.kept()[1] == before + 1
    compiled = backend.compile(steps.node)
    await backend.forget(compiled, session_id="s")
    assert middleware_runs.kept()[1] == before


async def test_who_leaves_the_queue_holds_up_nobody() -> None:
    """A waiter that is cancelled is passed over, and a turn that fails is given on."""
    turns, order = Turns(), list[str]()
    gate = asyncio.Event()

    async def take(name: str, fails: bool = False) -> None:
        async with turns.taken():
            order.append(name)
            if name == "first":
                await gate.wait()
            if fails:
                raise ValueError(name)

    first = asyncio.ensure_future(take("first"))
    waiting = [asyncio.ensure_future(take(name, name == "fails")) for name in ("left", "fails", "last")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    gate.set()
    await asyncio.gather(first, *waiting, return_exceptions=True)
    assert order == ["first", "fails", "last"]


def test_a_queue_is_kept_while_somebody_uses_it() -> None:
    """Two threads get the same one for a key, and nothing is left of it afterwards."""
    found: list[Turns] = []
    held = turns_of("key")
    thread = threading.Thread(target=lambda: found.append(turns_of("key")), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert found == [held]
