"""The server of a folder, which all programs that use the folder share: it ends with the last of them."""

from __future__ import annotations

import atexit
import os
import signal
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

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
