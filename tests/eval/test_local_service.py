"""With ADK's own service: the same verdicts and numbers as without it, and as ADK gives by itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adk_fluent import Agent
from adk_fluent.backends import MockBackend
from adk_fluent.eval import FluentCase, FluentEvalSuite, FluentJudge, UserSimulation
from adk_fluent.eval.results import CaseResult
from adk_fluent.testing import call_tool, mock_backend
from tests import processes
from tests.cli.gemini import Gemini
from tests.eval.support import TICKET, adk_eval, desk, scripted
from tests.eval.test_models import Answers

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest

pytestmark = pytest.mark.newest

METRICS = ("tool_trajectory_avg_score", "response_match_score")
CASES = (
    FluentCase("names", expected_trajectory=["open_ticket"], reference_response="The ticket was opened."),
    FluentCase("arguments", expected_trajectory=[call_tool("open_ticket", title="bill")]),
    FluentCase("other arguments", expected_trajectory=[call_tool("open_ticket", title="no")]),
    FluentCase("mixed", expected_trajectory=["find_bill", call_tool("open_ticket", title="bill")]),
    FluentCase(["two", "turns"], expected_trajectory=[None, []], reference_response=["Your ticket", None]),
    FluentCase("state", state_assertions={"intent": "refund"}, expected_response_contains="T-1"),
    FluentCase("unicode", reference_response="Dein Ticket ist geöffnet: チケット T-1"),
)


def sloppy(answer: str, reference: str | None, tools: list[str]) -> Any:
    """A judge that scores with and without a reference, and breaks on some."""
    return {"": 1.0}.get(reference or "", 7)


async def test_both_engines_agree() -> None:
    """Same scores, verdicts and reasons, case by case: only who judged differs."""
    suite = desk(*CASES, metrics=METRICS, custom_judges=[FluentJudge("sloppy", sloppy)], num_runs=2)
    light, adk = [await suite.run(engine=engine) for engine in ("light", "adk")]
    assert (light.engine, adk.engine) == ("light", "adk")
    assert [_timeless(run) for run in light.case_results] == [_timeless(run) for run in adk.case_results]
    assert {run.passed for run in adk.case_results} == {True, False}
    assert all(
        run.native is not None and run.native.session_details for run in adk.case_results if not run.error
    )


def test_metrics_that_ask_no_model_import_no_service() -> None:
    """A suite of them is judged in a process that imports nothing which the extra `eval` brings."""
    done = processes.run("""
import asyncio, sys
from adk_fluent.eval import FluentCase
from tests.eval.support import desk

def brought():
    return {name.partition(".")[0] for name in sys.modules} & {"nltk", "pandas", "rouge_score", "vertexai"}

case = FluentCase("hi", reference_response="Your ticket T-1 is open.", expected_trajectory=["open_ticket"])
before = brought()
report = asyncio.run(desk(case, metrics=["tool_trajectory_avg_score"]).run())
print(report.passed, report.engine, sorted(brought() - before), before)
""")
    assert done.stdout.split("\n")[0] == "True light [] set()", done.stderr


def _timeless(run: CaseResult) -> CaseResult:
    return replace(run, seconds=0.0, turns=tuple(replace(turn, seconds=0.0) for turn in run.turns))


async def test_plain_adk_agrees() -> None:
    """ADK's service, given the set that a suite exports and nothing of ours, comes to the same verdicts."""
    from google.adk.evaluation.base_eval_service import (
        EvaluateConfig,
        EvaluateRequest,
        InferenceConfig,
        InferenceRequest,
    )
    from google.adk.evaluation.eval_metrics import EvalMetric
    from google.adk.evaluation.evaluator import EvalStatus
    from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
    from google.adk.evaluation.local_eval_service import LocalEvalService

    said = "Your ticket T-1 is open."
    expected = [("bill", said), ("bill", "Tickets are opened"), ("no", said)]
    cases = [
        FluentCase(
            f"case {number}",
            expected_trajectory=[call_tool("open_ticket", title=title)],
            reference_response=reference,
        )
        for number, (title, reference) in enumerate(expected)
    ]
    suite = desk(*cases, metrics=METRICS, thresholds=dict.fromkeys(METRICS, 0.6))
    ours = await suite.run(engine="adk")

    manager, app = InMemoryEvalSetsManager(), "app"
    exported = suite.to_eval_set()
    manager.create_eval_set(app, "set")
    for case in exported.eval_cases:
        manager.add_eval_case(app, "set", case)
    found: dict[str, bool] = {}
    for name in suite.named_cases:  # one service per case, so that each has a script of its own
        service = LocalEvalService(scripted_app(suite).root_agent, manager, app=scripted_app(suite))
        request = InferenceRequest(
            app_name=app, eval_set_id="set", eval_case_ids=[name], inference_config=InferenceConfig()
        )
        played = [one async for one in service.perform_inference(request)]
        metrics = [EvalMetric(metric_name=metric, threshold=0.6) for metric in METRICS]
        config = EvaluateConfig(eval_metrics=metrics)
        judged = service.evaluate(EvaluateRequest(inference_results=played, evaluate_config=config))
        found |= {one.eval_id: one.final_eval_status is EvalStatus.PASSED async for one in judged}
    assert found == {name: case.passed for name, case in ours.cases.items()}
    assert list(found.values()) == [True, False, False]


