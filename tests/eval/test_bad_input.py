"""What is wrong with a suite is told when it is written, in one line, with the nearest of what exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, T
from adk_fluent.errors import ADKFluentError, EvalError
from adk_fluent.eval import FluentCase, FluentEvalSuite, FluentJudge, UserSimulation
from tests.eval.support import desk, pipeline


def judged(answer: str, reference: str | None, tools: list[str]) -> float:
    """A judge."""
    return 1.0


JUDGE = FluentJudge("short", judged)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: desk(FluentCase("x", target_node="resolvr")), "Case 'x': there is no agent or step 'resolvr'. Did you mean 'resolver'?"),
    (lambda: desk(FluentCase("x", state_after={"clasifier": {}})), "no agent or step 'clasifier'. Did you mean 'classifier'?"),
    (lambda: desk(FluentCase("x", expected_trajectory=["open_tiket"])), "no tool 'open_tiket'. Did you mean 'open_ticket'?"),
    (lambda: desk(FluentCase("x", mock_tool_outputs={"find_bil": 1})), "no tool 'find_bil'. Did you mean 'find_bill'?"),
    (lambda: desk(FluentCase("x", tags=["biling"]), tags=["billing"]), "Case 'x': there is no tag 'biling'. Did you mean 'billing'?"),
    (lambda: desk(metrics=["response_match"]), "no metric 'response_match'. Did you mean 'response_match_score'?"),
    (lambda: desk(thresholds={"q": 1}), "FluentEvalSuite thresholds: there is no metric 'q'."),
    (
        lambda: desk(FluentCase("x", thresholds={"brevty": 1}), custom_judges=[FluentJudge("brevity", judged)]),
        "Case 'x' thresholds: there is no metric 'brevty'. Did you mean 'brevity'?",
    ),
    (lambda: desk(metrics=["response_match_score"], thresholds={"response_match_score": 7}), "a number from 0 to 1, not 7"),
    (lambda: desk(metrics=["rubric_based_final_response_quality_v1"]), "looks for rubrics"),
    (lambda: desk(metrics=["per_turn_user_simulator_quality_v1"]), "judges a simulated user"),
    (lambda: desk(custom_judges=[FluentJudge("q", judged), FluentJudge("q", judged)]), "FluentJudge('q'): a metric of that name"),
    (lambda: desk(custom_judges=[judged]), "takes FluentJudge objects"),
    (lambda: desk(num_runs=0), "num_runs=) takes a positive number, not 0"),
    (lambda: desk(trajectory_match="exactly"), "choose one of exact, in_order, any_order"),
    (lambda: FluentEvalSuite("pipeline"), "This takes an expression"),
    (lambda: FluentEvalSuite(pipeline, FluentCase("x")), "FluentEvalSuite(cases=) takes a list, not Flu"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentEvalSuite(pipeline, metrics="x"), "FluentEvalSuite(metrics=) takes a list, not 'x'"),
    (lambda: FluentEvalSuite(pipeline, rubrics="x"), "FluentEvalSuite(rubrics=) takes a list of text, not 'x'"),
    (lambda: FluentEvalSuite(pipeline, tags="x"), "FluentEvalSuite(tags=) takes a list of text, not 'x'"),
    (lambda: FluentEvalSuite(pipeline, custom_judges=JUDGE), "custom_judges=) takes a list, not FluentJ"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentEvalSuite(pipeline, metrics=[JUDGE]), "'short' is a judge of your own, which goes into custom_judges=["),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: desk("x"), "takes FluentCase objects, not 'x'"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: desk(*[FluentCase("x", metadata={"id": "a"})] * 2), "Two cases are called 'a'"),
    (lambda: FluentCase([]), "A case has an input"),
    (lambda: FluentCase(3), "a turn is text or a Content, not 3"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentCase([3]), "a turn is text or a Content, not 3"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentCase("x", expected_trajectory="open_ticket"), "a list of tool calls, not 'open_ticket'"),
    (lambda: FluentCase("x", expected_trajectory=[3]), "an expected tool call is a name"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentCase(["x", "y"], expected_trajectory=[["a"]]), "has 1 parts for 2 turns"),
    (lambda: FluentCase(["x", "y"], reference_response=["a"]), "reference_response has 1 parts for 2 turns"),
    (lambda: FluentCase("x", expected_response_contains=3), "expected_response_contains is text"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentCase("x", initial_state=[1]), "initial_state is a dict"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: FluentCase("x", tags="billing"), "write ['billing']"),
    (lambda: FluentJudge("", judged), "A FluentJudge has a name"),
    (lambda: FluentJudge("q", 7), "fn is a function, not 7"),  # pyright: ignore[reportArgumentType]  # the point
    (lambda: UserSimulation(max_turns=0), "max_turns=) takes a positive number"),
    (lambda: UserSimulation(model=3), "model=) takes text"),  # pyright: ignore[reportArgumentType]  # the point
]  # fmt: skip


@pytest.mark.parametrize(("make", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_suite_is_refused(make: Callable[[], Any], said: str) -> None:
    """Before anything runs, and in one line."""
    with pytest.raises(EvalError) as told:
        make()
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_tools_of_a_set_are_not_known_before_a_run() -> None:
    """Where only a run tells which tools there are, any name may be expected."""
    agent = Agent("a").tools(T.mcp("http://127.0.0.1:1/mcp"))
    suite = FluentEvalSuite(agent, [FluentCase("x", expected_trajectory=["whatever"])])
    assert suite.cases[0].turns[0].calls


def test_names_that_can_be_known_are_taken() -> None:
    """Tools of agents inside tools, ADK's own, and the names of steps."""
    inner = Agent("inner").tool(len)
    outer = Agent("outer").tools(T.agent(inner)).delegate(Agent("other"))
    case = FluentCase("x", expected_trajectory=["inner", "len", "transfer_to_agent"], target_node="other")
    assert FluentEvalSuite(outer, [case]).cases == (case,)


@pytest.mark.parametrize("options", [{"parallelism": 0}, {"engine": "fast"}])
async def test_wrong_options_of_a_run(options: dict[str, Any]) -> None:
    """Refused before anything runs."""
    with pytest.raises(ADKFluentError):
        await desk(FluentCase("x")).run(**options)
