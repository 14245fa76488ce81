"""What judges a conversation that was played: ADK's `LocalEvalService`, or the same on less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, cast

from google.adk.evaluation.base_eval_service import (
    EvaluateConfig,
    EvaluateRequest,
    InferenceResult,
    InferenceStatus,
)
from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.eval_metrics import (
    EvalMetric,
    Interval,
    MetricInfo,
    MetricValueInfo,
)
from google.adk.evaluation.eval_result import EvalCaseResult
from google.adk.evaluation.evaluator import Evaluator
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.sessions import BaseSessionService

from adk_fluent.backends.adk.api import knowingly
from adk_fluent.eval.adk_evaluators import (
    TRAJECTORY,
    Complain,
    judge_evaluator,
    metric,
    only_stated,
    refused_evaluator,
    trajectory_evaluator,
)
from adk_fluent.eval.adk_sets import without_thoughts
from adk_fluent.eval.light_service import LightService, Telling, evaluator_class, noted
from adk_fluent.eval.playthrough import Played, refusal

if TYPE_CHECKING:
    from google.adk.evaluation.metric_evaluator_registry import MetricEvaluatorRegistry

    from adk_fluent.eval.judges import FluentJudge

Engine = Literal["auto", "adk", "light"]

_SET: Final = "adk_fluent"


@dataclass(frozen=True)
class Wanted:
    """A metric that a case is to be judged by.

    Attributes:
        name: its name in ADK's registry.
        threshold: the least score with which the case passes.
        options: what else its evaluator wants to know.
        stated: for every turn, whether it states what this metric compares with.
        judge: the function that scores, for a metric of the user's.
    """

    name: str
    threshold: float
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    stated: Sequence[bool] = ()
    judge: FluentJudge | None = None


class Judged(NamedTuple):
    """What the metrics say of a case that was played.

    Attributes:
        native: ADK's own result.
        complaints: metric → why it gave no score.
    """

    native: EvalCaseResult
    complaints: Mapping[str, Sequence[str]]


@cache
def has_local_service() -> bool:
    """Whether ADK's `LocalEvalService` can be imported; it needs the extra `eval`."""
    try:
        with knowingly():
            import_module("google.adk.evaluation.local_eval_service")
    except ImportError:
        return False
    return True


async def judge(
    case: EvalCase,
    played: Played,
    wanted: Sequence[Wanted],
    *,
    engine: Literal["adk", "light"],
    agent: Any,
    sessions: BaseSessionService | None,
) -> Judged:
    """Have a conversation judged.

    Args:
        engine: ADK's service, or our own.
        agent: the agent that was played, for ADK's service.
        sessions: where its session is.
    """
    case = _comparable(case, played)
    complaints: dict[str, list[str]] = {}
    metrics: list[EvalMetric] = []
    evaluators: dict[str, type[Evaluator]] = {}
    for one in wanted:
        told = complaints.setdefault(one.name, [])
        options, evaluator = _evaluator(one, case, told.append)
        metrics.append(metric(one.name, one.threshold, **options))
        if evaluator is not None:
            evaluators[one.name] = evaluator
    with knowingly():
        service = _service(engine, case, evaluators, complaints, agent, sessions)
    inference = InferenceResult(
        app_name=_app(case),
        eval_set_id=_SET,
        eval_case_id=case.eval_id,
        inferences=list(played.invocations),
        session_id=played.session_id,
        status=InferenceStatus.FAILURE if played.error else InferenceStatus.SUCCESS,
        error_message=played.error,
    )
    request = EvaluateRequest(
        inference_results=[inference], evaluate_config=EvaluateConfig(eval_metrics=metrics)
    )
    with noted([]):  # what the evaluators raise is noted where they are called
        (native,) = [result async for result in service.evaluate(request)]
    return Judged(native, {name: said for name, said in complaints.items() if said})


