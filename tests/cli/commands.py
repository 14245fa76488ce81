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
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.limits import LIMIT
from tests.processes import Program

ANSI = re.compile(r"\x1b\[[0-9;]*m")
ROOT = Path(__file__).resolve().parents[2]
PIPELINES = Path(__file__).resolve().parent / "targets" / "pipelines.py"
COMMAND = "import runpy; runpy.run_module('adk_fluent', run_name='__main__', alter_sys=True)"
"""The program that `python -m adk_fluent` is."""


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
    terminal = os.ttyname(outer)
    stdin = os.devnull if typed is None else terminal
    running = Program(COMMAND, *arguments, environment=environment(**more), terminal=terminal, stdin=stdin)
    os.write(inner, typed or b"")
    shown = b""
    while inner in wait([inner, running.process.sentinel], LIMIT):  # what is written comes before the end
        shown += os.read(inner, 4096)
    done = running.wait()
    os.close(outer)
    os.close(inner)
    assert done.returncode == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


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
