"""Errors of the command line, and how any error becomes one line."""

from __future__ import annotations

from adk_fluent.errors import ADKFluentError, RunError, on_one_line

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
"""The settings one of which Gemini needs."""

MAX_LINE = 400
"""Characters of an error line; providers answer with whole JSON documents."""


class UsageError(ADKFluentError):
    """The command was called wrongly, or its TARGET cannot be loaded; exit code 2."""


class FailedRunError(RunError):
    """A model or tool failed; the message names the agent. The cause is chained; exit code 1."""


def one_line(error: BaseException | str) -> str:
    """The message on one line, cut where it gets long.

    >>> one_line(ValueError("first\\n  second"))
    'first second'
    """
    text = on_one_line(error)
    if not text and isinstance(error, BaseException):
        text = type(error).__name__
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"
