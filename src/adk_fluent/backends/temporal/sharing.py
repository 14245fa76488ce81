"""The server of a folder, which its programs share, and a worker, which the runs of one event loop share.

Each ends with its last user.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import sqlite3
import subprocess
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from contextvars import Context
from pathlib import Path
from threading import Lock
from typing import Any, Final

from adk_fluent._tasks import run_to_end
from adk_fluent.backends.temporal.server import STARTING, DevServer, answers
from adk_fluent.errors import EngineError, sentence, what_happened

_NOTE: Final = "server.db"
"""Who uses the server. One program at a time has it open; who dies then has written nothing."""

_RUNS: Final = "temporal.db"
"""What the server keeps."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS server (port INTEGER, pid INTEGER)",
    "CREATE TABLE IF NOT EXISTS users (pid INTEGER PRIMARY KEY)",
)
_lock = Lock()
_used: dict[Path, DevServer | None] = {}
"""The folders whose servers this program uses, each with its server if it has started that itself."""


def server_of(folder: Path) -> str:
    """The address of the server of a folder, which is started unless it runs, and used from now on.

    Raises:
        EngineError: the folder cannot be written, or the server does not start.
    """
    with _lock:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder) as note:
                return f"127.0.0.1:{_running(folder, note)}"
        except (OSError, sqlite3.Error) as error:
            why = sentence(what_happened(error))
            raise EngineError(
                f'ExecutionConfig(durable="local") keeps runs in {folder}, which cannot be written: {why} '
                "Start the program in another folder."
            ) from error


def _running(folder: Path, note: sqlite3.Connection) -> int:
    """The port of the server."""
    known: tuple[int, int] | None = note.execute("SELECT port, pid FROM server").fetchone()
    if known is None or not (_serves(known[1], folder) and answers(known[0])):
        server = _used[folder] = DevServer(folder / _RUNS)
        server.start()
        known = server.port, server.pid or 0
        note.execute("DELETE FROM server")
        note.execute("INSERT INTO server VALUES (?, ?)", known)
    _used.setdefault(folder, None)
    note.execute("INSERT OR IGNORE INTO users VALUES (?)", (os.getpid(),))
    return known[0]


def _in_child() -> None:
    """Begin anew in a forked process: another thread of its parent may have held the lock."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_in_child)


@atexit.register
def leave_servers() -> None:
    """End the servers that nobody but this program uses; what they know is in their files."""
    with _lock:
        while _used:
            folder, own = _used.popitem()
            with suppress(OSError, sqlite3.Error), _alone(folder) as note:
                note.execute("DELETE FROM users WHERE pid = ?", (os.getpid(),))
                users: list[tuple[int]] = note.execute("SELECT pid FROM users").fetchall()
                if not any(_lives(pid) for (pid,) in users):
                    _end(note, folder, own)


def _end(note: sqlite3.Connection, folder: Path, own: DevServer | None) -> None:
    known: tuple[int, int] | None = note.execute("SELECT port, pid FROM server").fetchone()
    note.execute("DELETE FROM server")
    note.execute("DELETE FROM users")
    if own is not None and known is not None and own.pid == known[1]:
        own.stop()
    elif known is not None and _serves(known[1], folder):
        os.kill(known[1], signal.SIGKILL)


@contextmanager
def _alone(folder: Path) -> Generator[sqlite3.Connection]:
    """What is noted of a folder, while no other program looks at it or starts a server there."""
    note: Any = sqlite3.connect(folder / _NOTE, timeout=2 * STARTING, isolation_level=None)
    with closing(note):
        note.execute("BEGIN EXCLUSIVE")
        for table in _TABLES:
            note.execute(table)
        yield note
        note.execute("COMMIT")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _serves(pid: int, folder: Path) -> bool:
    """Whether a process is the server of a folder, and not another one that has its number by now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is over, or this is no Linux
        if not _lives(pid):
            return False
        asked = subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, check=False)
        command = asked.stdout
    return os.fsencode(folder / _RUNS) in command


Opens = Callable[[], AbstractAsyncContextManager[object]]
"""Gives what several users share, opened anew."""

AGAIN: Final = 1.0
"""Seconds after which a worker that failed is started again."""


@asynccontextmanager
async def shared(key: Hashable, opens: Opens) -> AsyncGenerator[None]:
    """Inside, what has this key in the event loop is open: the first user opens it, the last one closes it.

    It lives in a task with an empty context of its own, so no user's cancellation, span or timeout reaches
    it. If it fails while it is used, it is logged and opened again.

    Raises:
        Exception: what opening it raised, for each user that waited for it.
    """
    here = _shared.setdefault(asyncio.get_running_loop(), {})
    held = here.get(key)
    if held is None or held.task.done():
        held = here[key] = _Shared(opens)
    held.users += 1
    try:
        await asyncio.shield(held.opened)
        yield
    finally:
        held.users -= 1
        if not held.users:
            if here.get(key) is held:
                del here[key]
            held.unused.set()
            await run_to_end(asyncio.wait([held.task]))


class _Shared:
    """Something that is open while it has users."""

    def __init__(self, opens: Opens) -> None:
        self.users = 0
        self.unused: asyncio.Event = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[None] = loop.create_task(self._keep(opens), context=Context())

    async def _keep(self, opens: Opens) -> None:
        while not self.unused.is_set():
            try:
                async with opens():
                    if not self.opened.done():
                        self.opened.set_result(None)
                    await self.unused.wait()
            except Exception as error:
                if not self.opened.done():
                    self.opened.set_exception(error)
                    self.opened.exception()  # the users may be gone
                    return
                _logger.exception("A worker failed; it is started again.")
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN):
                        await self.unused.wait()
            finally:
                if not self.opened.done():  # cancelled with its loop
                    self.opened.cancel()


_logger: Final = logging.getLogger("adk_fluent.durable")
_shared: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Shared]] = (
    weakref.WeakKeyDictionary()
)