def scripted_app(suite: Any) -> Any:
    """The app that the suite runs on, with scripted models."""
    return scripted(*TICKET)().compile(suite.root).published()


AGENT = """\
from tests.eval.support import pipeline
from tests.eval.test_local_service import by_question

app = by_question().compile(pipeline.node).published()
root_agent = app.root_agent
"""


def by_question() -> MockBackend:
    """A backend whose answers depend on what was asked alone, in whichever order."""

    def resolver(request: LlmRequest) -> Any:
        parts = [part for content in request.contents for part in content.parts or ()]
        if any(part.function_response for part in parts):
            return "Your ticket T-1 is open."
        asked = "".join(part.text or "" for part in parts)
        return call_tool("open_ticket", title="bill") if "open" in asked else "I cannot."

    return mock_backend({"classifier": "billing", "resolver": resolver})


def test_an_exported_set_runs_under_adk_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`adk eval`, given the exported set and metrics, comes to the same verdict on every case."""
    said, opens = "Your ticket T-1 is open.", call_tool("open_ticket", title="bill")
    suite = desk(
        FluentCase("open one", expected_trajectory=[opens], reference_response=said),
        FluentCase("open two", expected_trajectory=[call_tool("find_bill")], reference_response=said),
        FluentCase("open three", expected_trajectory=[opens], reference_response="Something else."),
        FluentCase("thanks", expected_trajectory=[], reference_response="I cannot."),
        FluentCase(
            ["thanks", "open it"],
            expected_trajectory=[[], [opens]],
            reference_response=["I cannot.", said],
            metadata={"id": "turns"},
        ),
        metrics=METRICS,
        thresholds=dict.fromkeys(METRICS, 0.9),
        backend=by_question(),
        name="desk",
    )
    ours = asyncio.run(suite.run(engine="adk"))
    assert suite.to_eval_set_file(tmp_path / "desk.evalset.json", tmp_path / "config.json") == ()
    config = "--config_file_path", str(tmp_path / "config.json")
    found = adk_eval(tmp_path, monkeypatch, AGENT, tmp_path / "desk.evalset.json", *config)
    assert found == {name: case.passed for name, case in ours.cases.items()}
    assert found == {"open_one": True, "open_two": False, "open_three": False, "thanks": True, "turns": True}


async def test_models_judge_and_play_the_user_under_adks_service(gemini: Gemini) -> None:
    """As without it: over Gemini's wire protocol, with the turns that the simulated user made."""
    said = json.dumps({"reasoning": "r", "is_the_agent_response_valid": "valid"})
    agent = Agent("helper", "gemini-2.5-flash")
    compared = FluentEvalSuite(
        agent, [FluentCase("x", reference_response="y")], metrics=["final_response_match_v2"]
    )
    played = FluentEvalSuite(
        agent,
        simulation=UserSimulation(max_turns=3),
        custom_judges=[FluentJudge("each turn", lambda answer, reference, tools: 1.0)],
    )
    gemini.answers = Answers("Paris.", [said, "Why?", "Bye. </finished>"])
    (judged,) = (await compared.run(engine="adk")).case_results
    (talked,) = (await played.run(engine="adk")).case_results
    assert [(score.metric, score.value) for score in judged.scores] == [("final_response_match_v2", 1)]
    assert [turn.said for turn in talked.turns] == ["Hello.", "Why?"]
    assert talked.native is not None
    assert len(talked.native.eval_metric_result_per_invocation) == 2
