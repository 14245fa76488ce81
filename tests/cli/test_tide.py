"""`adk-fluent tide`: what it prints and the codes it ends with, on whatever google-adk is installed."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

from adk_fluent.tide.diff import diff
from adk_fluent.tide.report import document, text
from adk_fluent.tide.scan import reference
from codegen.store import stored_scans
from tests.cli.commands import Cli, environment
from tests.limits import LIMIT

INSTALLED = importlib.metadata.version("google-adk")


def test_tide_tells_what_the_installed_adk_changed(cli: Cli) -> None:
    """The installed release is compared with the reference: one line and 0 if they are equal, else 1."""
    stored = {scan.adk_version: scan for scan in stored_scans()}
    expected = diff(reference(), stored[INSTALLED])
    done = cli("tide")
    assert (done.code, done.out, done.err) == (0 if expected.is_empty else 1, f"{text(expected)}\n", "")
    assert expected.is_empty is (reference().adk_version == INSTALLED)
    assert (len(done.out.splitlines()) == 1) is expected.is_empty
    machine = cli("tide", "--json")
    assert (machine.code, machine.out, machine.err) == (done.code, f"{document(expected)}\n", "")
    assert json.loads(machine.out)["after"] == INSTALLED


@pytest.mark.parametrize("arguments", [("now",), ("--yaml",)])
def test_wrong_use_of_tide(cli: Cli, arguments: tuple[str, ...]) -> None:
    """It takes no TARGET and no option that it does not know: exit code 2."""
    done = cli("tide", *arguments)
    assert (done.code, done.out) == (2, "")
    assert arguments[0] in done.err


BREAKING = """
import importlib.abc, sys
class Breaking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "google.adk.agents.loop_agent": raise {}
sys.meta_path.insert(0, Breaking())
from adk_fluent.cli import main
sys.exit(main(["tide", *sys.argv[1:]]))
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own with these arguments."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=2 * LIMIT)


@pytest.mark.parametrize(
    ("raised", "told"),
    [("ImportError('no such wheel')", "no such wheel"), ("ValueError('odd')", "ValueError: odd")],
)
@pytest.mark.newest
def test_a_broken_adk_is_reported(raised: str, told: str) -> None:
    """A module of ADK that cannot be imported is told with the reason, no traceback, and the code is 1."""
    code = BREAKING.format(raised)
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0].endswith(" unread.")
    assert f"  LoopAgent: {told}\n" in done.stdout
    machine = python("-c", code, "--json")
    assert (machine.returncode, machine.stderr) == (1, "")
    assert json.loads(machine.stdout)["not_compared"]["LoopAgent"] == told


def test_no_adk_at_all() -> None:
    """Where google-adk is not installed, one line says how to install it."""
    done = python("-S", "-m", "adk_fluent", "tide")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "adk-fluent: google-adk is not installed: pip install 'google-adk>=1.25,<3'\n"


def test_importing_the_library_does_not_load_it() -> None:
    """What only this command needs costs nobody else: `import adk_fluent` leaves it alone."""
    done = python("-c", "import sys, adk_fluent; print([m for m in sys.modules if '.tide' in m])")
    assert (done.stdout, done.stderr) == ("[]\n", "")
