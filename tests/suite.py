"""Runs a suite of tests within a limit, runs once more what failed, and names the slowest tests.

`python -m tests.suite .venv -m "not faults"` runs pytest with these arguments and passes its output on. Then
it runs each test that failed once more, alone, in a new process: one that passes there is unstable, a fault
that does not depend on the change. The last lines name it, and with more than `MOST_UNSTABLE` the run fails.

A run that takes longer than the limit prints the stacks of its processes and ends, with all that it started.

pytest loads this module, too, as the plugin that notes the outcomes and prints the stacks.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

MOST_REPEATED: Final = 10
"""With more failures than this, something is broken, and none is repeated."""
MOST_UNSTABLE: Final = 3
"""With more unstable tests than this, the run fails."""
SLOWEST: Final = 20
GRACE: Final = 5.0
"""Seconds that processes have to print their stacks."""
PROCESSES: Final = str(min((os.cpu_count() or 1) * 2, 4))
"""Two for each core, since many tests wait; at most four, for the sake of memory."""
BUSY_PER_CORE: Final = 4
SLOWER: Final = 6
"""So many times the usual limits apply beside busy processes."""


@dataclass
class Outcomes:
    """The outcome of each test: pytest notes it, and a file keeps it for the process that started pytest."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """The first line of the error, by the name of the test."""
    without_adk: list[str] = field(default_factory=list[str])
    """The tests that did not use google-adk."""
    path: Path | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one phase of a test."""
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.failed and name not in self.failed:
            self.failed[name] = first_line(report)
        if report.when == "teardown" and ("without_adk", True) in report.user_properties:
            self.without_adk.append(name)

    def pytest_sessionfinish(self) -> None:
        """Keep what was noted."""
        if self.path is not None:
            noted = {"seconds": self.seconds, "failed": self.failed, "without_adk": sorted(self.without_adk)}
            self.path.write_text(json.dumps(noted, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Outcomes:
        """The results that another process stored."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def first_line(report: pytest.TestReport) -> str:
    """The first line of what a test failed with; of a process that crashed, the last line says it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines: list[str] = (crash.message if crash is not None else report.longreprtext).splitlines()
    said = [line.strip() for line in lines if line.strip()]
    return (said[0] if crash is not None else said[-1]) if said else "no message"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the process that starts pytest say where it wants the outcomes."""
    parser.addoption("--outcomes", metavar="FILE", help="keep the outcome of each test in this file")


def pytest_configure(config: pytest.Config) -> None:
    """Print the stacks of all threads on SIGUSR1, and note outcomes where the tests are handed out."""
    faulthandler.register(signal.SIGUSR1, file=os.dup(2), all_threads=True)
    path: str | None = config.getoption("outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(path=Path(path)), "outcomes")


def run(command: Sequence[str], limit: float) -> int | None:
    """Run a program, and return its exit code, or None if it did not end within so many seconds.

    It has its own process group, so that all that it started ends with it.
    """
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"\n== not done after {limit:g} s; the stacks of its processes:", flush=True)
        os.killpg(process.pid, signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def busy(count: int) -> Generator[None]:
    """Keep so many processes computing meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def repeated(failed: dict[str, str], options: Sequence[str], limit: float) -> dict[str, str]:
    """Run each of these tests once more, alone in a new process, and return those that pass."""
    passed: dict[str, str] = {}
    for name, error in failed.items():
        print(f"== once more, alone: {name}", flush=True)
        if run([*PYTEST, *options, name], limit) == 0:
            passed[name] = error
    return passed


PLUGINS: Final = ("-p", "tests.suite", "-p", "tests.adk_use")
PYTEST: Final = (sys.executable, "-m", "pytest", *PLUGINS, "--quiet", "--timeout-method=thread")
"""A thread ends a process whose test takes too long, whatever else waits in it; another takes its place."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a suite; see the docstring of the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite", allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where outcomes are kept: the environment")
    parser.add_argument("--limit", type=float, default=2400, help="seconds that the suite may take")
    parser.add_argument("--processes", default=PROCESSES, help="how many processes run tests")
    parser.add_argument("--loaded", action="store_true", help="run beside busy processes, four per core")
    known, more = parser.parse_known_args(arguments)
    kept = known.folder / ".outcomes.json"
    kept.unlink(missing_ok=True)
    slower, idle = (SLOWER, (os.cpu_count() or 1) * BUSY_PER_CORE) if known.loaded else (1, 0)
    options = [f"--timeout={240 * slower}"] if known.loaded else []
    parallel = ["--numprocesses", known.processes, "--dist", "worksteal"]
    with busy(idle):
        code = run([*PYTEST, *parallel, *options, "--outcomes", str(kept), *more], known.limit * slower)
        outcomes = Outcomes.read(kept) if kept.exists() else Outcomes()
        unstable: dict[str, str] = {}
        if code == 1 and 0 < len(outcomes.failed) <= MOST_REPEATED:
            unstable = repeated(outcomes.failed, options, 300 * slower)
    return told(outcomes, unstable, code)


def told(outcomes: Outcomes, unstable: dict[str, str], code: int | None) -> int:
    """Say what came out, what matters most in the last lines, and return the exit code."""
    slowest = sorted(outcomes.seconds.items(), key=lambda each: -each[1])[:SLOWEST]
    print(f"== the {len(slowest)} slowest tests")
    for name, seconds in slowest:
        print(f"{seconds:8.2f} s  {name}")
    failed = {name: error for name, error in outcomes.failed.items() if name not in unstable}
    for name, error in failed.items():
        print(f"FAILED {name}: {error}")
    for name, error in unstable.items():
        print(f"unstable: {name}: {error}")
    counts = [f"{len(outcomes.seconds) - len(failed)} passed"]
    if failed:
        counts.insert(0, f"{len(failed)} failed")
    if unstable:
        counts.append(f"{len(unstable)} of them only alone, at most {MOST_UNSTABLE} may")
    fine = code == 0 or (code == 1 and not failed and 0 < len(unstable) <= MOST_UNSTABLE)
    if code is None:
        counts.append("not done in time")
    elif not fine and not failed and not unstable:
        counts.append(
            "no test was found" if code == pytest.ExitCode.NO_TESTS_COLLECTED else f"pytest ended with {code}"
        )
    print(f"== result: {', '.join(counts)}", flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
