"""`adk-fluent new`: the folder it writes, and that ADK's own commands open it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Cli, environment
from tests.cli.gemini import Gemini, serve

ADK = [sys.executable, "-W", "ignore", "-m", "google.adk.cli"]
FILES = ["__init__.py", "agent.py", "README.md", ".env.example", ".gitignore"]


def test_the_folder_holds_an_agent_that_runs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new folder has all its files, is drawn, and runs."""
    made = cli("new", "shiny_bot")
    assert (made.code, made.err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "shiny_bot").iterdir()) == sorted(FILES)
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    assert 'writer -. "draft" .-> editor' in cli("viz", "shiny_bot").out
    with serve(Gemini({"writer": "A draft.", "editor": "Shorter."})) as gemini:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        done = cli("run", "shiny_bot", "Hi", "--json")
    result = json.loads(done.out.splitlines()[-1])
    assert (result["text"], result["state"]) == ("Shorter.", {"draft": "A draft."})


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("my-bot", "'my-bot' cannot name this agent folder"),
        ("user", "'user' cannot name this agent folder"),
        ("class", "'class' is a word of Python itself"),
        ("json", "'json' is a Python module already"),
        ("pydantic", "'pydantic' is a Python module already"),
        ("full", "'full' exists and is not an empty folder"),
        ("file.txt", "'file.txt' exists and is not an empty folder"),
    ],
)
def test_a_bad_folder_is_refused(cli: Cli, tmp_path: Path, name: str, line: str) -> None:
    """A name that ADK could not load, or a folder that is in use, is refused and nothing is written."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file.txt").touch()
    before = sorted(path for path in tmp_path.rglob("*"))
    done = cli("new", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"adk-fluent: {line}")
    assert done.err.count("\n") == 1
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(cli: Cli, tmp_path: Path) -> None:
    """A folder that exists and is empty is taken."""
    (tmp_path / "empty_bot").mkdir()
    assert cli("new", tmp_path / "empty_bot").code == 0
    assert (tmp_path / "empty_bot" / "agent.py").is_file()


@pytest.mark.local
def test_adk_run_opens_it(cli: Cli, tmp_path: Path) -> None:
    """`adk run` loads a new folder and answers, on the model in this process."""
    cli("new", "fresh_bot")
    done = subprocess.run(
        [*ADK, "run", "fresh_bot", "Hello"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "[writer]: " in done.stdout
    assert "[editor]: " in done.stdout


@pytest.mark.newest
def test_adk_api_server_serves_it(cli: Cli, tmp_path: Path) -> None:
    """`adk api_server` lists a new folder under its own name, and a run goes through the whole pipeline."""
    cli("new", "served_bot")
    port = _free_port()
    with serve(Gemini({"writer": "A draft.", "editor": "Shorter."})) as gemini:
        variables = environment(
            GOOGLE_API_KEY="none", GOOGLE_GEMINI_BASE_URL=gemini.url, PYTHONUNBUFFERED="1"
        )
        server = subprocess.Popen(
            [*ADK, "api_server", "--host", "127.0.0.1", "--port", str(port), str(tmp_path)],
            cwd=tmp_path,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(server, b"Uvicorn running")
            base = f"http://127.0.0.1:{port}"
            assert _call(f"{base}/list-apps") == ["served_bot"]
            _call(f"{base}/apps/served_bot/users/u/sessions/s", {})
            message = {"role": "user", "parts": [{"text": "Hi"}]}
            run = {"appName": "served_bot", "userId": "u", "sessionId": "s", "newMessage": message}
            events = _call(f"{base}/run", run)
        finally:
            server.terminate()
            server.communicate()
    said = [
        (event["author"], event["content"]["parts"][0]["text"]) for event in events if event.get("content")
    ]
    assert said == [("writer", "A draft."), ("editor", "Shorter.")]
    marks = {event["author"]: event["customMetadata"]["adk_fluent.visibility"] for event in events}
    assert marks == {"writer": "internal", "editor": "user"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(server: subprocess.Popen[bytes], line: bytes) -> None:
    assert server.stdout is not None
    seen = b""
    while line not in seen:
        piece = os.read(server.stdout.fileno(), 4096)
        assert piece, seen.decode()
        seen += piece


def _call(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)
