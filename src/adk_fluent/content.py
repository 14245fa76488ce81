"""The kinds of content, such as text and images, that agents accept and produce."""

from adk_fluent._lazy import listing
from adk_fluent.ir.annotations import ContentSpec, Modality

__all__ = ["ContentSpec", "Modality"]


def __dir__() -> list[str]:
    return listing(__name__)
