"""The kinds of content that agents take and give."""

from adk_fluent._lazy import listing
from adk_fluent.ir.annotations import ContentSpec, Modality

__all__ = ["ContentSpec", "Modality"]


def __dir__() -> list[str]:
    return listing(__name__)
