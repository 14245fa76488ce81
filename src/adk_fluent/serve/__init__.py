"""Serving an expression over A2A."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
