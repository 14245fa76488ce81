"""Cases run and judged: by ADK's metrics, by functions, and by what they themselves assert."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.evaluation.eval_result import EvalCaseResult
from google.adk.evaluation.evaluator import EvalStatus
from google.adk.tools.agent_tool import AgentTool
from pydantic import BaseModel

from adk_fluent import Agent, S, T, gate, tap
from adk_fluent.errors import ADKFluentError, ArgumentError, BackendError, EvalError
from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite, FluentJudge, PrebuiltMetrics
from adk_fluent.eval.results import NOTHING_JUDGED
from adk_fluent.middleware import cache
from adk_fluent.testing import call_tool, mock_backend
from tests.eval.support import TICKET, Desk, desk, pipeline, scores, scripted

TRAJECTORY, MATCH = "tool_trajectory_avg_score", "response_match_score"


async def test_all_that_a_case_can_expect() -> None:
    """Trajectory, reference, words, state: all in one case, which passes."""
    case = FluentCase(
        "My bill is wrong",
        expected_trajectory=["open_ticket"],
        expected_response_contains="T-1",
        reference_response="Your ticket T-1 is open.",
        mock_tool_outputs={"open_ticket": "T-1"},
        state_assertions={"intent": "billing", "answer": lambda text: "T-1" in text},
        tags=["billing"],
    )
    report = await desk(case, metrics=[TRAJECTORY, MATCH]).run(engine="light")
    assert report.passed
    assert report.pass_rate == 1
    assert scores(report) == {TRAJECTORY: 1, MATCH: 1, "response_contains": 1, "state": 1}
    native = report.case_results[0].native
    assert isinstance(native, EvalCaseResult)
    assert native.final_eval_status is EvalStatus.PASSED
    assert report.case_results[0].final_eval_status is EvalStatus.PASSED


@pytest.mark.parametrize(
    ("expected", "score"),
    [
        (["open_ticket"], 1),
        ([call_tool("open_ticket", title="bill")], 1),
        ([{"open_ticket": {"title": "bill"}}], 1),
        ([call_tool("open_ticket", title="other")], 0),
        (["find_bill"], 0),
        ([], 0),
        (["find_bill", "open_ticket"], 0),
    ],
)
async def test_trajectories_by_name_or_with_arguments(expected: list[Any], score: float) -> None:
    """A name means the call with any arguments; arguments are compared where they are given."""
    case = FluentCase("x", expected_trajectory=expected)
    assert scores(await desk(case, metrics=[TRAJECTORY]).run(engine="light")) == {TRAJECTORY: score}


@pytest.mark.parametrize(
    ("match", "expected", "score"),
    [
        ("exact", ["find_bill", call_tool("open_ticket", title="a")], 1),
        ("in_order", ["open_ticket"], 1),
        ("in_order", [call_tool("open_ticket", title="a"), "find_bill"], 0),
        ("any_order", [call_tool("open_ticket", title="a"), "find_bill"], 1),
        ("any_order", [call_tool("open_ticket", title="b"), "find_bill"], 0),
    ],
)
async def test_a_trajectory_may_leave_calls_out(match: Any, expected: list[Any], score: float) -> None:
    """`in_order` and `any_order` ask only for the calls that are named, also where some name arguments."""
    answers = (call_tool("find_bill", month=1), call_tool("open_ticket", title="a"), "Done.")
    suite = desk(
        FluentCase("x", expected_trajectory=expected),
        answers=answers,
        metrics=[TRAJECTORY],
        trajectory_match=match,
    )
    assert scores(await suite.run(engine="light")) == {TRAJECTORY: score}


async def test_several_turns_share_a_session() -> None:
    """Each turn is answered in the same session, and what is expected of it alone is judged."""
    answers = (call_tool("find_bill", month=1), "January.", "I cannot.")
    case = FluentCase(
        ["Which bill?", "Pay it"],
        expected_trajectory=[["find_bill"], []],
        reference_response=[None, "I cannot."],
        expected_response_contains="cannot",
    )
    report = await desk(case, answers=answers, metrics=[TRAJECTORY, MATCH]).run(engine="light")
    assert scores(report) == {TRAJECTORY: 1, MATCH: 1, "response_contains": 1}
    assert [turn.answer for turn in report.case_results[0].turns] == ["January.", "I cannot."]
    assert report.case_results[0].turns[1].expected_calls == ()


async def test_what_is_not_stated_is_not_judged() -> None:
    """A case that no metric can score has not passed, and says why; `allow_unjudged` lets it pass."""
    suite = desk(FluentCase("x"), metrics=[TRAJECTORY, MATCH])
    report = await suite.run(engine="light")
    assert not report.passed
    assert scores(report) == {}
    assert report.unjudged == {"x": (NOTHING_JUDGED,)}
    assert report.summary.splitlines()[0].startswith("NOT JUDGED  x ")
    assert report.summary.endswith("0 of 1 cases passed, 1 not wholly judged.")
    allowed = await suite.run(engine="light", allow_unjudged=True)
    assert allowed.passed
    assert allowed.unjudged == report.unjudged
    assert allowed.failed == ()


@pytest.mark.parametrize(
    ("expectation", "metric"),
    [
        ({"expected_trajectory": ["find_bill"]}, TRAJECTORY),
        ({"expected_trajectory": []}, TRAJECTORY),
        ({"reference_response": "Bananas are yellow"}, MATCH),
    ],
)
@pytest.mark.parametrize("listed", [(), (TRAJECTORY,), (MATCH,)])
async def test_an_expectation_brings_its_metric(
    expectation: dict[str, Any], metric: str, listed: Sequence[str]
) -> None:
    """What a case states is judged, whether or not the suite lists the metric that judges it."""
    report = await desk(FluentCase("x", **expectation), metrics=listed).run(engine="light")
    assert not report.passed
    assert set(scores(report)) == {metric}


async def test_what_an_expectation_brings_is_as_strict_as_adk_eval() -> None:
    """Every turn's calls must be those expected; thresholds of the suite or the case still count."""
    case = FluentCase(["a", "b"], expected_trajectory=[["open_ticket"], []])
    answers = (call_tool("open_ticket", title="bill"), "Done.", call_tool("find_bill", month=1), "So.")
    report = await desk(case, answers=answers).run(engine="light")
    assert scores(report) == {TRAJECTORY: 0.5}
    assert not report.passed
    lenient = desk(case, answers=answers, thresholds={TRAJECTORY: 0.5})
    assert (await lenient.run(engine="light")).passed


