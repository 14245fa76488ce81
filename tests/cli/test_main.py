"""The command itself: help, version, wrong usage, and what it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import adk_fluent
from tests.cli.commands import PIPELINES, ROOT, Cli, environment, process

LOOK = """
import json, sys
from adk_fluent.cli import main
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
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT)
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
    _, error = running.communicate(b"Hi\n" * 3, timeout=60)
    assert running.returncode == 1
    assert error == b""
