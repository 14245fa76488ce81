"""Sets that ADK's web page wrote for runs that wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.adk.evaluation.eval_case import EvalCase, IntermediateData, Invocation
from google.adk.evaluation.eval_set import EvalSet
from google.genai import types

from adk_fluent import Agent, T, gate
from adk_fluent.backends import MockBackend
from adk_fluent.eval import FluentCase, FluentEvalSuite
from adk_fluent.eval.results import CaseResult
from adk_fluent.middleware import tool_approval
from adk_fluent.testing import call_tool, mock_backend

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest

paid: list[int] = []
"""The amounts that were paid."""


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    """Each test begins with nothing paid."""
    paid.clear()


def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return "paid"


def answer(request: LlmRequest) -> Any:
    """A call of the tool, and the answer once it has a result."""
    parts = [part for content in request.contents for part in content.parts or ()]
    return "Done." if any(part.function_response for part in parts) else call_tool("pay", amount=5)


payer = Agent("payer").instruct("Pay.").tools(T.fn(pay, confirm=True))
gated = Agent("one") >> gate(lambda state: True, message="Approve?") >> Agent("two")
GATED: Final = "gated"
PIPELINES: Final[dict[str, Any]] = {"payer": payer, GATED: gated, "pipeline": Agent("one") >> payer}


def script() -> MockBackend:
    """What the agents say."""
    return mock_backend({"one": "First.", "two": "Second.", "payer": answer})


def said(text: str) -> types.Content:
    """A message of the user."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def approval(request: str = "recorded", *, confirmed: bool = True) -> types.Content:
    """What the web page sends for a person."""
    response = types.FunctionResponse(
        id=request, name="adk_request_confirmation", response={"confirmed": confirmed}
    )
    return types.Content(role="user", parts=[types.Part(function_response=response)])


async def recorded(pipeline: Any, confirmed: bool | None) -> list[Invocation]:
    """The turns that ADK's web page writes of a session in which a person answered, or did not yet."""
    from google.adk.cli.utils.evals import convert_session_to_eval_invocations
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService

    sessions = InMemorySessionService()
    runner = Runner(app=script().compile(pipeline.node).published(), app_name="app", session_service=sessions)
    here: dict[str, Any] = {"user_id": "u", "session_id": "s"}
    await sessions.create_session(app_name="app", **here)
    events = [event async for event in runner.run_async(**here, new_message=said("Pay 5"))]
    if confirmed is not None:
        calls = (call for event in events for call in event.get_function_calls())
        (asked,) = (call.id for call in calls if call.name == "adk_request_confirmation")
        message = approval(asked or "", confirmed=confirmed)
        async for _ in runner.run_async(**here, new_message=message):
            pass
    session = await sessions.get_session(app_name="app", **here)
    assert session is not None
    paid.clear()
    return convert_session_to_eval_invocations(session)


async def judged(pipeline: Any, turns: Sequence[Invocation], tmp_path: Path, engine: Any) -> CaseResult:
    """What a suite makes of a file with these turns."""
    case = EvalCase(eval_id="x", conversation=list(turns))
    path = tmp_path / "x.evalset.json"
    path.write_text(EvalSet(eval_set_id="set", eval_cases=[case]).model_dump_json(exclude_none=True))
    suite = FluentEvalSuite.from_eval_set(path, pipeline, backend=script())
    return (await suite.run(engine=engine)).case_results[0]


both_engines = pytest.mark.parametrize("engine", ["light", "adk"])


@pytest.mark.newest
@both_engines
@pytest.mark.parametrize("name", PIPELINES)
async def test_a_run_that_nobody_answered_is_judged_up_to_its_question(
    name: str, engine: str, tmp_path: Path
) -> None:
    """It passes if it asks again, under whichever ids; the tool does not run."""
    turns = await recorded(PIPELINES[name], None)
    result = await judged(PIPELINES[name], turns, tmp_path, engine)
    assert result.passed, (result.failures, result.turns)
    assert [call for call, _ in result.turns[0].calls][-1] == "adk_request_confirmation"
    assert paid == []


