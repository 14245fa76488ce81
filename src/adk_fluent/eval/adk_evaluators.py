"""What scores a turn: ADK's evaluators, and those that it lacks."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from google.adk.evaluation.conversation_scenarios import ConversationScenario
from google.adk.evaluation.eval_case import Invocation
from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric, ToolTrajectoryCriterion
from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, Evaluator, PerInvocationResult
from google.adk.evaluation.llm_as_judge_utils import get_eval_status, get_text_from_content
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.genai import types

from adk_fluent.errors import what_happened
from adk_fluent.eval.adk_sets import BY_NAME, calls_of, words
from adk_fluent.eval.rouge import rouge_1

if TYPE_CHECKING:
    from adk_fluent.eval.judges import FluentJudge

Match = Literal["exact", "in_order", "any_order"]
Score = Callable[[Invocation, "Invocation | None"], "float"]
Complain = Callable[[str], None]

TRAJECTORY: Final = "tool_trajectory_avg_score"
ROUGE: Final = "response_match_score"

IGNORES_ARGS: Final = "ignore_args" in ToolTrajectoryCriterion.model_fields
"""Whether ADK's own evaluator can compare names alone; it can since ADK 2."""


def text_of(content: types.Content | None) -> str:
    """The text of an answer, as ADK's evaluators take it."""
    return get_text_from_content(content) or ""


def tool_calls(turn: Invocation | None) -> list[types.FunctionCall]:
    """The calls of a turn, in order."""
    return calls_of(turn) if turn is not None else []


def status(passed: bool) -> EvalStatus:
    """A verdict in ADK's words."""
    return EvalStatus.PASSED if passed else EvalStatus.FAILED


def metric(name: str, threshold: float, **options: object) -> EvalMetric:
    """A metric with its threshold and whatever else its evaluator wants to know."""
    criterion = BaseCriterion.model_validate({"threshold": threshold, **options})
    return EvalMetric(metric_name=name, threshold=threshold, criterion=criterion)


def averaged(
    threshold: float,
    actual: Sequence[Invocation],
    expected: Sequence[Invocation | None],
    scores: Sequence[float | None],
) -> EvaluationResult:
    """The mean over the turns that have a score, as ADK's own evaluators form it, without rounding errors.

    With these, three turns with a score of 0.7 would miss a threshold of 0.7.
    """
    found = [score for score in scores if score is not None]
    overall = mean(found) if found else None
    return EvaluationResult(
        overall_score=overall,
        overall_eval_status=get_eval_status(overall, threshold),
        per_invocation_results=[
            PerInvocationResult(
                actual_invocation=did,
                expected_invocation=wanted,
                score=score,
                eval_status=get_eval_status(score, threshold),
            )
            for did, wanted, score in zip(actual, expected, scores, strict=True)
        ],
    )


class _ByTurn(Evaluator):
    """Scores turn by turn, and takes the mean."""

    def __init__(self, eval_metric: EvalMetric) -> None:
        self._threshold = eval_metric.threshold or 0.0
        self._criterion = eval_metric.criterion or BaseCriterion(threshold=self._threshold)

    def evaluate_invocations(
        self,
        actual_invocations: list[Invocation],
        expected_invocations: list[Invocation] | None = None,
        conversation_scenario: ConversationScenario | None = None,
    ) -> EvaluationResult:
        """The score of every turn, and their mean."""
        expected = _beside(actual_invocations, expected_invocations)
        scores = [self.score(*turn) for turn in zip(actual_invocations, expected, strict=True)]
        return averaged(self._threshold, actual_invocations, expected, scores)

    @abstractmethod
    def score(self, actual: Invocation, expected: Invocation | None) -> float:
        """The score of one turn."""


def _beside(actual: Sequence[Invocation], expected: Sequence[Invocation] | None) -> list[Invocation | None]:
    return [None] * len(actual) if expected is None else list(expected)


class RougeEvaluator(_ByTurn):
    """`response_match_score`, without the package that ADK's own needs."""

    def score(self, actual: Invocation, expected: Invocation | None) -> float:
        """ROUGE-1 of a turn."""
        return rouge_1(text_of(actual.final_response), text_of(expected.final_response if expected else None))


class NamedTrajectoryEvaluator(_ByTurn):
    """`tool_trajectory_avg_score`, where some calls are expected by name alone."""

    def score(self, actual: Invocation, expected: Invocation | None) -> float:
        """1 if the calls of a turn are those that are expected, else 0."""
        match: Match = str((self._criterion.model_extra or {}).get("match_type", "exact")).lower()  # pyright: ignore[reportAssignmentType]  # what `trajectory_metric` put there
        return float(calls_match(tool_calls(actual), tool_calls(expected), match))


def calls_match(
    did: Sequence[types.FunctionCall], wanted: Sequence[types.FunctionCall], match: Match
) -> bool:
    """Whether calls are those that are wanted; one that is wanted by name may have any arguments."""

    def same(call: types.FunctionCall, other: types.FunctionCall) -> bool:
        return call.name == other.name and (other.id == BY_NAME or call.args == other.args)

    if match == "exact":
        return len(did) == len(wanted) and all(map(same, did, wanted))
    left = list(did)
    # those that name arguments choose first, so that a call which would do for both is left to them
    ordered = wanted if match == "in_order" else sorted(wanted, key=lambda call: call.id == BY_NAME)
    for call in ordered:
        place = next((index for index, one in enumerate(left) if same(one, call)), None)
        if place is None:
            return False
        left = left[place + 1 :] if match == "in_order" else left[:place] + left[place + 1 :]
    return True


