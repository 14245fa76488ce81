"""The kinds of content that agents take and give."""

from adk_fluent._lazy import listing
from adk_fluent.ir.annotations import ContentSpec, Modality

__all__ = ["ContentSpec", "Modality"]

__dir__ = listing(__name__)