async def test_a_judge_takes_over_the_reference() -> None:
    """A judge of the suite's own is given the reference, so words are not counted as well."""
    judge = FluentJudge("same", lambda answer, reference, tools: reference == "other words")
    report = await desk(FluentCase("x", reference_response="other words"), custom_judges=[judge]).run(
        engine="light"
    )
    assert scores(report) == {"same": 1}
    assert report.passed


@pytest.mark.parametrize("cases", [[], ()])
async def test_an_empty_suite_is_an_error(cases: Any) -> None:
    """Nothing was judged, so nothing can be green: neither a suite without cases nor a report of none."""
    with pytest.raises(EvalError, match=r"^Suite 'eval' has no cases, so it would judge nothing"):
        await desk(*cases).run(engine="light")
    assert not FluentEvalReport(()).passed


async def test_initial_state_reaches_the_agents_and_no_other_case() -> None:
    """A case's state is its own, `user:` and `app:` keys too."""
    greet = Agent("greeter").instruct("Say {user:name?} {app:shop?} {visits?}").writes("app:shop")
    backend = mock_backend({"greeter": "Hello."})
    suite = desk(
        FluentCase("a", initial_state={"user:name": "Ann", "visits": 3}, expected_response_contains="Hello"),
        FluentCase("b", expected_response_contains="Hello"),
        pipeline=greet,
        backend=backend,
    )
    assert (await suite.run(engine="light", parallelism=1)).passed
    configs: list[Any] = [call.config for call in backend.calls["greeter"]]
    told = [config.system_instruction.splitlines()[0] for config in configs]
    assert told == ["Say Ann  3", "Say   "]


async def test_state_is_asserted_by_value_type_predicate_and_schema_field() -> None:
    """At the end, and after a named agent; each mismatch is one line."""
    flow = pipeline >> S.set(confidence=0.4, intent="closed")
    suite = desk(
        FluentCase(
            "x",
            state_assertions={Desk.intent: "open", Desk.confidence: lambda v: v > 0.8, "answer": int, "z": 1},
            state_after={"classifier": {Desk.intent: "billing", "answer": "early"}},
        ),
        pipeline=flow,
    )
    (result,) = (await suite.run(engine="light")).case_results
    assert not result.passed
    assert result.failures == (
        "state['intent'] is 'closed' at the end, not 'open'",
        "state['confidence'] is 0.4 at the end, which the predicate refuses",
        "state['answer'] is 'Your ticket T-1 is open.' at the end, not a int",
        "state['z'] is not set at the end, not 1",
        "state['answer'] is not set after classifier, not 'early'",
    )


