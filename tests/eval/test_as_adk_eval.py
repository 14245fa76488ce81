"""Sets of ADK's: each case gets the verdict and the scores that `adk eval` gives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.genai import types

from adk_fluent import Agent
from adk_fluent.backends import MockBackend
from adk_fluent.errors import EvalError
from adk_fluent.eval import FluentEvalSuite, FluentJudge
from adk_fluent.testing import mock_backend
from tests.eval.support import adk_eval

if TYPE_CHECKING:
    from google.adk.evaluation.eval_result import EvalCaseResult
    from google.adk.models.llm_request import LlmRequest

METRICS: Final = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
"""What `adk eval` judges by, unless it is given a configuration."""


def ping(word: str = "") -> str:
    """Answer."""
    return f"pong {word}"


agent = Agent("helper", "gemini-2.5-flash").instruct("Help.").tools(ping)


def answer(request: LlmRequest) -> Any:
    """An answer that depends on the last message alone: calls of `ping`, thoughts and texts."""
    parts = request.contents[-1].parts or []
    if any(part.function_response for part in parts):
        return "The answer is pong."
    said = " ".join(part.text or "" for part in parts)
    calls: dict[str, list[dict[str, Any] | None]] = {
        "ping": [{}],
        "bare": [None],
        "word": [{"word": "x"}],
        "twice": [{}, {}],
    }
    if said in calls:
        made = [types.FunctionCall(name="ping", args=args) for args in calls[said]]
        return types.Content(role="model", parts=[types.Part(function_call=call) for call in made])
    spoken: dict[str, list[types.Part]] = {
        "think": [THOUGHT, types.Part(text="The answer is pong.")],
        "only think": [THOUGHT],
        "two": [types.Part(text="The answer"), types.Part(text="is pong.")],
        "nothing": [types.Part(text="")],
    }
    return types.Content(role="model", parts=spoken.get(said, [types.Part(text="The answer is pong.")]))


THOUGHT: Final = types.Part(text="Let me think about what the user may want here.", thought=True)

SAID: Final = {"parts": [{"text": "The answer is pong."}], "role": "model"}
OTHER: Final = {"parts": [{"text": "Something else entirely."}], "role": "model"}
THINKS: Final = {"text": THOUGHT.text, "thought": True}


def turn(text: str | Mapping[str, Any], final: object = SAID, **more: object) -> dict[str, Any]:
    """One turn of a set, as JSON; with `calls`, what it expects of tools, in one of ADK's two forms."""
    said = {"parts": [{"text": text}], "role": "user"} if isinstance(text, str) else dict(text)
    return {"user_content": said, "final_response": final, **more}


def uses(*calls: Mapping[str, Any]) -> dict[str, Any]:
    """Expected calls as a person writes them."""
    return {"intermediate_data": {"tool_uses": list(calls)}}


