"""The command itself: help, version, wrong usage, and what it loads."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import adk_fluent
from adk_fluent.cli import look, main
from tests.cli.commands import PIPELINES, ROOT, Cli, environment, process
from tests.limits import LIMIT

pytestmark = pytest.mark.newest  # the same on every release

LOOK = """
import json, sys
from adk_fluent.cli import look, main
try:
    main(sys.argv[1:])
except SystemExit as leaving:
    print(leaving.code, file=sys.stderr)
large = ("google.adk", "google.genai", "pydantic", "rich", "resvg_py", "xllamacpp")
heavy = sorted(m for m in sys.modules if m.startswith(large))
print(json.dumps(heavy), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[str, list[str]]:
    """What a call printed, and which large packages it imported."""
    command = [sys.executable, "-c", LOOK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=LIMIT)
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


def test_help_imports_nothing_large() -> None:
    """`adk-fluent --help` names every command and imports neither ADK nor any other large package."""
    text, heavy = loaded("--help")
    assert all(f"    {command} " in text for command in ("demo", "run", "viz", "new"))
    assert "exit codes: 0 fine, 1 the run failed or the check found errors, 2 wrong usage" in text
    assert heavy == []


def test_drawing_an_expression_does_not_import_adk(tmp_path: Path) -> None:
    """`viz` of an expression leaves google.adk unloaded."""
    (tmp_path / "some.py").write_text("from adk_fluent import Agent\npipeline = Agent('me')\n")
    text, heavy = loaded("viz", str(tmp_path / "some.py"))
    assert text.startswith("flowchart TD\n")
    assert [name for name in heavy if name.startswith("google.adk")] == []


def test_the_version(cli: Cli) -> None:
    """`--version` prints the package's version."""
    assert cli("--version").out == f"adk-fluent {adk_fluent.__version__}\n"


def test_the_module_is_the_command() -> None:
    """`python -m adk_fluent` is the command, exit code included."""
    done = process("viz", "no_such_thing")
    assert done.returncode == 2
    assert done.stderr == b"adk-fluent: There is no module, file or agent folder 'no_such_thing'.\n"


@pytest.mark.parametrize("arguments", [(), ("explode",), ("run", "x", "y", "z"), ("viz",), ("new",)])
def test_wrong_usage_exits_with_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    """A missing or unknown command, or too many arguments, print the usage and exit with 2."""
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "usage: adk-fluent" in done.err


def test_a_reader_that_goes_away_is_no_crash() -> None:
    """When the output's reader closes early, the command ends quietly."""
    command = [sys.executable, "-m", "adk_fluent", "run", str(PIPELINES), "--json"]
    running = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert running.stdout is not None
    running.stdout.close()
    _, error = running.communicate(b"Hi\n" * 3, timeout=LIMIT)
    assert running.returncode == 1
    assert error == b""


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("check",), "--state"),
        (("run", "Hi"), "--state"),
        (("preview", "Hi"), "--state"),
        (("preview", "Hi"), "--answer"),
    ],
)
def test_a_pair_without_a_value_is_told(cli: Cli, command: tuple[str, ...], option: str) -> None:
    """The line names the option that was given wrongly, whichever command it is."""
    name, *rest = command
    done = cli(name, PIPELINES, *rest, option, "tier")
    assert (done.code, done.out, done.err) == (2, "", f"adk-fluent: {option} takes NAME=VALUE, not 'tier'.\n")


@pytest.mark.parametrize("command", ["run", "check", "preview"])
def test_a_key_in_state_is_there_for_each_command(cli: Cli, tmp_path: Path, command: str) -> None:
    """What --state gives is in the session that is run, checked and previewed."""
    (tmp_path / "some.py").write_text(
        "from adk_fluent import S\npipeline = S.require('tier') >> S.fn(lambda state: print(state['tier']))\n"
    )
    rest = [] if command == "check" else ["Hi"]
    done = cli(command, "some.py", *rest, "--state", "tier=gold")
    assert (done.code, done.err) == (0, "" if command == "check" else "gold\n")


def test_a_character_that_a_stream_lacks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an output cannot hold a letter, the rest is there all the same."""
    held = {"stdout": io.BytesIO(), "stderr": io.BytesIO()}
    streams = {name: io.TextIOWrapper(bytes_, encoding="ascii") for name, bytes_ in held.items()}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    assert main(["explain", str(PIPELINES)]) == 0
    assert main(["explain", f"{PIPELINES}:naïve"]) == 2
    for stream in streams.values():
        stream.flush()
    assert b"writer (agent) ? draft" in held["stdout"].getvalue()
    assert b"'na?ve'" in held["stderr"].getvalue()


@pytest.mark.parametrize(("options", "level"), [([], logging.WARNING), (["--debug"], logging.INFO)])
def test_messages_of_others_are_for_debugging(options: list[str], level: int, cli: Cli) -> None:
    """What ADK and its like log is on the terminal with --debug alone."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers, root.level = [], logging.WARNING
    try:
        assert cli("explain", PIPELINES, *options).code == 0
        assert root.level == level
        assert len(root.handlers) == (1 if options else 0)
        for name in ("google_adk", "google.adk", "google_genai", "httpx", "asyncio", "opentelemetry"):
            assert options or not logging.getLogger(name).propagate
    finally:
        root.handlers[:], root.level = handlers, before


def test_what_nobody_foresaw_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of another kind is told with its type."""

    def explain(*_: object, **options: object) -> int:
        raise LookupError("gone\naway")

    monkeypatch.setattr(look, "explain", explain)
    done = cli("explain", PIPELINES)
    assert (done.code, done.out, done.err) == (1, "", "adk-fluent: LookupError: gone away\n")


def test_a_misspelt_command_is_answered_with_the_right_one(cli: Cli) -> None:
    """`chek` names `check`; a word that resembles none lists all commands."""
    done = cli("chek", "x")
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("invalid choice: 'chek'. Did you mean 'check'?")
    assert "choose from" in cli("zzz").err