async def test_an_async_predicate_fails_its_case_and_async_progress_is_refused() -> None:
    """Nothing awaits them: a coroutine would pass as true, and a progress report would never happen."""

    async def later(*given: Any) -> bool:
        return False

    case = FluentCase("x", state_assertions={"intent": later})
    (result,) = (await desk(case).run(engine="light")).case_results
    assert "later raised PredicateError: later is async" in result.failures[0]
    with pytest.raises(ArgumentError, match=r"^run\(progress=\) takes a plain function"):
        await desk(case).run(engine="light", progress=later)  # pyright: ignore[reportArgumentType]  # what is refused


async def test_a_predicate_that_raises_fails_its_case() -> None:
    """So does state after an agent that never ran."""
    skipped = Agent("late").proceed_if(lambda state: False)
    case = FluentCase("x", state_assertions={"intent": lambda v: v > 1}, state_after={"late": {"a": 1}})
    (result,) = (await desk(case, pipeline=pipeline >> skipped).run(engine="light")).case_results
    assert "the predicate raised TypeError" in result.failures[0]
    assert result.failures[1] == "late said and wrote nothing, so there is no state after it"


async def test_a_target_is_cut_out_with_what_holds_for_it() -> None:
    """Only the step runs, with the middleware and resources of what is around it."""
    seen: list[str] = []

    class Watch:
        async def before_agent(self, ctx: Any, agent_name: str) -> None:
            seen.append(agent_name)

    def lookup(city: str, db: dict[str, str]) -> str:
        """Look a city up."""
        return db[city]

    finder = Agent("finder").instruct("Find for {intent}.").tool(lookup)
    flow = (classifier_like() >> finder).middleware(Watch()).inject(db={"Rome": "sunny"})  # pyright: ignore[reportArgumentType]  # a middleware may have any hooks
    suite = desk(
        FluentCase(
            "x", target_node="finder", initial_state={"intent": "weather"}, expected_trajectory=["lookup"]
        ),
        pipeline=flow,
        metrics=[TRAJECTORY],
        backend=mock_backend({"finder": [call_tool("lookup", city="Rome"), "Sunny."]}),
    )
    report = await suite.run(engine="light")
    assert report.passed, report.summary
    assert seen == ["finder"]


async def test_a_target_keeps_resources_and_schema_of_what_is_around_it() -> None:
    """What an enclosing expression injects is there, and the schema that is bound there holds."""

    def lookup(city: str, db: dict[str, str]) -> str:
        """Look a city up."""
        return db[city]

    finder = Agent("finder").tool(lookup).writes("found")
    flow = (S.set(intent="x") >> finder).inject(db={"Rome": "sunny"}).schema(Desk)
    backend = mock_backend({"finder": [call_tool("lookup", city="Rome"), "Sunny."]})
    suite = desk(FluentCase("x", target_node="finder"), pipeline=flow, backend=backend)
    (result,) = (await suite.run(engine="light")).case_results
    results = [part.function_response for part in backend.calls["finder"][1].contents[-1].parts or ()]
    assert results[0] is not None
    assert results[0].response == {"result": "sunny"}
    assert "'found'" in (result.error or "")  # which the schema does not declare


async def test_an_error_event_fails_the_case() -> None:
    """A model that reports a failure which nothing catches, as `run` would raise it."""
    from google.adk.models.llm_response import LlmResponse

    backend = mock_backend({"classifier": LlmResponse(error_code="SAFETY"), "resolver": "ok"})
    (result,) = (await desk(FluentCase("x"), backend=backend).run(engine="light")).case_results
    assert not result.passed
    assert (result.error or "").startswith("'classifier' gave no answer but an error: ")


def classifier_like() -> Agent[str]:
    """An agent that would fail, were it asked."""
    return Agent("first").instruct("Classify.").writes("intent")


async def test_a_target_inherits_the_model_of_the_agent_above() -> None:
    """An agent without a model has that of the agent which delegates to it."""
    team = Agent("lead", "gemini-2.5-pro").delegate(Agent("aide").instruct("Help."))
    case = FluentCase("x", target_node="aide", expected_response_contains="Hi")
    suite = desk(case, pipeline=team, backend=mock_backend({"aide": "Hi."}))
    from adk_fluent.eval.targets import cut

    assert getattr(cut(suite.root, "aide"), "model") == "gemini-2.5-pro"  # noqa: B009  # any node
    assert (await suite.run(engine="light")).passed


