"""Looking inside an expression without running it: what goes into each model call, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.inspection.anatomy import LlmAnatomy, Reach, llm_anatomy
    from adk_fluent.inspection.concerns import DataFlow, data_flow
    from adk_fluent.inspection.explanation import AgentPicture, Explanation, explain
    from adk_fluent.inspection.per_agent import PerAgent

__all__ = [
    "AgentPicture",
    "DataFlow",
    "Explanation",
    "LlmAnatomy",
    "PerAgent",
    "Reach",
    "data_flow",
    "explain",
    "llm_anatomy",
]

__getattr__: Callable[[str], object] = lazy(__name__)
