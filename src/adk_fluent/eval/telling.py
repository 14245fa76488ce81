"""Why a metric gives no score, which ADK only logs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from google.adk.evaluation.evaluator import EvaluationResult, Evaluator

from adk_fluent.errors import what_happened


class Telling(Evaluator):
    """An evaluator of which is told why it fails; ADK only logs that."""

    def __init__(self, inner: Evaluator, complaints: list[str]) -> None:
        self._inner: Any = inner
        self._complaints = complaints

    async def evaluate_invocations(self, *args: Any, **options: Any) -> EvaluationResult:
        """What the evaluator gives; what it raises is noted, and raised again."""
        try:
            with noted(self._complaints):
                result = self._inner.evaluate_invocations(*args, **options)
                return await result if inspect.isawaitable(result) else result
        except Exception as error:
            self._complaints.append(what_happened(error))
            raise


_noting: ContextVar[list[str] | None] = ContextVar("adk_fluent_noting", default=None)
"""Where is noted why a metric gives no score, while one is asked."""


@contextmanager
def noted(complaints: list[str]) -> Generator[None]:
    """Note what ADK logs of a metric that fails, instead of logging it, traceback and all."""
    for name in ("local_eval_service", "llm_as_judge"):
        logging.getLogger(f"google_adk.google.adk.evaluation.{name}").addFilter(_note)  # once, however often
    token = _noting.set(complaints)
    try:
        yield
    finally:
        _noting.reset(token)


def _note(record: logging.LogRecord) -> bool:
    """Whether a line is logged: not if it tells of an error while one listens."""
    complaints, error = _noting.get(), record.exc_info[1] if record.exc_info else None
    if complaints is None or error is None:
        return True
    if (said := what_happened(error)) not in complaints:
        complaints.append(said)
    return False
