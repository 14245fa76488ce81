"""`EdgeSemantics`: how text travels from one step to the next, as `.stream_to()` sets it."""

from adk_fluent._lazy import listing
from adk_fluent.ir.annotations import EdgeSemantics

__all__ = ["EdgeSemantics"]


def __dir__() -> list[str]:
    return listing(__name__)
