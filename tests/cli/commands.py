"""Calling the command line in a process of its own, and what it is called with."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.limits import LIMIT, in_time

ANSI = re.compile(r"\x1b\[[0-9;]*m")
ROOT = Path(__file__).resolve().parents[2]
PIPELINES = Path(__file__).resolve().parent / "targets" / "pipelines.py"


@dataclass(frozen=True)
class Outcome:
    """What a call of the command line came to."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


def environment(**more: str) -> dict[str, str]:
    """The environment of a process of its own."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def process(*arguments: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[bytes]:
    """`python -m adk_fluent ARGUMENTS` in a process of its own, its output a pipe."""
    command = [sys.executable, "-m", "adk_fluent", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, cwd=cwd, env=environment(**more), timeout=2 * LIMIT)


def in_terminal(*arguments: object, typed: bytes | None = None, **more: str) -> str:
    """What `python -m adk_fluent ARGUMENTS` shows on a terminal, colours included; it must exit with 0.

    Args:
        typed: what a person types there.
    """
    inner, outer = pty.openpty()
    command = [sys.executable, "-m", "adk_fluent", *map(str, arguments)]
    stdin = None if typed is None else outer
    running = subprocess.Popen(command, stdin=stdin, stdout=outer, stderr=outer, env=environment(**more))
    os.close(outer)
    os.write(inner, typed or b"")
    try:
        shown = in_time(_all_of, inner)
    except AssertionError:
        running.kill()
        raise
    os.close(inner)
    assert running.wait(timeout=LIMIT) == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


def _all_of(terminal: int) -> bytes:
    shown = b""
    while piece := _piece(terminal):
        shown += piece
    return shown


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so when the other end is closed
        return b""


def stored(file: Path, session_id: str, app: str = "pipelines") -> list[tuple[str, str]]:
    """Author and text of every event that a session file holds."""
    session = asyncio.run(_session(file, session_id, app))
    return [
        (event.author, part.text)
        for event in session.events
        for part in (event.content.parts if event.content else None) or []
        if part.text
    ]


def state(file: Path, session_id: str, app: str = "pipelines") -> dict[str, Any]:
    """The state that a session file holds."""
    return dict(asyncio.run(_session(file, session_id, app)).state)


async def _session(file: Path, session_id: str, app: str) -> Session:
    service = SqliteSessionService(db_path=str(file))
    session = await service.get_session(app_name=app, user_id="user", session_id=session_id)
    assert session is not None
    return session