def test_a_target_without_what_it_reads_is_refused() -> None:
    """The message names the key and who would have written it."""
    with pytest.raises(EvalError, match="'resolver' reads 'intent', which 'classifier' writes before it"):
        desk(FluentCase("x", target_node="resolver"))


async def test_runs_have_a_spread_and_a_flake_rate() -> None:
    """`num_runs` keeps every run; a case that passes now and then is flaky."""
    turns = iter(["yes", "no", "yes", "yes"])
    backend = mock_backend({"classifier": "a", "resolver": lambda request: next(turns)})
    case = FluentCase("x", expected_response_contains="yes", reference_response="yes")
    suite = desk(case, metrics=[MATCH], num_runs=4, backend=backend)
    report = await suite.run(engine="light", parallelism=1)
    assert len(report.case_results) == 4
    assert report.pass_rate == 0.75
    assert report.flake_rate == 1
    (summary,) = report.cases.values()
    assert summary.is_flaky
    assert summary.flake_rate == 0.25
    assert not summary.passed
    spread = summary.scores[MATCH]
    assert (spread.mean, spread.low, spread.high) == (0.75, 0, 1)
    assert spread.deviation > 0.4
    assert report.summary.splitlines()[0].startswith("flaky  3/4  x")


def cached_helper(store: str) -> Any:
    """An agent with a cache."""
    return Agent("helper").middleware(cache(store))


CACHED: dict[str, Callable[[str], Any]] = {
    "around the agent": cached_helper,
    "around the pipeline": lambda store: (S.set(a=1) >> Agent("helper")).middleware(cache(store)),
    "inside a tool": lambda store: Agent("caller").tools(T.agent(cached_helper(store))),
    "inside a native tool": lambda store: Agent("caller").tool(AgentTool(cached_helper(store).build())),
}


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
@pytest.mark.parametrize("stores", ["own", "real"])
@pytest.mark.parametrize("place", CACHED)
async def test_a_cache_hides_no_flakiness(place: str, stores: Any, tmp_path: Path) -> None:
    """Every run asks the model, nothing is stored, and the report says so in one line."""
    turns = itertools.cycle(["yes", "no"])

    def caller(request: Any) -> Any:
        last: Any = request.contents[-1].parts[-1].function_response
        return str(last.response) if last else call_tool("helper", request="go")

    backend = mock_backend({"helper": lambda request: next(turns), "caller": caller}, stores=stores)
    store = str(tmp_path / "answers") if stores == "real" else "memory"
    suite = desk(
        FluentCase("x", expected_response_contains="yes"),
        pipeline=CACHED[place](store),
        num_runs=6,
        backend=backend,
    )
    report = await suite.run(engine="light", parallelism=1)
    assert (report.pass_rate, report.flake_rate, len(backend.calls["helper"])) == (0.5, 1, 6)
    assert report.notes == ("cache() was bypassed, so that every run asks the model.",)
    assert report.summary.splitlines()[-1] == report.notes[0]
    assert not (tmp_path / "answers").exists()


async def test_the_cache_of_a_judge_is_not_bypassed() -> None:
    """Nor that of anything but the pipeline; a suite without a cache says nothing of one."""
    judge_backend = mock_backend({"helper": ["1", "0"]})
    agent = cached_helper("memory")

    async def judge(answer: str, reference: str | None, tools: list[str]) -> float:
        return float(await agent.ask_async("good?", backend=judge_backend))

    suite = desk(FluentCase("x"), custom_judges=[FluentJudge("own", judge, 1.0)], num_runs=3)
    report = await suite.run(engine="light", parallelism=1)
    assert (report.pass_rate, len(judge_backend.calls["helper"]), report.notes) == (1, 1, ())


async def test_a_threshold_of_one_case() -> None:
    """The metrics of the suite are held to it, there alone."""
    loose = FluentCase("a", reference_response="Your ticket", thresholds={MATCH: 0.1})
    strict = FluentCase("b", reference_response="Your ticket")
    suite = desk(loose, strict, metrics=[MATCH], thresholds={MATCH: 1})
    assert [run.passed for run in (await suite.run(engine="light")).case_results] == [True, False]


