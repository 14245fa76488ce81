"""Sessions in SQLite files: a write-ahead log, and one writer of this process at a time."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncGenerator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.branch_sessions import SessionsOver
from adk_fluent.errors import ArgumentError

BUSY: Final = 30.0
"""Seconds to wait for another process that writes a SQLite file."""


class Turns:
    """A queue that lets one holder in at a time, first come, first served.

    Unlike `asyncio.Lock` it works across event loops and threads: each `ask()` runs in a loop of its own.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Future[None]] = deque()

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait for the turn, and hold it inside."""
        mine: Future[None] = Future()
        with self._mutex:
            self._queue.append(mine)
            self._admit()
        try:
            if not mine.done():
                await asyncio.wrap_future(mine)
            yield
        finally:
            with self._mutex:
                self._queue.remove(mine)
                self._admit()

    def _admit(self) -> None:
        """Let the first in; one that was cancelled while it waited leaves the queue by itself."""
        if self._queue and not (first := self._queue[0]).done() and first.set_running_or_notify_cancel():
            first.set_result(None)


_turns: WeakValueDictionary[Hashable, Turns] = WeakValueDictionary()
_sessions: WeakValueDictionary[int, OneWriter] = WeakValueDictionary()
_registry = threading.Lock()


def turns_of(key: Hashable) -> Turns:
    """The queue for a key; the same one for as long as somebody holds it."""
    with _registry:
        return _turns.setdefault(key, Turns())


def turns_of_file(path: str | Path) -> Turns:
    """The queue of those who write a file."""
    return turns_of(("file", os.path.realpath(path)))


class OneWriter(SessionsOver):
    """A session service on a SQLite file whose writers wait for each other instead of being refused.

    SQLite lets one connection write at a time. It makes the others wait for a few seconds, in no order, and
    then raises "database is locked". Here the writers of this process queue up. The file gets a write-ahead
    log, so that readers and writers do not wait for each other.
    """

    is_store: ClassVar[bool] = True

    def __init__(self, below: BaseSessionService, path: str) -> None:
        super().__init__(below)
        self._path, self._turns, self._is_ready = path, turns_of_file(path), False

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        async with self._turns.taken():
            if not self._is_ready:
                await asyncio.to_thread(use_write_ahead_log, self._path)
                self._is_ready = True
            yield

    async def create_session(self, **options: Any) -> Session:
        """Create a session when nothing else is being written."""
        async with self._turn():
            return await self.below.create_session(**options)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event when nothing else is being written; pieces of an answer are not stored."""
        if event.partial:
            return await self.below.append_event(session=session, event=event)
        async with self._turn():
            return await self.below.append_event(session=session, event=event)

    async def delete_session(self, **options: Any) -> None:
        """Delete a session when nothing else is being written."""
        async with self._turn():
            await self.below.delete_session(**options)


def one_writer(service: BaseSessionService) -> BaseSessionService:
    """The service, with writers that wait for each other where it keeps sessions in a SQLite file."""
    path = None if isinstance(service, SessionsOver) else private.sqlite_file(service)
    if path is None:
        return service
    with _registry:
        found = _sessions.get(id(service))  # its id is taken for as long as the found one holds it
    if found is None:
        made = OneWriter(service, path)
        with _registry:
            found = _sessions.setdefault(id(service), made)
    return found


def use_write_ahead_log(path: str | Path) -> None:
    """Give a SQLite file a write-ahead log, which stays with it; a file that is in use keeps what it has."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY)) as file:
            file.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error:
        return  # the session service tells what is wrong with the file


def sqlite_sessions(path: Path) -> BaseSessionService:
    """Sessions kept in a SQLite file; it is made when missing.

    Raises:
        ArgumentError: it cannot be opened, is none of SQLite's, or an older ADK made it.
    """
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    try:
        # ADK would open it in each turn, in a thread that goes on after a failure and may outlive the loop.
        with closing(sqlite3.connect(path, timeout=BUSY)) as file:
            file.execute("PRAGMA schema_version")
        return SqliteSessionService(db_path=str(path))
    except (sqlite3.Error, RuntimeError) as error:  # the second is ADK's, of an older file
        why = error.__cause__ or error
        raise ArgumentError(f"The session file {str(path)!r} cannot be used: {why}.") from why
