"""ADK's evaluation of a conversation, without the packages that its own service needs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from google.adk.evaluation.base_eval_service import EvaluateRequest, InferenceResult, InferenceStatus
from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, EvalMetricResult, EvalMetricResultPerInvocation
from google.adk.evaluation.eval_result import EvalCaseResult
from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, Evaluator, PerInvocationResult

from adk_fluent.backends.adk.api import knowingly
from adk_fluent.errors import MissingExtraError, install, what_happened
from adk_fluent.eval.adk_evaluators import ROUGE, TRAJECTORY, RougeEvaluator
from adk_fluent.eval.adk_sets import USER


def evaluator_class(name: str) -> type[Evaluator]:
    """What scores a metric of ADK's.

    Raises:
        MissingExtraError: it needs what is not installed.
    """
    if name == ROUGE:
        return RougeEvaluator
    module, attribute = _LIGHT.get(name, ("", ""))
    try:
        with knowingly():
            return getattr(import_module(f"google.adk.evaluation.{module}"), attribute)
    except (ImportError, AttributeError) as error:
        raise MissingExtraError(
            f"The metric {name!r} needs packages that are not installed: {install('eval')}."
        ) from error


_LIGHT: Final = {
    TRAJECTORY: ("trajectory_evaluator", "TrajectoryEvaluator"),
    "final_response_match_v2": ("final_response_match_v2", "FinalResponseMatchV2Evaluator"),
    "rubric_based_final_response_quality_v1": (
        "rubric_based_final_response_quality_v1",
        "RubricBasedFinalResponseQualityV1Evaluator",
    ),
    "rubric_based_tool_use_quality_v1": (
        "rubric_based_tool_use_quality_v1",
        "RubricBasedToolUseV1Evaluator",
    ),
    "rubric_based_multi_turn_trajectory_quality_v1": (
        "rubric_based_multi_turn_trajectory_evaluator",
        "RubricBasedMultiTurnTrajectoryEvaluator",
    ),
    "hallucinations_v1": ("hallucinations_v1", "HallucinationsV1Evaluator"),
    "per_turn_user_simulator_quality_v1": (
        "simulation.per_turn_user_simulator_quality_v1",
        "PerTurnUserSimulatorQualityV1",
    ),
}
"""Metric → the module and class that score it and can be imported without the extra `eval`."""


class LightService:
    """`evaluate` as ADK's service has it, for one case, on the evaluators that need nothing more."""

    def __init__(
        self,
        case: EvalCase,
        evaluators: Mapping[str, type[Evaluator]],
        complaints: Mapping[str, list[str]],
    ) -> None:
        self._case, self._evaluators, self._complaints = case, evaluators, complaints

    async def evaluate(self, evaluate_request: EvaluateRequest) -> Any:
        """The result of each conversation."""
        for inference in evaluate_request.inference_results:
            yield await self._result(inference, evaluate_request.evaluate_config.eval_metrics)

    async def _result(self, inference: InferenceResult, metrics: Sequence[EvalMetric]) -> EvalCaseResult:
        played = inference.inferences or []
        expected = self._case.conversation
        failed = inference.status == InferenceStatus.FAILURE
        turns = [
            EvalMetricResultPerInvocation(
                actual_invocation=did,
                expected_invocation=expected[index] if expected and index < len(expected) else None,
                eval_metric_results=[],
            )
            for index, did in enumerate(() if failed else played)
        ]
        overall = [await self._judge(one, played, expected, turns) for one in (() if failed else metrics)]
        states = {result.eval_status for result in overall}
        status = next(
            (one for one in (EvalStatus.FAILED, EvalStatus.PASSED) if one in states),
            EvalStatus.FAILED if failed else EvalStatus.NOT_EVALUATED,
        )
        return EvalCaseResult(
            eval_set_id=inference.eval_set_id,
            eval_id=inference.eval_case_id,
            final_eval_status=status,
            overall_eval_metric_results=overall,
            eval_metric_result_per_invocation=turns,
            session_id=inference.session_id or "",
            user_id=USER,
        )

    async def _judge(
        self,
        one: EvalMetric,
        played: list[Invocation],
        expected: list[Invocation] | None,
        turns: Sequence[EvalMetricResultPerInvocation],
    ) -> EvalMetricResult:
        found = await self._score(one, played, expected)
        fitting = found.per_invocation_results
        if len(fitting) != len(turns):
            fitting = [PerInvocationResult(actual_invocation=turn.actual_invocation) for turn in turns]
        for turn, result in zip(turns, fitting, strict=True):
            turn.eval_metric_results.append(_result_of(one, result.score, result.eval_status))
        return _result_of(one, found.overall_score, found.overall_eval_status)

    async def _score(
        self, one: EvalMetric, played: list[Invocation], expected: list[Invocation] | None
    ) -> EvaluationResult:
        made: Any = self._evaluators.get(one.metric_name) or evaluator_class(one.metric_name)
        try:
            return await Telling(
                made(eval_metric=one), self._complaints[one.metric_name]
            ).evaluate_invocations(
                actual_invocations=played,
                expected_invocations=expected,
                conversation_scenario=self._case.conversation_scenario,
            )
        except Exception:  # noqa: BLE001  # it has been noted, and fails the case
            return EvaluationResult(overall_eval_status=EvalStatus.NOT_EVALUATED)


def _result_of(one: EvalMetric, score: float | None, status: EvalStatus) -> EvalMetricResult:
    return EvalMetricResult(
        metric_name=one.metric_name,
        threshold=one.threshold,
        criterion=one.criterion,
        score=score,
        eval_status=status,
    )


# --- why a metric gives no score, which ADK only logs -----------------------------------------------


class Telling(Evaluator):
    """An evaluator of which is told why it fails; ADK only logs that."""

    def __init__(self, inner: Evaluator, complaints: list[str]) -> None:
        self._inner: Any = inner
        self._complaints = complaints

    async def evaluate_invocations(self, *args: Any, **options: Any) -> EvaluationResult:
        """What the evaluator gives; what it raises is noted, and raised again."""
        try:
            with noted(self._complaints):
                result = self._inner.evaluate_invocations(*args, **options)
                return await result if inspect.isawaitable(result) else result
        except Exception as error:
            self._complaints.append(what_happened(error))
            raise


_noting: ContextVar[list[str] | None] = ContextVar("adk_fluent_noting", default=None)
"""Where is noted why a metric gives no score, while one is asked."""


@contextmanager
def noted(complaints: list[str]) -> Generator[None]:
    """Note what ADK logs of a metric that fails, instead of logging it, traceback and all."""
    for name in ("local_eval_service", "llm_as_judge"):
        logging.getLogger(f"google_adk.google.adk.evaluation.{name}").addFilter(_note)  # once, however often
    token = _noting.set(complaints)
    try:
        yield
    finally:
        _noting.reset(token)


def _note(record: logging.LogRecord) -> bool:
    """Whether a line is logged: not if it tells of an error while one listens."""
    complaints, error = _noting.get(), record.exc_info[1] if record.exc_info else None
    if complaints is None or error is None:
        return True
    if (said := what_happened(error)) not in complaints:
        complaints.append(said)
    return False
