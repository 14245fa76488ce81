"""Calling the command line inside the test's own process."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_fluent._tracebacks import FULL
from adk_fluent.cli import main
from tests.cli.commands import Cli, Outcome


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Cli]:
    """`cli("run", target, stdin="y")`: the exit code and what was written; runs in an empty folder."""
    modules, loggers = set(sys.modules), dict[str, tuple[bool, list[logging.Handler]]]()
    for name in ("google_adk", "google.adk", "google_genai", "httpx", "asyncio", "opentelemetry"):
        logger = logging.getLogger(name)
        loggers[name] = (logger.propagate, list(logger.handlers))
    monkeypatch.setenv(FULL, "")
    del os.environ[FULL]  # which `--debug` sets; what is noted now is taken back
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    yield call
    for name, (propagate, handlers) in loggers.items():
        logging.getLogger(name).propagate = propagate
        logging.getLogger(name).handlers[:] = handlers
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    # ADK leaves the clients of its Gemini models to the collector. Should that come by in the loop of a later
    # test, it would close their connections on a loop that is gone.
    gc.collect()
    gc.freeze()  # what is left stays: the next time need not look at it