def trajectory_evaluator(calls: Iterable[types.FunctionCall]) -> tuple[type[Evaluator], Mapping[str, object]]:
    """What compares a case's calls, ADK's own where it can, and its options."""
    named = [call.id == BY_NAME for call in calls]
    if not any(named):
        return TrajectoryEvaluator, {}
    if all(named) and IGNORES_ARGS:
        return TrajectoryEvaluator, {"ignore_args": True}
    return NamedTrajectoryEvaluator, {}


# --- judges ---------------------------------------------------------------------------------------


class JudgeEvaluator(Evaluator):
    """A function that scores, as one of ADK's evaluators.

    ADK makes evaluators of classes, so there is one below this per judge; see `judge_evaluator`.
    """

    judge: ClassVar[Any] = None
    complain: ClassVar[Any] = None

    def __init__(self, eval_metric: EvalMetric) -> None:
        self._threshold = eval_metric.threshold or 0.0

    async def evaluate_invocations(
        self,
        actual_invocations: list[Invocation],
        expected_invocations: list[Invocation] | None = None,
        conversation_scenario: ConversationScenario | None = None,
    ) -> EvaluationResult:
        """The score of every turn, and their mean; 0 for a turn that the judge could not score."""
        expected = _beside(actual_invocations, expected_invocations)
        scores = [await self._score(*turn) for turn in zip(actual_invocations, expected, strict=True)]
        failed = any(score is None for score in scores)
        result = averaged(self._threshold, actual_invocations, expected, [score or 0.0 for score in scores])
        if failed:  # whatever the threshold
            result.overall_eval_status = EvalStatus.FAILED
        return result

    async def _score(self, actual: Invocation, expected: Invocation | None) -> float | None:
        judge = cast("FluentJudge", self.judge)
        reference = words(expected.final_response) if expected and expected.final_response else None
        tools = [call.name or "" for call in tool_calls(actual)]
        try:
            said: Any = judge.fn(words(actual.final_response), reference, tools)
            given: object = await said if inspect.isawaitable(said) else said
        except Exception as error:  # noqa: BLE001  # whatever it raises fails its case, by name
            self._complain(f"judge {judge.name!r} raised {what_happened(error)}")
            return None
        score = score_of(given)
        if score is None:
            self._complain(f"judge {judge.name!r} gave {given!r:.60}, and a score is a number from 0 to 1")
        return score

    def _complain(self, problem: str) -> None:
        cast(Complain, self.complain)(problem)


def score_of(given: object) -> float | None:
    """Return a score from 0 to 1 for any kind of number: numpy's, a `Fraction`, a `Decimal`; else `None`.

    What lies outside by a rounding error of a sum is on the edge.
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__float__"):
        return None
    try:
        score = float(cast(Any, given))
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(score, 0.0), 1.0) if -1e-9 <= score <= 1 + 1e-9 else None


def judge_evaluator(judge: FluentJudge, complain: Complain) -> type[Evaluator]:
    """The evaluator of a judge; `complain` is told what is wrong with it."""
    return type("Judge", (JudgeEvaluator,), {"judge": judge, "complain": staticmethod(complain)})


def refused_evaluator(error: Exception) -> type[Evaluator]:
    """The evaluator of a metric that must not be computed; this error says why."""

    class ForbiddenJudge(Evaluator):
        def __init__(self, eval_metric: EvalMetric) -> None:
            """Take what ADK gives every evaluator."""

        async def evaluate_invocations(self, *args: object, **options: object) -> EvaluationResult:
            raise error

    return ForbiddenJudge


def only_stated(inner: type[Evaluator], stated: Sequence[bool]) -> type[Evaluator]:
    """An evaluator of the turns that state what is expected; the others are not judged."""

    class OnlyStated(Evaluator):
        def __init__(self, eval_metric: EvalMetric) -> None:
            self._inner: Any = cast(Any, inner)(eval_metric=eval_metric)

        async def evaluate_invocations(
            self,
            actual_invocations: list[Invocation],
            expected_invocations: list[Invocation] | None = None,
            conversation_scenario: ConversationScenario | None = None,
        ) -> EvaluationResult:
            expected = expected_invocations or []
            turns = list(zip(actual_invocations, expected, stated, strict=True))
            result = self._inner.evaluate_invocations(
                actual_invocations=[did for did, _, judged in turns if judged],
                expected_invocations=[wanted for _, wanted, judged in turns if judged],
                conversation_scenario=conversation_scenario,
            )
            found: EvaluationResult = await result if inspect.isawaitable(result) else result
            scored = iter(found.per_invocation_results)
            found.per_invocation_results = [
                next(scored)
                if judged
                else PerInvocationResult(actual_invocation=did, expected_invocation=wanted)
                for did, wanted, judged in turns
            ]
            return found

    return OnlyStated
