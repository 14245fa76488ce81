"""Views of an expression before it runs: the request and the answer of each model call, as text and values.

It turns the facts of `analysis` and the findings of `contracts` into reports, and imports no ADK. Read
`data_flow` in `explanation` first: one agent's inputs and outputs. `llm_anatomy` shows an agent's request in
detail, `explain` joins everything, and `presentation` has the texts and tables of all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.inspection.anatomy import LlmAnatomy, Reach, llm_anatomy
    from adk_fluent.inspection.explanation import AgentPicture, DataFlow, Explanation, data_flow, explain
    from adk_fluent.inspection.presentation import PerAgent

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
