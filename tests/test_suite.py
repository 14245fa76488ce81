"""The runs of suites: what fails, what hangs, and what fails only once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tests.suite
from tests import sampling
from tests.limits import LIMIT

pytestmark = pytest.mark.newest  # the same on every release

ROOT = Path(__file__).resolve().parent.parent

STACKS_AFTER_A_SECOND = ("-o", "faulthandler_timeout=1")
"""Only for tests that wait: Python may crash where the stacks of code that runs are read."""
UNUSED = ("cacheprovider", "asyncio", "anyio", "hypothesispytest", "adk_fluent.testing.plugin")
"""Plugins that no toy needs, and that take most of the time."""
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert not 'always'\n"
FAILS_ONCE = """
from pathlib import Path

def test_once{n}():
    attempted = Path(__file__).with_name("attempted{n}")
    if not attempted.exists():
        attempted.touch()
        raise ValueError("at first" + chr(10) + "and more")
"""
HANGS = """
import pytest, threading

@pytest.mark.timeout(3)
def test_hangs():
    threading.Event().wait()
"""
HANGS_WHILE_COLLECTED = "import threading\n\nthreading.Event().wait()\n"


class Suite:
    """A folder of tests, which are run as `./dev` runs those of the project."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")

    def keep_outcomes(self) -> str:
        """Keep the outcomes of the last run; the name of the file."""
        return (self._folder / ".outcomes.json").rename(self._folder / "kept.json").name

    def run(self, source: str, *options: str, **more: str) -> tuple[int, list[str], str]:
        """Run a file of tests, and `more`; return the exit code, the lines of the output, what stderr got."""
        sources = {"test_toy": source, **more}
        for name, text in sources.items():
            (self._folder / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "tests.suite", ".", "--processes", "1", *options]
        command += [f"{name}.py" for name in sources]
        without = " ".join(f"-p no:{name}" for name in UNUSED)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": without}
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=2 * LIMIT
        )
        return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A folder of tests."""
    return Suite(tmp_path)


def test_a_suite_that_passes_is_green(suite: Suite) -> None:
    """The last lines have the slowest tests and the result."""
    code, lines, _ = suite.run(PASSES)
    assert code == 0
    assert lines[-3:-1] == ["== the 1 slowest tests", lines[-2]]
    assert lines[-2].endswith(" s  test_toy.py::test_passes")
    assert lines[-1] == "== result: 1 passed"


def test_a_test_that_fails_twice_is_a_failure(suite: Suite) -> None:
    """A failed test runs once more, alone, and its error stands in the last lines."""
    code, lines, _ = suite.run(PASSES + FAILS)
    assert code == 1
    assert "== once more, alone: test_toy.py::test_fails" in lines
    assert lines[-2] == "FAILED test_toy.py::test_fails: AssertionError: assert not 'always'"
    assert lines[-1] == "== result: 1 failed, 1 passed"


def test_a_test_that_fails_at_first_only_is_unstable(suite: Suite) -> None:
    """An unstable test is named with its first error, and the run still passes."""
    code, lines, _ = suite.run(PASSES + FAILS_ONCE.replace("{n}", ""))
    assert code == 0
    assert lines[-2] == "unstable: test_toy.py::test_once: ValueError: at first"
    assert lines[-1].startswith("== result: 2 passed, 1 of them only alone")


@pytest.mark.parametrize(("count", "red"), [(3, False), (4, True)])
def test_many_unstable_tests_are_a_failure(suite: Suite, count: int, red: bool) -> None:
    """Up to three may pass only alone."""
    code, lines, _ = suite.run("".join(FAILS_ONCE.replace("{n}", str(n)) for n in range(count)))
    assert code == int(red)
    assert len([line for line in lines if line.startswith("unstable: ")]) == count


def test_more_than_ten_failures_are_not_repeated(suite: Suite) -> None:
    """Something is broken then, and the run is red at once."""
    code, lines, _ = suite.run("".join(FAILS_ONCE.replace("{n}", str(n)) for n in range(11)))
    assert code == 1
    assert not [line for line in lines if line.startswith(("== once more", "unstable: "))]
    assert lines[-1] == "== result: 11 failed, 0 passed"


def test_a_test_that_hangs_fails_by_its_name(suite: Suite) -> None:
    """A test's own limit ends it with the stacks of its process, even if its threads wait."""
    code, lines, errors = suite.run(PASSES + HANGS, *STACKS_AFTER_A_SECOND)
    assert code == 1
    assert lines[-2].startswith("FAILED test_toy.py::test_hangs: worker 'gw0' crashed while running")
    assert lines[-1] == "== result: 1 failed, 1 passed"
    assert "in test_hangs" in errors


