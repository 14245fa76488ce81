"""Visibility of steps: `user`, `internal` (only other agents see the text) or `zero_cost` (no text)."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
