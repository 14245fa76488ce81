"""Tests that need a program which is missing are named at the end, whatever runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import LIMIT

pytestmark = pytest.mark.newest  # the same on every release

ROOT = Path(__file__).resolve().parent.parent

TESTS = """
import pytest

@pytest.mark.needs("no-such-program")
def test_a():
    assert False

@pytest.mark.needs("sh")
def test_b():
    assert True
"""

PLUGIN = """
import sys
sys.path.insert(0, {root!r})
from tests.services import NotRun

def pytest_configure(config):
    config.addinivalue_line("markers", "needs(program): x")
    config.pluginmanager.register(NotRun())
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_what_is_not_run_is_named(tmp_path: Path, workers: list[str]) -> None:
    """A test whose program is missing is left out and named with it; one whose program is here runs."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(PLUGIN.format(root=str(ROOT)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT)
    assert done.returncode == 0, done.stdout
    assert "not run, no-such-program is not installed: test_it.py::test_a" in done.stdout
    assert "1 passed" in done.stdout
    assert "test_b" not in done.stdout
