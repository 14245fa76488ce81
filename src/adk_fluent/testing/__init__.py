"""Testing pipelines without a model: scripted answers on ADK's real runner."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
