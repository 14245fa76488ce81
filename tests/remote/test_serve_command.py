"""`adk-fluent serve`: a process that listens, and ends when it is told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from adk_fluent.a2a import DirectoryServer
from tests.cli.commands import Cli
from tests.cli.conftest import cli as cli  # the fixture, under its name
from tests.limits import LIMIT, line_with

pytestmark = pytest.mark.newest

TARGET = """
from adk_fluent import Agent

clerk = Agent("clerk").describe("Pays.")
"""


def test_a_target_is_served_until_the_process_is_told_to_end(tmp_path: Path) -> None:
    """It says where it listens, asks for the token, has a card, and ends with 0 on SIGTERM."""
    (tmp_path / "desk.py").write_text(TARGET)
    command = [sys.executable, "-m", "adk_fluent", "serve", "desk.py:clerk", "--port", "0"]
    environment = {**os.environ, "PAY_TOKEN": "t", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [*command, "--token-env", "PAY_TOKEN", "--store", "served.db"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        found = re.search(r"http://\S+", line_with("http://", process))
        assert found is not None
        card = httpx.get(found[0] + ".well-known/agent-card.json", timeout=LIMIT).json()
        assert (card["name"], card["description"]) == ("clerk", "Pays.")
        assert card["supportedInterfaces"][0]["url"] == found[0]
        assert httpx.get(found[0] + "health", timeout=LIMIT).json() == {"status": "ok"}
        assert httpx.post(found[0], json={}, timeout=LIMIT).status_code == 401
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait(LIMIT)
    assert (process.returncode, told) == (0, "Stopping: running tasks may finish.\n")


def test_durable_tasks_need_a_store(cli: Cli, tmp_path: Path) -> None:
    """They would be lost with the process otherwise: it is wrong usage."""
    (tmp_path / "desk.py").write_text(TARGET)
    told = cli("serve", f"{tmp_path}/desk.py:clerk", "--durable")
    assert told.code == 2
    assert "--durable needs --store, where the tasks outlive this process." in told.err


def test_a_token_that_is_not_there_is_told(cli: Cli, tmp_path: Path) -> None:
    """Nobody is let in by accident: an unset variable is wrong usage."""
    (tmp_path / "desk.py").write_text(TARGET)
    done = cli("serve", "desk.py:clerk", "--token-env", "NOT_SET_HERE")
    assert done.code == 2
    assert done.err.strip().endswith("--token-env: the environment variable NOT_SET_HERE is not set.")


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("no/such.db", "store='no/such.db' cannot be used: unable to open database file."),
        ("desk.py", "store='desk.py' cannot be used: file is not a database."),
        (".", "store='.' cannot be used: unable to open database file."),
        (
            "postgresql+asyncpg://ann:secret@127.0.0.1:1/x",
            "store='postgresql+asyncpg://ann:***@127.0.0.1:1/x' cannot be used: [Errno 111] Connect",
        ),
        ("postgresql://127.0.0.1/x", "takes a file, or a postgresql+asyncpg URL, not postgresql://..."),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line(cli: Cli, tmp_path: Path, store: str, said: str) -> None:
    """It says which and why, without a password and without a traceback."""
    (tmp_path / "desk.py").write_text(TARGET)
    done = cli("serve", "desk.py:clerk", "--port", "0", "--store", store)
    assert done.code != 0
    assert done.err.count("\n") == 1
    assert said in done.err


async def test_every_address_of_this_machine_has_a_url() -> None:
    """Listening everywhere, the server names where it can be called from here."""
    for host in ("", "0.0.0.0"):
        server = DirectoryServer()
        await server.start(host)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)
        await server.stop()
