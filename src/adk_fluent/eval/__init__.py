"""Evaluation: cases with what is expected of them, run on ADK's evaluation service, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.eval.cases import FluentCase
    from adk_fluent.eval.comparing import RegressionReport
    from adk_fluent.eval.judges import FluentJudge
    from adk_fluent.eval.metrics import PrebuiltMetrics
    from adk_fluent.eval.report import FluentEvalReport, TagSummary
    from adk_fluent.eval.simulation import UserSimulation
    from adk_fluent.eval.suite import FluentEvalSuite

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = [
    "FluentCase",
    "FluentEvalReport",
    "FluentEvalSuite",
    "FluentJudge",
    "PrebuiltMetrics",
    "RegressionReport",
    "TagSummary",
    "UserSimulation",
]
