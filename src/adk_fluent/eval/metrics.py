"""`PrebuiltMetrics`: the metrics that ADK brings, with what each needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

Expectation = Literal["trajectory", "reference"]
Judge = Literal["offline", "model", "cloud"]


class PrebuiltMetrics(StrEnum):
    """The metrics that ADK brings and a verdict can rest on; all give a score from 0 to 1.

    What ADK measures without a verdict, such as tokens and durations, every report says by itself.
    """

    TOOL_TRAJECTORY_AVG_SCORE = "tool_trajectory_avg_score"
    """Whether the tool calls are those that are expected: 1 or 0 a turn, averaged."""
    RESPONSE_MATCH_SCORE = "response_match_score"
    """How many words the answer shares with the reference: ROUGE-1, F-measure."""
    RESPONSE_EVALUATION_SCORE = "response_evaluation_score"
    SAFETY_V1 = "safety_v1"
    FINAL_RESPONSE_MATCH_V2 = "final_response_match_v2"
    """Whether a model takes the answer for the same as the reference."""
    RUBRIC_BASED_FINAL_RESPONSE_QUALITY_V1 = "rubric_based_final_response_quality_v1"
    RUBRIC_BASED_TOOL_USE_QUALITY_V1 = "rubric_based_tool_use_quality_v1"
    RUBRIC_BASED_MULTI_TURN_TRAJECTORY_QUALITY_V1 = "rubric_based_multi_turn_trajectory_quality_v1"
    HALLUCINATIONS_V1 = "hallucinations_v1"
    PER_TURN_USER_SIMULATOR_QUALITY_V1 = "per_turn_user_simulator_quality_v1"
    """Whether the simulated user kept to its plan."""
    MULTI_TURN_TASK_SUCCESS_V1 = "multi_turn_task_success_v1"
    MULTI_TURN_TRAJECTORY_QUALITY_V1 = "multi_turn_trajectory_quality_v1"
    MULTI_TURN_TOOL_USE_QUALITY_V1 = "multi_turn_tool_use_quality_v1"


class Traits(NamedTuple):
    """What a metric needs.

    Attributes:
        judge: who gives the score: code alone, a model, or a service of Google Cloud.
        needs: what a case must state to be judged by it.
        by_rubrics: whether it asks the model about the rubrics of the suite.
        of_user: whether it judges the simulated user.
    """

    judge: Judge
    needs: Expectation | None = None
    by_rubrics: bool = False
    of_user: bool = False


TRAITS: Final[Mapping[PrebuiltMetrics, Traits]] = {
    PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE: Traits("offline", "trajectory"),
    PrebuiltMetrics.RESPONSE_MATCH_SCORE: Traits("offline", "reference"),
    PrebuiltMetrics.FINAL_RESPONSE_MATCH_V2: Traits("model", "reference"),
    PrebuiltMetrics.RUBRIC_BASED_FINAL_RESPONSE_QUALITY_V1: Traits("model", by_rubrics=True),
    PrebuiltMetrics.RUBRIC_BASED_TOOL_USE_QUALITY_V1: Traits("model", by_rubrics=True),
    PrebuiltMetrics.RUBRIC_BASED_MULTI_TURN_TRAJECTORY_QUALITY_V1: Traits("model", by_rubrics=True),
    PrebuiltMetrics.HALLUCINATIONS_V1: Traits("model"),
    PrebuiltMetrics.PER_TURN_USER_SIMULATOR_QUALITY_V1: Traits("model", of_user=True),
    PrebuiltMetrics.RESPONSE_EVALUATION_SCORE: Traits("cloud"),
    PrebuiltMetrics.SAFETY_V1: Traits("cloud"),
    PrebuiltMetrics.MULTI_TURN_TASK_SUCCESS_V1: Traits("cloud"),
    PrebuiltMetrics.MULTI_TURN_TRAJECTORY_QUALITY_V1: Traits("cloud"),
    PrebuiltMetrics.MULTI_TURN_TOOL_USE_QUALITY_V1: Traits("cloud"),
}

DEFAULT_THRESHOLD: Final = 0.5
"""The least score of a listed metric for which no threshold is given."""

BROUGHT: Final[Mapping[Expectation, tuple[PrebuiltMetrics, float]]] = {
    "trajectory": (PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE, 1.0),
    "reference": (PrebuiltMetrics.RESPONSE_MATCH_SCORE, 0.8),
}
"""Expectation → the metric that judges it where the suite lists none, and its threshold.

The thresholds are those that `adk eval` uses without a configuration (`google.adk.evaluation.eval_config`).
"""

CONTAINS: Final = "response_contains"
STATE: Final = "state"
GOAL: Final = "success_criteria"
OWN: Final = (CONTAINS, STATE, GOAL)
"""The names under which a report lists what this package itself judges."""


def metric_name(metric: object) -> str:
    """The name of a metric, given as such or as a member of an enumeration, ours or ADK's."""
    return str(getattr(metric, "value", metric))
