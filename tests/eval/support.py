"""A small support desk, with a tool that must never run in an evaluation that mocks it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, StateSchema
from adk_fluent.backends import MockBackend
from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite
from adk_fluent.testing import call_tool, mock_backend

opened: list[str] = []
"""The titles of the tickets that the real tool has opened."""


class Desk(StateSchema):
    intent: str
    confidence: float


def open_ticket(title: str) -> str:
    """Open a ticket."""
    opened.append(title)
    return "T-9"


def find_bill(month: int) -> str:
    """Find a bill."""
    return f"the bill of month {month}"


classifier = Agent("classifier", "gemini-2.5-flash").instruct("Classify.").writes("intent")
resolver = (
    Agent("resolver", "gemini-2.5-flash")
    .instruct("The intent is {intent}.")
    .tools(open_ticket, find_bill)
    .writes("answer")
)
pipeline = classifier >> resolver


def scripted(*answers: Any) -> Callable[[], MockBackend]:
    """What makes a backend in which the resolver gives these answers, in order, in each run of a case."""
    return lambda: mock_backend({"classifier": "billing", "resolver": list(answers)})


TICKET = (call_tool("open_ticket", title="bill"), "Your ticket T-1 is open.")
"""What the resolver does: a tool call, then an answer."""


def desk(
    *cases: FluentCase, answers: Sequence[Any] = TICKET, metrics: Sequence[str] = (), **options: Any
) -> FluentEvalSuite:
    """A suite of these cases on the desk."""
    options.setdefault("backend", scripted(*answers))
    options.setdefault("pipeline", pipeline)
    return FluentEvalSuite(cases=cases, metrics=metrics, **options)


def adk_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, evalset: Path, *options: str
) -> dict[str, bool]:
    """Whether each case of a set passes under the command `adk eval`, on the agent that the source makes."""
    from click.testing import CliRunner
    from google.adk.cli.cli_tools_click import main

    folder = tmp_path / "evaluated_agent"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(source)
    monkeypatch.setattr(sys, "path", list(sys.path))
    logger = logging.getLogger("google_adk")
    level = logger.level
    ran = CliRunner().invoke(main, ["eval", str(folder), str(evalset), *options])
    logger.setLevel(level)
    for name, module in list(sys.modules.items()):  # ADK imports the folder as `agent`
        if str(folder) in str(getattr(module, "__file__", None)):
            del sys.modules[name]
    # since ADK 2 it exits with 1 if one fails
    assert isinstance(ran.exception, SystemExit | None), ran.output
    found: dict[str, bool] = {}
    for history in folder.glob(".adk/eval_history/*.json"):
        stored: Any = json.loads(history.read_text())
        whole = json.loads(stored) if isinstance(stored, str) else stored
        found |= {one["eval_id"]: one["final_eval_status"] == 1 for one in whole["eval_case_results"]}
    return found


def scores(report: FluentEvalReport) -> dict[str, float | None]:
    """The scores of the only run."""
    (result,) = report.case_results
    return {score.metric: score.value for score in result.scores}
