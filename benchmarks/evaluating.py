"""What evaluation costs: a case as ADK's, and a hundred cases against ADK's service alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from statistics import median

from google.adk.evaluation.base_eval_service import (
    EvaluateConfig,
    EvaluateRequest,
    InferenceConfig,
    InferenceRequest,
)
from google.adk.evaluation.eval_metrics import EvalMetric
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager

from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite
from adk_fluent.eval.adk_sets import eval_case
from benchmarks.by_hand import agents, expression
from benchmarks.harness import Figure, compare, event_loop, in_turn

ROUNDS = 5
CASES = 100
STEPS = 2
METRIC = "response_match_score"
BUDGET = 10.0
"""Seconds that a hundred cases may take."""


def cases() -> list[FluentCase]:
    """A hundred conversations of one turn."""
    return [FluentCase(f"question {n}", reference_response="ok", tags=["bench"]) for n in range(CASES)]


def figures() -> Iterator[Figure]:
    """Making a case and compiling it; then a suite against the same set on ADK's service."""
    yield compiling()
    suite = FluentEvalSuite(expression(STEPS), cases(), metrics=[METRIC])
    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("bench", "bench")
    for case in suite.to_eval_set().eval_cases:
        manager.add_eval_case("bench", "bench", case)

    async def ours() -> FluentEvalReport:
        return await suite.run(engine="adk")

    async def plain() -> None:
        from google.adk.evaluation.local_eval_service import LocalEvalService

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            service = LocalEvalService(agents(STEPS), manager)
        request = InferenceRequest(
            app_name="bench", eval_set_id="bench", inference_config=InferenceConfig(parallelism=4)
        )
        played = [one async for one in service.perform_inference(request)]
        metrics = EvaluateConfig(eval_metrics=[EvalMetric(metric_name=METRIC, threshold=0.5)])
        judged = service.evaluate(EvaluateRequest(inference_results=played, evaluate_config=metrics))
        assert len([one async for one in judged]) == CASES

    with event_loop() as blocking:
        whole = compare(
            f"a suite of {CASES} cases, {STEPS} agents each, per case",
            blocking(ours),
            blocking(plain),
            rounds=ROUNDS,
            per=CASES,
        )
    yield whole
    yield Figure(
        what=f"the same suite as a whole ({CASES} cases)",
        seconds=whole.seconds * CASES,
        target=BUDGET,
        of="seconds",
    )


def compiling() -> Figure:
    """A case from what the user writes to ADK's own."""

    def make() -> None:
        for number, case in enumerate(cases()):
            eval_case(str(number), case, "bench")

    (times,) = in_turn([make], ROUNDS)
    return Figure(
        what="a FluentCase, and the EvalCase of it",
        seconds=median(times) / CASES,
        target=0.001,
        of="seconds",
    )