def _evaluator(
    wanted: Wanted, case: EvalCase, complain: Complain
) -> tuple[dict[str, object], type[Evaluator] | None]:
    """The options of a metric, and what scores in the place of what ADK has registered for it."""
    options = dict(wanted.options)
    made: type[Evaluator] | None = None
    if wanted.judge is not None:
        return options, judge_evaluator(wanted.judge, complain)
    if isinstance(judge := options.get("judge_model_options"), Mapping):
        model = str(cast("Mapping[str, object]", judge).get("judge_model"))
        if (error := refusal("Its judge", model, "Judge by custom_judges=[...]")) is not None:
            return options, refused_evaluator(error)
    if wanted.name == TRAJECTORY:
        data = (turn.intermediate_data for turn in case.conversation or ())
        calls = [call for each in data for call in getattr(each, "tool_uses", ())]
        made, more = trajectory_evaluator(calls)
        options |= more
    if wanted.stated and not all(wanted.stated):
        made = only_stated(made or evaluator_class(wanted.name), wanted.stated)
    return options, made


def _comparable(case: EvalCase, played: Played) -> EvalCase:
    """The case without thoughts in the answers that it expects where the agent's thoughts were left out."""
    turns = list(case.conversation or ())
    for number in played.thinking if turns else ():
        answer = without_thoughts(turns[number].final_response)
        turns[number] = turns[number].model_copy(update={"final_response": answer})
    return case.model_copy(update={"conversation": turns}) if turns else case


def _app(case: EvalCase) -> str:
    return case.session_input.app_name if case.session_input else _SET


# --- ADK's service --------------------------------------------------------------------------------


class _Evaluates(Protocol):
    def evaluate(self, evaluate_request: EvaluateRequest) -> Any: ...


def _service(
    engine: Literal["adk", "light"],
    case: EvalCase,
    evaluators: Mapping[str, type[Evaluator]],
    complaints: Mapping[str, list[str]],
    agent: Any,
    sessions: BaseSessionService | None,
) -> _Evaluates:
    if engine == "light":
        return LightService(case, evaluators, complaints)
    from google.adk.evaluation.local_eval_service import LocalEvalService

    manager = InMemoryEvalSetsManager()
    manager.create_eval_set(_app(case), _SET)
    manager.add_eval_case(_app(case), _SET, case)
    return LocalEvalService(
        root_agent=agent,
        eval_sets_manager=manager,
        metric_evaluator_registry=_registry(evaluators, complaints),
        session_service=sessions,
    )


@cache
def _registry_class() -> type[MetricEvaluatorRegistry]:
    from google.adk.evaluation.metric_evaluator_registry import (
        DEFAULT_METRIC_EVALUATOR_REGISTRY,
        MetricEvaluatorRegistry,
    )

    class Registry(MetricEvaluatorRegistry):
        """ADK's registry with what is registered for one case alone.

        Releases before 2 keep the metrics of all registries in one table, so this has its own.
        """

        def __init__(self, complaints: Mapping[str, list[str]]) -> None:
            self._own: dict[str, type[Evaluator]] = {}
            self._complaints = complaints

        def register_evaluator(self, metric_info: MetricInfo, evaluator: type[Evaluator]) -> None:
            self._own[metric_info.metric_name] = evaluator

        def get_evaluator(self, eval_metric: EvalMetric) -> Evaluator:
            own: Any = self._own.get(eval_metric.metric_name)
            made = (
                DEFAULT_METRIC_EVALUATOR_REGISTRY.get_evaluator(eval_metric)
                if own is None
                else own(eval_metric=eval_metric)
            )
            return Telling(made, self._complaints[eval_metric.metric_name])

    return Registry


def _registry(
    evaluators: Mapping[str, type[Evaluator]], complaints: Mapping[str, list[str]]
) -> MetricEvaluatorRegistry:
    registry: Any = _registry_class()
    made: MetricEvaluatorRegistry = registry(complaints)
    for name, evaluator in evaluators.items():
        made.register_evaluator(_info(name), evaluator)
    return made


def _info(name: str) -> MetricInfo:
    interval = Interval(min_value=0, max_value=1)
    return MetricInfo(
        metric_name=name, description=name, metric_value_info=MetricValueInfo(interval=interval)
    )