@pytest.mark.newest
@both_engines
async def test_a_run_that_no_longer_asks_fails(engine: str, tmp_path: Path) -> None:
    """The question is one of the calls that are expected."""
    turns = await recorded(gated, None)
    result = await judged(Agent("one") >> Agent("two"), turns, tmp_path, engine)
    assert "tool_trajectory_avg_score is 0, below 1" in result.failures


@pytest.mark.newest
@both_engines
@pytest.mark.parametrize("name", PIPELINES)
async def test_an_answer_without_the_message_before_it_says_what_is_missing(
    name: str, engine: str, tmp_path: Path
) -> None:
    """ADK's page makes one turn of a run that paused, of its last message; the case cannot be played."""
    (turn,) = await recorded(PIPELINES[name], True)
    assert not any(part.text for part in turn.user_content.parts or ())
    result = await judged(PIPELINES[name], [turn], tmp_path, engine)
    assert result.failures == (
        "Turn 1 answers 'adk_request_confirmation', which this run has not asked before. Of a run that "
        "paused, ADK's web page keeps the last message alone: put the one that began it before it.",
    )


@pytest.mark.newest
@both_engines
@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("name", PIPELINES)
async def test_with_the_message_before_it_the_answer_is_given_again(
    name: str, confirmed: bool, engine: str, tmp_path: Path
) -> None:
    """To the question of this run, and the calls belong to the turns in which they were made."""
    turns = await recorded(PIPELINES[name], confirmed)
    result = await judged(PIPELINES[name], [Invocation(user_content=said("Pay 5")), *turns], tmp_path, engine)
    assert result.passed, (result.failures, result.turns)
    assert len(result.turns) == 2
    assert result.turns[1].said == f"adk_request_confirmation: {{'confirmed': {confirmed}}}"
    assert paid == ([5] if confirmed and name != GATED else [])
    if confirmed:
        assert result.turns[1].answer == ("Second." if name == GATED else "Done.")


@pytest.mark.newest
@both_engines
async def test_another_end_than_the_recorded_one_fails(engine: str, tmp_path: Path) -> None:
    """What follows the answer is judged as any other turn."""
    turns = await recorded(payer, True)
    turns[0].final_response = types.Content(role="model", parts=[types.Part(text="Something else.")])
    result = await judged(payer, [Invocation(user_content=said("Pay 5")), *turns], tmp_path, engine)
    assert result.failures == ("response_match_score is 0, below 0.8",)
    assert paid == [5]


async def test_an_approval_that_a_person_wrote_answers_the_run(tmp_path: Path) -> None:
    """Whichever id it has, on every release of ADK."""
    second = types.Content(role="model", parts=[types.Part(text="Second.")])
    asked = types.FunctionCall(name="adk_request_confirmation", args={})
    turns = [
        Invocation(
            user_content=said("Pay 5"),
            final_response=types.Content(role="model", parts=[types.Part(function_call=asked)]),
            intermediate_data=IntermediateData(tool_uses=[asked]),
        ),
        Invocation(user_content=approval(), final_response=second),
    ]
    result = await judged(gated, turns, tmp_path, "light")
    assert result.passed, (result.failures, result.turns)
    assert result.turns[1].answer == "Second."
    assert [[name for name, _ in turn.calls] for turn in result.turns] == [["adk_request_confirmation"], []]


