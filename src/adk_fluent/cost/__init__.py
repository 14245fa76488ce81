"""Models to choose from, with their prices."""

from adk_fluent.ir.annotations import ModelCandidate

__all__ = ["ModelCandidate"]