async def test_a_case_that_raises_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on; the line names what went wrong, and nothing is logged."""
    backend = mock_backend({"classifier": lambda request: _raise(str(request.contents)), "resolver": "ok"})
    with caplog.at_level(logging.ERROR):
        report = await desk(
            FluentCase("bad"), FluentCase("good", expected_response_contains="ok"), backend=backend
        ).run(engine="light")
    assert [result.passed for result in report.case_results] == [False, True]
    assert "'classifier'" in (report.case_results[0].error or "")
    assert "no line" in str(report.summary)
    assert not caplog.records


def _raise(text: str) -> str:
    if "bad" in text:
        raise ConnectionError("no line")
    return "billing"


async def test_cost_tokens_and_seconds_per_case() -> None:
    """They are what the pipeline used, summed over its turns."""
    report = await desk(FluentCase("x")).run(engine="light")
    (result,) = report.case_results
    assert result.tokens > 0
    assert result.seconds > 0
    assert result.cost is not None
    assert result.cost > 0
    assert report.cost == result.cost
    assert sum(turn.seconds for turn in result.turns) == result.seconds


async def test_runs_go_on_at_the_same_time() -> None:
    """As many as `parallelism` says, and the caller is told how far it has come."""
    running, most = 0, 0
    told: list[tuple[int, int]] = []

    async def count(state: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1

    flow = tap(count) >> Agent("a")
    cases = [FluentCase(f"case {n}", expected_response_contains="ok") for n in range(6)]
    suite = desk(*cases, pipeline=flow, backend=mock_backend({"a": "ok"}))
    report = await suite.run(
        engine="light", parallelism=3, progress=lambda done, total: told.append((done, total))
    )
    assert most == 3
    assert report.passed
    assert told == [(n, 6) for n in range(1, 7)]
    assert list(report.cases) == [f"case_{n}" for n in range(6)]


async def test_tags_choose_cases() -> None:
    """`run(tags=)` runs only those; a tag that no case has is told with the nearest."""
    suite = desk(FluentCase("a", tags=["billing"]), FluentCase("b", tags=["refund"]))
    report = await suite.run(engine="light", tags=["refund"])
    assert list(report.cases) == ["b"]
    with pytest.raises(EvalError, match=r"no tag 'refunds'\. Did you mean 'refund'"):
        await suite.run(tags=["refunds"])


@pytest.mark.parametrize("metric", ["response_evaluation_score", "safety_v1", "multi_turn_task_success_v1"])
async def test_a_cloud_metric_is_refused_before_anything_runs(metric: str) -> None:
    """By name, and no model has been asked."""
    backend = scripted(*TICKET)()
    suite = desk(FluentCase("x"), metrics=[PrebuiltMetrics(metric)], backend=backend)
    with pytest.raises(
        EvalError, match=f"{metric} is computed by a service of Google Cloud, so nothing was run"
    ):
        await suite.run()
    assert not backend.calls


async def test_only_backends_on_adk() -> None:
    """Another backend is refused in one line."""

    class Other:
        def compile(self, node: Any, config: Any = None) -> Any: ...
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> Any: ...
        def stream(self, compiled: Any, prompt: Any, **options: Any) -> Any: ...

    with pytest.raises(ADKFluentError) as told:
        await desk(FluentCase("x")).run(backend=Other())
    found = told.value.__cause__ or told.value
    assert isinstance(found, BackendError)
    assert "Other" in str(found)


def look(x: int) -> int:
    """Look."""
    return x


class Seen(BaseModel):
    """A typed answer."""

    value: int


ANSWERED = [call_tool("look", x=1), call_tool("set_model_response", value=3), '{"value": 3}']


@pytest.mark.parametrize(
    ("asked", "case", "metric", "said", "reason"),
    [
        (
            gate(lambda state: True, message="OK to pay?") >> Agent("a"),
            FluentCase("hi", reference_response="Done."),
            "response_match_score",
            ["Done."],
            "'gate' waits for approval: OK to pay?",
        ),
        (
            Agent("a"),
            FluentCase("hi", reference_response="\N{THUMBS UP SIGN}"),
            "response_match_score",
            ["\N{THUMBS UP SIGN}"],
            "turn 1 expects an answer without words, and this metric compares words alone",
        ),
        (
            Agent("a").tool(look).returns(Seen),
            FluentCase("hi", expected_trajectory=["look"]),
            "tool_trajectory_avg_score",
            ANSWERED,
            "turn 1 calls 'set_model_response', by which an agent with tools gives a typed answer.",
        ),
    ],
    ids=["approval", "no words", "answer by a tool"],
)
async def test_a_score_of_zero_says_what_the_metric_met(
    asked: Any, case: FluentCase, metric: Any, said: list[Any], reason: str
) -> None:
    """A case that waits, or that a metric of ADK's cannot judge as its author expects, says so."""
    backend = mock_backend({"a": said})
    suite = FluentEvalSuite(asked, [case], metrics=[metric], backend=backend)
    report = await suite.run(engine="light")
    assert not report.passed
    assert reason in str(report)
