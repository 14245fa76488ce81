"""A small support desk, with a tool that must never run in an evaluation that mocks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adk_fluent import Agent, StateSchema
from adk_fluent.backends import MockBackend
from adk_fluent.eval import FluentCase, FluentEvalSuite
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