@pytest.mark.newest
@both_engines
async def test_questions_of_an_adk_workflow_are_answered(engine: str, tmp_path: Path) -> None:
    """`adk_request_input` has another id in each run, too."""
    from google.adk.events.request_input import RequestInput
    from google.adk.workflow import START, Workflow

    from adk_fluent.adopt import adopt

    heard: list[Any] = []

    def ask(node_input: object) -> Any:
        yield RequestInput(message="How many?", response_schema=None)

    def after(node_input: object) -> str:
        heard.append(node_input)
        return f"got {node_input}"

    asked = types.FunctionCall(name="adk_request_input", args={"interruptId": "recorded"})
    response = types.FunctionResponse(id="recorded", name="adk_request_input", response={"result": "seven"})
    given = types.Content(role="user", parts=[types.Part(function_response=response)])
    question = types.Content(role="model", parts=[types.Part(function_call=asked)])
    turns = [
        Invocation(
            user_content=said("Order"),
            final_response=question,
            intermediate_data=IntermediateData(tool_uses=[asked]),
        ),
        Invocation(user_content=given),
    ]
    pipeline = adopt(Workflow(name="flow", edges=[(START, ask), (ask, after)]))
    result = await judged(pipeline, turns, tmp_path, engine)
    assert heard == ["seven"]
    assert [[name for name, _ in turn.calls] for turn in result.turns] == [["adk_request_input"], []]


def is_much(amount: int) -> bool:
    """Which amounts need an approval."""
    return amount > 4


sometimes = Agent("payer").tools(T.fn(pay, confirm=is_much))
ASKING: Final[dict[str, Any]] = {
    "a function": payer,
    "a function of the amount": sometimes,
    "a wrapper": Agent("payer").tools(T.confirm(pay)),
    "middleware": Agent("payer").tool(pay).middleware(tool_approval(["pay"])),
}


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("asking", ASKING)
async def test_a_mock_waits_for_the_answer_of_its_case(asking: str, confirmed: bool) -> None:
    """Where the case says what the person answers; a refusal keeps the mock from being called."""
    mocked: list[int] = []

    def mock(amount: int) -> str:
        mocked.append(amount)
        return "paid"

    case = FluentCase(
        ["Pay 5", approval(confirmed=confirmed)],
        expected_response_contains="Done.",
        mock_tool_outputs={"pay": mock},
    )
    suite = FluentEvalSuite(ASKING[asking], [case], backend=script())
    result = (await suite.run(engine="light")).case_results[0]
    assert result.passed, (result.failures, result.turns)
    assert [turn.answer for turn in result.turns] == ["", "Done."]
    assert (mocked, paid) == ([5] if confirmed else [], [])


@pytest.mark.newest  # older ones do not list the questions
async def test_a_mock_that_the_case_says_nothing_of_is_approved() -> None:
    """A call that need not be approved asks nothing, and one answer is for one question."""
    calls = [call_tool("pay", amount=1), call_tool("pay", amount=5), call_tool("pay", amount=6)]
    for turns, asked in ((["Pay"], 0), (["Pay", approval()], 1), (["Pay", approval(), approval()], 2)):
        mocked: list[int] = []

        def mock(amount: int, mocked: list[int] = mocked) -> None:
            mocked.append(amount)

        case = FluentCase(turns, mock_tool_outputs={"pay": mock}, expected_response_contains="Done.")
        backend = mock_backend({"payer": [*calls, "Done."]})
        suite = FluentEvalSuite(sometimes, [case], backend=backend)
        result = (await suite.run(engine="light")).case_results[0]
        assert result.passed, (result.failures, result.turns)
        questions = [name for turn in result.turns for name, _ in turn.calls if name != "pay"]
        assert (mocked, len(questions), paid) == ([1, 5, 6], asked, [])


@pytest.mark.newest
@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_mock_of_an_agent_of_adk_waits_likewise(confirmed: bool) -> None:
    """ADK makes the approved call with the tool itself, which never runs."""
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool

    mocked: list[int] = []

    def mock(amount: int) -> str:
        mocked.append(amount)
        return "paid"

    class Theirs(LlmAgent):
        """Not of a class that is compiled."""

    native = Theirs(name="payer", tools=[FunctionTool(pay, require_confirmation=True)])
    case = FluentCase(
        ["Pay 5", approval(confirmed=confirmed)],
        expected_response_contains="Done.",
        mock_tool_outputs={"pay": mock},
    )
    suite = FluentEvalSuite(Agent("one") >> native, [case], backend=script())
    result = (await suite.run(engine="light")).case_results[0]
    assert result.passed, (result.failures, result.turns)
    assert (mocked, paid) == ([5] if confirmed else [], [])