def test_a_suite_that_hangs_ends_with_its_stacks(suite: Suite) -> None:
    """A process that waits outside of every test is ended by the limit of the suite."""
    code, lines, errors = suite.run(HANGS_WHILE_COLLECTED, "--limit", "15")
    assert code == 1
    assert "== not done after 15 s; the stacks of its processes:" in lines
    assert lines[-1].endswith("not done in time")
    assert "most recent call first" in errors


def test_a_suite_without_tests_is_a_failure(suite: Suite) -> None:
    """A suite without tests fails."""
    code, lines, _ = suite.run("")
    assert code == 1
    assert lines[-1] == "== result: 0 passed, no test was found"


def test_a_file_that_cannot_be_imported_is_a_failure(suite: Suite) -> None:
    """A run that ended before its tests is red."""
    code, lines, _ = suite.run("import no_such_module\n")
    assert code == 1
    assert lines[-1].startswith("== result: ")


USES_ADK = """
import subprocess, sys

import pytest

@pytest.fixture(scope="module")
def runner():
    from google.adk import runners

def test_of_a_tree():
    from adk_fluent import Agent
    assert (Agent("a") >> Agent("b")).check().ok

def test_of_a_run():
    from adk_fluent import Agent
    from adk_fluent.testing import mock_backend
    assert Agent("a").ask("hi", backend=mock_backend({"a": "x"})) == "x"

def test_of_a_build():
    from adk_fluent import Agent
    Agent("a", "m").build()

def test_of_a_process():
    subprocess.run([sys.executable, "-c", ""], check=True, timeout=60)
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The tests of three files that `--on-adk` leaves, after a run of all has noted which use google-adk."""
    suite = Suite(tmp_path_factory.mktemp("noted"))
    more = {
        "test_imports": "from google.adk.agents import LlmAgent\n\ndef test_one(): pass\n",
        "test_shares": USES_ADK.partition("def test_of_a_tree")[0]
        + "def test_one(): pass\ndef test_two(runner): pass\ndef test_three(runner): pass\n",
    }
    code, lines, _ = suite.run(USES_ADK, **more)
    assert (code, lines[-1]) == (0, "== result: 8 passed")
    code, lines, _ = suite.run(USES_ADK, "--on-adk", suite.keep_outcomes(), **more)
    assert (code, lines[-1]) == (0, "== result: 6 passed")
    return [line.split()[-1] for line in lines if " s  test_" in line]


def test_tests_that_use_adk_are_noted_and_run_alone(left: list[str]) -> None:
    """Runs, builds and processes count as using it; what is known without it is left out with `--on-adk`."""
    names = {name.partition("::")[2] for name in left if name.startswith("test_toy.py")}
    assert names == {"test_of_a_run", "test_of_a_build", "test_of_a_process"}


def test_a_file_that_has_adk_at_its_top_uses_it(left: list[str]) -> None:
    """Each of its tests counts, as does each one after a shared fixture that used it."""
    others = {name for name in left if not name.startswith("test_toy.py")}
    assert others == {"test_imports.py::test_one", "test_shares.py::test_two", "test_shares.py::test_three"}


def test_beside_busy_processes_tests_have_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--loaded` keeps four processes per core busy while pytest runs, with longer limits, and ends them."""
    seen: list[tuple[bool, float, int]] = []

    def run(command: Sequence[str], limit: float) -> int:
        seen.append(("--timeout=1440" in command, limit, _busy()))
        return 0

    monkeypatch.setattr(tests.suite, "run", run)
    assert tests.suite.main([str(tmp_path), "--loaded", "--limit", "10"]) == 0
    assert seen == [(True, 60, 4 * (os.cpu_count() or 1))]
    assert _busy() == 0
    assert capsys.readouterr().out.endswith("== result: 0 passed\n")


def _busy() -> int:
    """The number of busy child processes."""
    command = ["ps", "-o", "args=", "--ppid", str(os.getpid())]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False).stdout
    return listed.count("while True: pass")


def test_a_sample_of_the_cases_of_a_kind_runs_before_each_change() -> None:
    """Some cases run on each google-adk, more on the newest one, and the rest only where all do."""
    found = [{mark.name for mark in case.marks} for case in sampling.every(4, range(6), before_changes=2)]
    rest = {"newest", "exhaustive"}
    assert found == [set(), rest, {"newest"}, rest, set(), rest]


@pytest.mark.parametrize(
    ("expression", "counts"),
    [("", [300, 5]), ("not faults and not exhaustive", [100, 3]), ("exhaustive", [300, 5])],
)
def test_a_sample_has_a_third_of_the_random_examples(
    monkeypatch: pytest.MonkeyPatch, expression: str, counts: list[int]
) -> None:
    """Only a sample of the cases also takes a third of the random examples."""
    monkeypatch.setattr(sampling, "_sampled", False)  # and, when this ends, as it was
    options = {"markexpr": expression}
    sampling.begin(cast(pytest.Config, SimpleNamespace(getoption=options.get)))
    assert [sampling.examples(count) for count in (300, 5)] == counts
