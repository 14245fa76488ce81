"""State: transforms between agents, and what functions declare to read and write."""

from adk_fluent.ir.functions import declares

__all__ = ["declares"]
