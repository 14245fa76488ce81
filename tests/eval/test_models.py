"""Judges and users that are models, reached over Gemini's wire protocol on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent, _real_models
from adk_fluent.errors import MissingExtraError
from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite, PrebuiltMetrics, UserSimulation
from adk_fluent.eval.metrics import TRAITS
from adk_fluent.testing import mock_backend
from tests.cli.gemini import Gemini

MODEL = "gemini-2.5-flash"
pipeline = Agent("helper", MODEL).instruct("Help.")


class Answers(dict[str, str]):
    """What the helper answers, and what those that are no agents say, in order; the last repeats."""

    def __init__(self, helper: str, others: Sequence[str]) -> None:
        super().__init__(helper=helper)
        self._others = list(others)

    def __missing__(self, agent: str) -> str:
        return self._others.pop(0) if len(self._others) > 1 else self._others[0]


def asked(gemini: Gemini, model: str) -> list[str]:
    """The prompts that a model got."""
    return [json.dumps(body) for path, body in gemini.requests if f"/{model}:" in path]


def scores(report: FluentEvalReport) -> dict[str, float | None]:
    """The scores of the only run."""
    return {score.metric: score.value for score in report.case_results[0].scores}


@pytest.mark.parametrize(("verdict", "score"), [("valid", 1), ("invalid", 0)])
async def test_a_model_judges_the_answer(gemini: Gemini, verdict: str, score: float) -> None:
    """It is shown answer and reference, and what it says is the verdict."""
    gemini.answers = Answers(
        "Paris.", [json.dumps({"reasoning": "r", "is_the_agent_response_valid": verdict})]
    )
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("The capital of France?", reference_response="It is Paris.")],
        metrics=[PrebuiltMetrics.FINAL_RESPONSE_MATCH_V2],
        judge_model="gemini-2.5-pro",
        judge_samples=3,
    )
    report = await suite.run(engine="light")
    assert scores(report) == {"final_response_match_v2": score}
    assert report.passed is bool(score)
    prompts = asked(gemini, "gemini-2.5-pro")
    assert len(prompts) == 3
    assert "Paris." in prompts[0]
    assert "It is Paris." in prompts[0]


async def test_rubrics_are_asked_one_by_one(gemini: Gemini) -> None:
    """The score is the share of the rubrics that the model finds fulfilled."""
    said = "".join(
        f"Property: {text}\nEvidence: e\nRationale: r\nVerdict: {verdict}\n\n"
        for text, verdict in [("It is polite.", "yes"), ("It is short.", "no")]
    )
    gemini.answers = Answers("Paris.", [said])
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("The capital of France?")],
        metrics=[PrebuiltMetrics.RUBRIC_BASED_FINAL_RESPONSE_QUALITY_V1],
        rubrics=["It is polite.", "It is short."],
        judge_model="gemini-2.5-pro",
    )
    report = await suite.run(engine="light")
    assert scores(report) == {"rubric_based_final_response_quality_v1": 0.5}
    assert "It is polite." in asked(gemini, "gemini-2.5-pro")[0]


async def test_a_judge_that_says_nothing_useful_fails_the_case(gemini: Gemini) -> None:
    """Silence is no verdict: the case fails, by the name of the metric."""
    gemini.answers = Answers("Paris.", ["I would rather not say."])
    suite = FluentEvalSuite(
        pipeline, [FluentCase("x", reference_response="y")], metrics=["final_response_match_v2"]
    )
    (result,) = (await suite.run(engine="light")).case_results
    assert not result.passed
    assert result.failures[0].startswith("not judged: final_response_match_v2: ")


async def test_a_judge_that_cannot_be_asked_fails_the_case(
    gemini: Gemini, caplog: pytest.LogCaptureFixture
) -> None:
    """With what its provider says as the reason, and nothing in the log."""
    gemini.answers, gemini.failing = Answers("Paris.", [""]), {"": "404"}
    suite = FluentEvalSuite(
        pipeline, [FluentCase("x", reference_response="y")], metrics=["final_response_match_v2"]
    )
    (result,) = (await suite.run(engine="light")).case_results
    assert not result.passed
    assert result.failures[0].startswith("not judged: final_response_match_v2: ")
    assert not [record for record in caplog.records if record.exc_info]


ENGINES = ["light", pytest.param("adk", marks=pytest.mark.newest)]
JUDGED = [metric for metric in PrebuiltMetrics if TRAITS[metric].judge == "model"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("metric", [metric for metric in JUDGED if not TRAITS[metric].of_user])
async def test_a_judge_is_no_real_model_where_those_are_forbidden(
    gemini: Gemini, metric: PrebuiltMetrics, engine: Any
) -> None:
    """The case fails with the error of the guard in one line, and nothing has been asked."""
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("x", reference_response="y")],
        metrics=[metric],
        rubrics=["It is short."],
        judge_model="gemini-2.5-pro",
        backend=mock_backend({"helper": "Paris."}),
    )
    with _real_models.forbidden():
        (result,) = (await suite.run(engine=engine)).case_results
    assert not result.passed
    assert result.failures[-1] == (
        f"not judged: {metric}: RealModelError: Its judge would ask the real model 'gemini-2.5-pro'. "
        "Judge by custom_judges=[...], or allow it: @pytest.mark.real_model, or pytest --allow-real-models."
    )
    assert gemini.requests == []


@pytest.mark.newest
@pytest.mark.parametrize("engine", ["light", "adk"])
async def test_a_simulated_user_is_no_real_model_where_those_are_forbidden(
    gemini: Gemini, engine: Any
) -> None:
    """The first message is that of the case; the model that would write the second one is not asked."""
    suite = FluentEvalSuite(
        pipeline,
        simulation=UserSimulation("gemini-2.5-flash-lite", success_criteria="To leave"),
        metrics=[PrebuiltMetrics.PER_TURN_USER_SIMULATOR_QUALITY_V1],
        backend=mock_backend({"helper": "Hm."}),
    )
    with _real_models.forbidden():
        (result,) = (await suite.run(engine=engine)).case_results
    assert (result.passed, [turn.said for turn in result.turns]) == (False, ["Hello."])
    assert (result.error or "").startswith(
        "RealModelError: The simulated user would ask the real model 'gemini-2.5-flash-lite'. Script "
    )
    assert gemini.requests == []


class OfTheTest(BaseLlm):
    """A judge that a test brings."""

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["judge-of-the-test"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = json.dumps({"reasoning": "r", "is_the_agent_response_valid": "valid"})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_test_may_bring_the_model_that_judges(engine: Any) -> None:
    """One that is registered with ADK under the name is no real model."""
    LLMRegistry.register(OfTheTest)
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("x", reference_response="y")],
        metrics=["final_response_match_v2"],
        judge_model="judge-of-the-test",
        backend=mock_backend({"helper": "Paris."}),
    )
    with _real_models.forbidden():
        report = await suite.run(engine=engine)
    assert report.passed, report.summary


@pytest.mark.newest
async def test_a_simulated_user_talks_until_it_is_content(gemini: Gemini) -> None:
    """It begins as the case says, is told who it is and what it wants, and ends with the stop signal."""
    gemini.answers = Answers("Which order?", ["Number 7.", "Thanks. </finished>"])
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("I want a refund.", expected_response_contains="Which")],
        simulation=UserSimulation(
            "gemini-2.5-flash-lite", persona="Frustrated customer.", success_criteria="The refund is made."
        ),
        metrics=["tool_trajectory_avg_score"],
    )
    report = await suite.run(engine="light")
    (result,) = report.case_results
    assert report.passed, report.summary
    assert [turn.said for turn in result.turns] == ["I want a refund.", "Number 7."]
    prompts = asked(gemini, "gemini-2.5-flash-lite")
    assert len(prompts) == 2
    assert all(text in prompts[0] for text in ("Frustrated customer.", "The refund is made.", "Which order?"))


@pytest.mark.newest
@pytest.mark.parametrize(("ends", "score"), [("Thanks. </finished>", 1.0), ("Still nothing!", 0.0)])
async def test_the_goal_of_a_simulated_user_is_judged(gemini: Gemini, ends: str, score: float) -> None:
    """A case fails where the user never got what `success_criteria` says, however often they asked."""
    gemini.answers = Answers("Hm.", ["And?", ends])
    simulation = UserSimulation(success_criteria="The refund is made", max_turns=3)
    report = await FluentEvalSuite(pipeline, simulation=simulation).run(engine="light")
    assert scores(report) == {"success_criteria": score}
    assert report.passed is bool(score)
    if not score:
        assert report.failed[0].failures == (
            "'The refund is made' was not reached: the simulated user had not ended the conversation "
            "after 3 messages",
        )


@pytest.mark.newest
async def test_what_a_simulation_cannot_judge_is_told(gemini: Gemini) -> None:
    """Calls and answers that a case expects of its turns cannot be judged where a model plays the user."""
    gemini.answers = Answers("Hm.", ["Bye. </finished>"])
    case = FluentCase("x", expected_trajectory=[], reference_response="y", expected_response_contains="Hm")
    suite = FluentEvalSuite(pipeline, [case], simulation=UserSimulation(success_criteria="To leave"))
    report = await suite.run(engine="light")
    assert not report.passed
    assert [line.partition(" names")[0] for line in report.unjudged["x"]] == [
        "not judged: expected_trajectory",
        "not judged: reference_response",
    ]
    assert (await suite.run(engine="light", allow_unjudged=True)).passed


@pytest.mark.newest
async def test_a_simulated_user_stops_after_its_turns(gemini: Gemini) -> None:
    """A suite without cases is one conversation; `max_turns` bounds it."""
    gemini.answers = Answers("Hm.", ["And?"])
    suite = FluentEvalSuite(pipeline, simulation=UserSimulation(max_turns=3))
    (result,) = (await suite.run(engine="light")).case_results
    assert [turn.said for turn in result.turns] == ["Hello.", "And?", "And?"]
    assert result.eval_id == "simulation"


@pytest.mark.newest
async def test_the_simulated_user_is_judged(gemini: Gemini) -> None:
    """Whether it kept to its plan is a metric of ADK's, which is told the stop signal."""
    gemini.answers = Answers("Done.", ["bye </finished>", json.dumps({"is_valid": "valid"})])
    suite = FluentEvalSuite(
        pipeline,
        [FluentCase("I want a refund.")],
        simulation=UserSimulation("gemini-2.5-flash-lite", stop_signal="<<over>>"),
        metrics=[PrebuiltMetrics.PER_TURN_USER_SIMULATOR_QUALITY_V1],
        judge_model="gemini-2.5-pro",
    )
    report = await suite.run(engine="light")
    assert list(scores(report)) == ["per_turn_user_simulator_quality_v1"]
    assert "<<over>>" in asked(gemini, "gemini-2.5-pro")[0]


@pytest.mark.newest
async def test_a_user_that_cannot_be_played_fails_the_case(gemini: Gemini) -> None:
    """What the model's provider says is the reason, in one line."""
    gemini.answers = Answers("Hm.", [""])
    gemini.failing = {"": "404"}
    suite = FluentEvalSuite(pipeline, simulation=UserSimulation(max_turns=3))
    (result,) = (await suite.run(engine="light")).case_results
    assert not result.passed
    assert "404" in (result.error or "")
    assert [turn.said for turn in result.turns] == ["Hello."]


async def test_a_simulated_user_may_need_the_extra(gemini: Gemini, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ADK's simulator lacks a package, the run says which extra brings it."""
    from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator

    async def lacking(self: object, events: object) -> None:
        raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")

    monkeypatch.setattr(LlmBackedUserSimulator, "get_next_user_message", lacking)
    suite = FluentEvalSuite(pipeline, simulation=UserSimulation(max_turns=3))
    with pytest.raises(MissingExtraError, match=r"jinja2.*the extra .eval."):
        await suite.run(engine="light")
