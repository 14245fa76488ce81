"""Dependency injection: objects that tools, callbacks and steps receive by name, and their lifetime."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
