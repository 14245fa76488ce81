"""Tools: what a model can call, as frozen values; made by the factories of `T`."""

from adk_fluent.tools import sources, wrappers

DEFINED = (sources, wrappers)
"""Imported with each module of this package, so that a stored graph finds every tool by its name."""
