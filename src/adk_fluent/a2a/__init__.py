"""Agents that other processes serve over A2A: calling and finding them. Serving is in `serve`."""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
