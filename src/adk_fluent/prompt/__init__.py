"""Prompts: what an agent is told, composed of sections."""

from adk_fluent._lazy import listing
from adk_fluent.prompt.factories import P
from adk_fluent.prompt.spec import Arrangement, PromptSpec

__all__ = ["Arrangement", "P", "PromptSpec"]


def __dir__() -> list[str]:
    return listing(__name__)