def events(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Expected calls as ADK's web page records them."""
    made = [{"author": "helper", "content": {"parts": [part], "role": "model"}} for part in parts]
    return {"intermediate_data": {"invocation_events": made}}


def without(turn: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """A turn of which fields are absent."""
    return {key: value for key, value in turn.items() if key not in fields}


PING: Final[dict[str, Any]] = {"name": "ping", "args": {}}

CASES: Final[dict[str, Sequence[Mapping[str, Any]]]] = {
    "the same": [turn("hi")],
    "another answer": [turn("hi", OTHER)],
    # answers that are expected
    "no final response": [without(turn("hi"), "final_response")],
    "final response is null": [turn("hi", None)],
    "final response without parts": [turn("hi", {"role": "model"})],
    "final response with no parts": [turn("hi", {"parts": [], "role": "model"})],
    "final response with null parts": [turn("hi", {"parts": None})],
    "empty final response": [turn("hi", {"parts": [{"text": ""}]})],
    "empty part beside text": [turn("hi", {"parts": [{"text": ""}, *SAID["parts"]]})],
    "final response of two parts": [turn("hi", {"parts": [{"text": "The answer"}, {"text": "is pong."}]})],
    "two parts that are one word": [turn("hi", {"parts": [{"text": "The answer is po"}, {"text": "ng."}]})],
    "thought in the reference": [turn("hi", {"parts": [THINKS, *SAID["parts"]]})],
    "thought alone in the reference": [turn("hi", {"parts": [THINKS]})],
    "reference without a role": [turn("hi", {"parts": SAID["parts"]})],
    "final response is a call": [turn("hi", {"parts": [{"function_call": PING}]})],
    "image beside text": [
        turn("hi", {"parts": [*SAID["parts"], {"inline_data": {"data": "cG5n", "mime_type": "image/png"}}]})
    ],
    # tool calls that are expected
    "no data": [without(turn("ping"), "intermediate_data")],
    "data is null": [turn("ping", intermediate_data=None)],
    "no calls expected, one made": [turn("ping", **uses())],
    "empty arguments": [turn("ping", **uses(PING))],
    "arguments missing": [turn("ping", **uses({"name": "ping"}))],
    "arguments null": [turn("ping", **uses({"name": "ping", "args": None}))],
    "a call without arguments, expected so": [turn("bare", **uses({"name": "ping"}))],
    "a call without arguments, expected empty": [turn("bare", **uses(PING))],
    "arguments missing, others made": [turn("word", **uses({"name": "ping"}))],
    "the arguments": [turn("word", **uses({"name": "ping", "args": {"word": "x"}}))],
    "other arguments": [turn("word", **uses({"name": "ping", "args": {"word": "y"}}))],
    "two calls": [turn("twice", **uses(PING, PING))],
    "two calls, one without arguments": [turn("twice", **uses(PING, {"name": "ping"}))],
    "one call too few": [turn("twice", **uses(PING))],
    "events": [turn("ping", **events({"function_call": PING}))],
    "events without arguments": [turn("ping", **events({"function_call": {"name": "ping"}}))],
    "events with text and thoughts": [turn("ping", **events(THINKS, {"function_call": PING}, {"text": "x"}))],
    "events without calls": [turn("hi", **events({"text": "x"}))],
    "event without content": [
        turn("hi", intermediate_data={"invocation_events": [{"author": "helper", "content": None}]})
    ],
    # what the user says
    "two parts of the user": [turn({"parts": [{"text": "two"}, {"text": "texts"}], "role": "user"})],
    "user without a role": [turn({"parts": [{"text": "hi"}]})],
    "user says nothing": [turn({"parts": [], "role": "user"})],
    "user says an empty text": [turn({"parts": [{"text": ""}], "role": "user"})],
    # answers that are given
    "answer of two parts": [turn("two")],
    "answer of two parts, one expected": [turn("two", OTHER)],
    "an empty answer": [turn("nothing")],
    "an empty answer, expected": [turn("nothing", None)],
    # several turns
    "all turns": [turn("hi"), turn("ping", **uses(PING))],
    "one of two without a reference": [turn("hi"), turn("hi", None)],
    "one of six without a reference": [*[turn("hi")] * 5, turn("hi", None)],
    "first of six without a reference": [turn("hi", None), *[turn("hi")] * 5],
    "one of two without arguments": [turn("ping", **uses(PING)), turn("ping", **uses({"name": "ping"}))],
    "one of two with other calls": [turn("ping", **uses(PING)), turn("hi", **uses(PING))],
}
"""What a set may hold, by the name of the case."""

OPTIONAL: Final[dict[str, dict[str, Any]]] = {
    "session": {"session_input": {"app_name": "app", "user_id": "u", "state": {"a": 1}}},
    "no session": {"session_input": None},
    "no state at the end": {"final_session_state": None},
    "timestamps": {"creation_timestamp": 1.5},
}
"""Fields of a case beside its conversation."""


def written(path: Path, cases: Mapping[str, Mapping[str, Any]]) -> Path:
    """A file with a set of these cases."""
    listed = [{"eval_id": name, **case} for name, case in cases.items()]
    path.write_text(json.dumps({"eval_set_id": "set", "eval_cases": listed}))
    return path


def backend() -> MockBackend:
    """What the agent runs on."""
    return mock_backend({"helper": answer})


async def by_adk(path: Path) -> dict[str, EvalCaseResult]:
    """What ADK's own service makes of a file, played by itself, on the agent that the suite runs."""
    from google.adk.evaluation.base_eval_service import (
        EvaluateConfig,
        EvaluateRequest,
        InferenceConfig,
        InferenceRequest,
    )
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric
    from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
    from google.adk.evaluation.local_eval_service import LocalEvalService
    from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file

    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("app", "set")
    for case in load_eval_set_from_file(str(path), "set").eval_cases:
        manager.add_eval_case("app", "set", case)
    app: Any = backend().compile(agent.node).published()
    service = LocalEvalService(app.root_agent, manager, app=app)
    request = InferenceRequest(app_name="app", eval_set_id="set", inference_config=InferenceConfig())
    played = [one async for one in service.perform_inference(request)]
    metrics = [
        EvalMetric(metric_name=name, threshold=least, criterion=BaseCriterion(threshold=least))
        for name, least in METRICS.items()
    ]
    config = EvaluateConfig(eval_metrics=metrics)
    judged = service.evaluate(EvaluateRequest(inference_results=played, evaluate_config=config))
    return {one.eval_id: one async for one in judged}


@dataclass
class Said:
    """Verdict and scores of a case."""

    passed: bool
    scores: dict[str, float | None] = field(default_factory=dict[str, "float | None"])


async def both(path: Path, engine: Any) -> tuple[dict[str, Said], dict[str, Said]]:
    """What ADK says of each case of a file, and what the suite of that file says."""
    adk = {
        name: Said(
            one.final_eval_status.name == "PASSED",
            {each.metric_name: each.score for each in one.overall_eval_metric_results},
        )
        for name, one in (await by_adk(path)).items()
    }
    report = await FluentEvalSuite.from_eval_set(path, agent, backend=backend()).run(engine=engine)
    ours = {
        one.eval_id: Said(one.passed, {score.metric: score.value for score in one.scores})
        for one in report.case_results
    }
    return adk, ours


@pytest.mark.newest
@pytest.mark.parametrize("engine", ["light", "adk"])
async def test_verdicts_are_those_of_adks_service(tmp_path: Path, engine: str) -> None:
    """Case by case, with the scores, of a file that ADK's service reads and plays by itself."""
    cases: dict[str, Mapping[str, Any]] = {name: {"conversation": turns} for name, turns in CASES.items()}
    cases |= {name: {"conversation": [turn("hi")], **more} for name, more in OPTIONAL.items()}
    adk, ours = await both(written(tmp_path / "x.evalset.json", cases), engine)
    assert {name: ours[name] for name in cases} == {name: adk[name] for name in cases}
    assert {one.passed for one in ours.values()} == {True, False}


APP: Final = """\
from tests.eval.test_as_adk_eval import agent, backend

app = backend().compile(agent.node).published()
root_agent = app.root_agent
"""


@pytest.mark.newest
def test_verdicts_are_those_of_adk_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself, with its own defaults, on the same file."""
    path = written(
        tmp_path / "x.evalset.json", {name: {"conversation": turns} for name, turns in CASES.items()}
    )
    suite = FluentEvalSuite.from_eval_set(path, agent, backend=backend())
    ours = {name: case.passed for name, case in asyncio.run(suite.run()).cases.items()}
    assert ours == adk_eval(tmp_path, monkeypatch, APP, path)


@pytest.mark.newest
@pytest.mark.parametrize("engine", ["light", "adk"])
async def test_thoughts_of_the_agent_do_not_count(tmp_path: Path, engine: str) -> None:
    """ADK takes them for a part of the answer; a suite leaves them out, on both sides of the comparison.

    It is on purpose that these verdicts are not those of `adk eval`.
    """
    thinks = {"parts": [THINKS, *SAID["parts"]]}
    cases = {
        "the answer": {"conversation": [turn("think")]},
        "recorded with thoughts": {"conversation": [turn("think", thinks)]},
        "another answer, the same thoughts": {
            "conversation": [turn("think", {"parts": [THINKS, {"text": "No"}]})]
        },
        "thoughts alone": {"conversation": [turn("only think", {"parts": [THINKS]})]},
        "thoughts in one turn": {"conversation": [turn("hi", thinks), turn("think", thinks)]},
    }
    adk, ours = await both(written(tmp_path / "x.evalset.json", cases), engine)
    assert {name: (adk[name].passed, one.passed) for name, one in ours.items()} == {
        "the answer": (False, True),
        "recorded with thoughts": (True, True),
        "another answer, the same thoughts": (True, False),
        "thoughts alone": (True, False),
        "thoughts in one turn": (False, False),  # of the first turn, the reference alone has thoughts
    }


@pytest.mark.parametrize("engine", ["light", pytest.param("adk", marks=pytest.mark.newest)])
async def test_judges_and_reports_are_given_answers_without_thoughts(tmp_path: Path, engine: Any) -> None:
    """Those of the agent and those in the set; what the agent said is in ADK's result without them, too."""
    heard: list[tuple[str, str | None]] = []

    def judge(response: str, reference: str | None, tools: list[str]) -> float:
        heard.append((response, reference))
        return 1.0

    turns = [turn("think", {"parts": [THINKS, *SAID["parts"]]}), turn("think", None)]
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": turns}})
    options: dict[str, Any] = {"custom_judges": [FluentJudge("j", judge)], "backend": backend()}
    suite = FluentEvalSuite.from_eval_set(path, agent, metrics=[], **options)
    report = await suite.run(engine=engine)
    assert heard == [("The answer is pong.", "The answer is pong."), ("The answer is pong.", None)]
    (result,) = report.case_results
    assert [(one.answer, one.reference) for one in result.turns] == [
        ("The answer is pong.", "The answer is pong."),
        ("The answer is pong.", ""),
    ]
    assert result.native is not None
    for each in result.native.eval_metric_result_per_invocation:
        assert (THOUGHT.text or "") not in each.actual_invocation.model_dump_json()


async def test_the_message_of_a_user_reaches_the_model_as_it_is(tmp_path: Path) -> None:
    """In its parts, which are not joined."""
    said = {"parts": [{"text": "two"}, {"text": "texts"}], "role": "user"}
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": [turn(said), turn("hi")]}})
    mock = backend()
    assert (await FluentEvalSuite.from_eval_set(path, agent, backend=mock).run(engine="light")).passed
    first, _, second = mock.calls["helper"][1].contents
    assert [[part.text for part in each.parts or ()] for each in (first, second)] == [
        ["two", "texts"],
        ["hi"],
    ]


def test_a_set_without_references_and_arguments_goes_through_yaml(tmp_path: Path) -> None:
    """What is absent in it stays absent, and is not taken for a call that may have any arguments."""
    turns = [turn("hi", None, **uses({"name": "ping"}, PING)), turn("hi", OTHER)]
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": turns}})
    suite = FluentEvalSuite.from_eval_set(path, agent)
    (tmp_path / "x.yaml").write_text(suite.to_yaml())
    again = FluentEvalSuite.from_yaml(tmp_path / "x.yaml", agent)
    assert [case.turns for case in again.cases] == [case.turns for case in suite.cases]
    (case,) = again.to_eval_set().eval_cases
    assert case.conversation is not None
    assert case.conversation[0].final_response is None
    calls: Any = case.conversation[0].intermediate_data
    assert [call.args for call in calls.tool_uses] == [None, {}]
    assert "the calls by name" not in suite.to_eval_set_file(tmp_path / "y.evalset.json", tmp_path / "c.json")
    assert '"ignore_args": false' in (tmp_path / "c.json").read_text()


async def test_what_is_absent_in_a_set_is_named_where_it_fails_a_case(tmp_path: Path) -> None:
    """With the score; else nobody would see why an answer, or a call, is not the expected one."""
    turns = [turn("ping", **uses({"name": "ping"})), turn("hi", None)]
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": turns}})
    suite = FluentEvalSuite.from_eval_set(path, agent, backend=backend())
    (result,) = (await suite.run(engine="light")).case_results
    assert result.failures == (
        "tool_trajectory_avg_score is 0.5, below 1: turn 1 expects 'ping' without arguments, which "
        '`adk eval` tells from empty ones: "args": {}',
        "response_match_score is 0.5, below 0.8: turn 2 expects an empty answer, as `adk eval` does without "
        "a final response",
    )


def test_a_case_without_turns_is_refused_by_name(tmp_path: Path) -> None:
    """A set that has one says which."""
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": []}})
    with pytest.raises(EvalError, match="Case 'x' of set 'set': A case has an input"):
        FluentEvalSuite.from_eval_set(path, agent)


async def test_an_absent_answer_is_judged_only_where_a_metric_says_so(tmp_path: Path) -> None:
    """As by `adk eval` with a configuration that names the metrics."""
    path = written(tmp_path / "x.evalset.json", {"x": {"conversation": [turn("hi", None)]}})
    for metrics, passed in ([["tool_trajectory_avg_score"], True], [["response_match_score"], False]):
        suite = FluentEvalSuite.from_eval_set(path, agent, metrics=metrics, backend=backend())
        assert (await suite.run(engine="light")).passed is passed
