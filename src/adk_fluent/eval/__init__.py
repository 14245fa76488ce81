"""Evaluation: cases with what is expected of them, run on ADK's evaluation service, and what came of it."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
