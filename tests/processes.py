"""Separate processes that begin with google-adk imported, for tests of what only such a process can show.

Importing google-adk takes longer than most tests. So one process imports it, for all tests of this process,
and each program runs in a fork of that one. A program finds modules that are imported, and nothing that
another one did. To test how a program is started, or what it does before it imports anything, start Python.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import chdir
from importlib.util import find_spec
from multiprocessing import forkserver, get_context
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final

import pytest

from tests.limits import LIMIT

ROOT: Final = Path(__file__).resolve().parent.parent

PROCESSES: Final = get_context("forkserver")
"""Starts processes from the one that has imported everything; there is one, for all that ask for it."""

_RUNS = (
    "adk_fluent.backends.adk",
    "adk_fluent.cli.main",
    "adk_fluent.contracts",
    "adk_fluent.expr.expression_run",
    "adk_fluent.testing",
    "google.adk.agents.remote_a2a_agent",
    "google.adk.workflow._workflow",
)
"""What a run imports; a name that a release lacks is ignored."""
_WORKERS = ("tests.distributed.served", "tests.backends.temporal.served", "tests.backends.temporal.warm")
PROCESSES.set_forkserver_preload([*_RUNS, *(_WORKERS if find_spec("temporalio") else ())])


class Program:
    """A program that runs in a separate process, with its output in files or on a terminal.

    Args:
        code: the program.
        arguments: what it finds in `sys.argv`, behind the name of the program.
        environment: its variables, if not those of this process.
        cwd: where it starts, if not where this process is.
        stdin: the file that it reads.
        terminal: the terminal that its output goes to, instead of files.

    Attributes:
        process: the process.
    """

    def __init__(
        self,
        code: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = os.devnull,
        terminal: str = "",
    ) -> None:
        self._folder = TemporaryDirectory(prefix="adk-fluent-")
        self._outputs = [Path(self._folder.name, name) for name in ("out", "err")]
        self._arguments = [str(argument) for argument in arguments]
        variables = dict(os.environ if environment is None else environment)
        streams = [stdin, *([terminal] * 2 if terminal else map(str, self._outputs))]
        self.process: Any = PROCESSES.Process(
            target=_run,
            args=(code, self._arguments, variables, str(cwd or Path.cwd()), streams),
            daemon=True,  # killed with the process that runs the tests
        )
        start(self.process)

    def wait(self) -> CompletedProcess[str]:
        """Wait until it has ended; kill it, and fail with what it wrote, if it does not end in time."""
        with self._folder:
            self.process.join(LIMIT)
            ended, hangs = self.process.exitcode, self.process.is_alive()
            self.process.kill()
            self.process.join(LIMIT)
            texts = [path.read_text(encoding="utf-8") if path.exists() else "" for path in self._outputs]
        assert not hangs, f"a process did not end within {LIMIT:g} s; it wrote {texts}"
        return CompletedProcess(self._arguments, ended, *texts)


def run(code: str, *arguments: object, **options: Any) -> CompletedProcess[str]:
    """Run a program, as `python -c CODE ARGUMENTS` does, until it ends."""
    return Program(code, *arguments, **options).wait()


def start(process: Any) -> None:
    """Start a process; if it is the first, the one that imports everything before."""
    prepare()
    process.start()


def prepare() -> None:
    """Start the process that imports everything, from the root, unless it runs."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    with chdir(ROOT), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        forkserver.ensure_running()


def run_file(path: Path, *arguments: object, **options: Any) -> CompletedProcess[str]:
    """Run a program in a file, or a folder with a `__main__.py`, as `python PATH ARGUMENTS` does."""
    return run(_FILE, path.resolve(), *arguments, **options)


_FILE = """
import os, runpy, sys
del sys.argv[0]
path = sys.argv[0]
sys.path.insert(0, path if os.path.isdir(path) else os.path.dirname(path))
runpy.run_path(path, run_name="__main__")
"""


def _run(code: str, arguments: list[str], environment: dict[str, str], cwd: str, streams: list[str]) -> None:
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115  # for good
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv[:] = ["-c", *arguments]
    sys.modules["__main__"] = main = ModuleType("__main__")
    try:
        exec(code, vars(main))
    finally:  # as Python does at its end, and a forked process does not
        python: Any = threading
        python._shutdown()
        python = atexit
        python._run_exitfuncs()
