"""Typed answers are checked at their step, and asked again where that is allowed; so are calls of tools."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Loop, Route, StateSchema, T, map_over, race
from adk_fluent.adopt import adopt, to_source
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.debug import Recorder, Recording, ReplayerBackend
from adk_fluent.errors import AnswerError, ArgumentError, AskAgain, RunError, StateKeyError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.middleware import retry
from adk_fluent.telemetry import set_up
from adk_fluent.testing import call_tool
from tests.backends.support import play, script


class Invoice(BaseModel):
    total: float


class Desk(StateSchema):
    total: float
    number: int


A, B, C = Agent("a"), Agent("b"), Agent("c")
BILL = A @ Invoice
GOOD, BAD = {"total": 1}, "no json"
WRONG = "'a' answered 'no json', which is not a Invoice: it is not JSON: expected ident at line 1 column 2."
REASON = "it is not JSON: expected ident at line 1 column 2."
TOLD = f"Your answer does not fit: {REASON} Answer again, correctly."
NOTE = "adk_fluent.wrong_answer"


def seen(request: LlmRequest) -> list[tuple[str | None, str]]:
    """Who said what in a request."""
    return [
        (content.role, "".join(part.text or "" for part in content.parts or ()))
        for content in request.contents
    ]


def look(query: str) -> str:
    """Look something up."""
    if query != "tea":
        raise AskAgain(f"There is no {query}; try 'tea'.")
    return "found"


# --- an answer is checked at its step --------------------------------------------------------------

COMPOSITES: Mapping[str, Expr[Any]] = {
    "sequence": BILL >> C,
    "fan out": FanOut(BILL, B) >> C,
    "race": race(BILL, B.proceed_if(lambda state: False) >> BILL.named("d")) >> C,
    "loop": Loop(BILL, C, max_iterations=2),
    "map": map_over("items", BILL) >> C,
    "route": Route("x").eq(1, BILL) >> C,
    "timeout": BILL.timeout(60) >> C,
    "tool": C.tool(T.agent(BILL.describe("Bills."))),
    "delegate": C.delegate(BILL.describe("Bills.")),
    "adopted": adopt(LlmAgent(name="a", model="m", output_schema=Invoice)) >> C,
}
CALLS = {
    "tool": [call_tool("a", request="x"), "after"],
    "delegate": [call_tool("transfer_to_agent", agent_name="a"), "after"],
}


@pytest.mark.parametrize("shape", COMPOSITES)
async def test_an_answer_that_does_not_fit_ends_the_run_at_its_step(shape: str) -> None:
    """No later step runs, wherever the agent stands, though nothing stores its answer."""
    said = CALLS.get(shape, "after")
    backend = script({"a": BAD, "d": BAD, "b": "b", "c": said})
    with pytest.raises(AnswerError) as caught:
        await COMPOSITES[shape].run("hi", backend=backend, state={"x": 1, "items": [1]})
    assert isinstance(caught.value, RunError)
    assert str(caught.value) == WRONG
    assert (caught.value.agent, caught.value.reason) == ("a", REASON)
    assert len(backend.calls.get("c", ())) == (shape in CALLS)


async def test_a_stream_and_a_session_raise_at_the_step_too() -> None:
    """`stream` and `session` check where `run` does."""
    backend = script({"a": BAD, "c": "after"})
    with pytest.raises(AnswerError, match="'a' answered 'no json'"):
        async for _ in (BILL >> C).stream("hi", backend=backend):
            pass
    async with (BILL >> C).session(backend=backend) as chat:
        with pytest.raises(AnswerError, match="'a' answered 'no json'"):
            await chat.send("hi")
    assert "c" not in backend.calls


async def test_the_next_one_answers_where_an_answer_does_not_fit() -> None:
    """A fallback and a race take it for a failure, also without `.writes`."""
    for expr in (BILL // (B @ Invoice), race(BILL, B @ Invoice)):
        run = await play(expr, {"a": BAD, "b": GOOD})
        assert run.output == Invoice(total=1)


@pytest.mark.parametrize("hook", ["before_agent", "after_agent", "before_model"])
async def test_what_a_callback_answers_is_checked_too(hook: str) -> None:
    """A callback may answer in the place of the model, and its answer must be of the type."""

    def answer(callback_context: CallbackContext, llm_request: LlmRequest | None = None) -> Any:
        content = types.Content(role="model", parts=[types.Part(text=BAD)])
        return content if llm_request is None else LlmResponse(content=content)

    backend = script({"a": GOOD, "c": "after"})
    with pytest.raises(AnswerError) as caught:
        await (getattr(BILL, hook)(answer) >> C).run("hi", backend=backend)
    assert str(caught.value) == WRONG
    assert "c" not in backend.calls


@pytest.mark.parametrize("said", ["", "null"])
async def test_no_answer_passes_where_none_is_one(said: str) -> None:
    """A `T | None` may say nothing, and the next step runs."""
    run = await play(A.returns(Invoice | None) >> C, {"a": said, "c": "after"})
    assert run.text == "after"


async def test_retry_asks_again_for_an_answer_that_fits() -> None:
    """`retry` counts such an answer as a failed attempt, on an agent and around a run; `on` chooses."""
    said = {"a": [BAD, BAD, GOOD], "c": "after"}
    for expr, more in ((BILL.middleware(retry(3, 60)), ()), (BILL, (retry(3, 60),))):
        backend = script(said)
        run = await (expr >> C).run("hi", backend=backend, middleware=more)
        assert (run.text, len(backend.calls["a"])) == ("after", 3)
    for given in (retry(2), retry(3, on=ConnectionError)):
        with pytest.raises(AnswerError):
            await play(BILL.middleware(given), said)
    assert (await play(BILL.middleware(retry(3, on=AnswerError)), said)).output == Invoice(total=1)


async def test_retry_repeats_no_answer_of_which_a_user_has_read_the_beginning() -> None:
    """As for failures, `retry` leaves a streamed answer alone."""
    with pytest.raises(AnswerError):
        async for _ in BILL.middleware(retry(3)).stream("hi", backend=script({"a": [_pieces, GOOD]})):
            pass


def _pieces(request: LlmRequest) -> AsyncGenerator[str, None]:
    async def stream() -> AsyncGenerator[str, None]:
        yield "no "
        yield "json"

    return stream()


# --- an answer is asked again -----------------------------------------------------------------------


async def test_a_model_is_shown_its_wrong_answer_with_the_reason() -> None:
    """The request ends with the answer and what is wrong; later requests show all wrong answers in order."""
    backend = script({"a": [BAD, {"sum": 1}, GOOD], "c": "after"})
    run = await (A.returns(Invoice, retries=2) >> C).run("hi", backend=backend)
    missing = "Your answer does not fit: total is missing. Answer again, correctly."
    first = [("user", "hi")]
    second = [*first, ("model", BAD), ("user", TOLD)]
    third = [*second, ("model", '{"sum": 1}'), ("user", missing)]
    assert [seen(request) for request in backend.calls["a"]] == [first, second, third]
    assert run.text == "after"


async def test_neither_later_agents_nor_users_get_a_wrong_answer() -> None:
    """Its event has no text, and says why; what the call used counts."""
    service: dict[str, Any] = {"a": [BAD, GOOD], "c": "after"}
    backend = script(service)
    run = await (A.returns(Invoice, retries=1) >> C).run("hi", backend=backend)
    wrong, right, _ = run
    assert (wrong.author, wrong.content, wrong.is_final) == ("a", None, False)
    assert wrong.metadata[NOTE] == {"reason": REASON, "attempt": 1}
    assert right.content == json.dumps(GOOD)
    assert BAD not in str(seen(backend.calls["c"][0]))
    assert BAD not in "".join(event.to_json() for event in run)
    assert sum(one.calls for (agent, _), one in run.usage.items() if agent == "a") == 2


async def test_a_run_ends_when_no_attempt_is_left() -> None:
    """It is asked again `retries` times at most, and the error is that of the last answer."""
    backend = script({"a": [BAD, BAD, {"sum": 1}, GOOD]})
    with pytest.raises(AnswerError, match="total is missing"):
        await A.returns(Invoice, retries=2).run("hi", backend=backend)
    assert len(backend.calls["a"]) == 3
    fallen = await play(A.returns(Invoice, retries=1) // (B @ Invoice), {"a": BAD, "b": GOOD})
    assert fallen.output == Invoice(total=1)


async def test_an_empty_answer_is_asked_again() -> None:
    """Where none is no answer; without an attempt left there is none, as ever."""
    backend = script({"a": ["", GOOD]})
    assert (await A.returns(Invoice, retries=1).run("hi", backend=backend)).output == Invoice(total=1)
    assert seen(backend.calls["a"][1])[1:] == [
        ("user", "Your answer does not fit: It is empty. Answer again, correctly.")
    ]
    with pytest.raises(AnswerError, match="'a' gave no answer: its answer was empty"):
        await A.returns(Invoice, retries=1).ask_async("hi", backend=script({"a": ""}))
    backend = script({"a": ""})
    assert await A.returns(Invoice | None, retries=1).ask_async("hi", backend=backend) is None
    assert len(backend.calls["a"]) == 1


@pytest.mark.parametrize("shape", ["sequence", "fan out", "loop", "map", "route", "timeout", "delegate"])
async def test_it_is_asked_again_wherever_it_stands(shape: str) -> None:
    """The run goes on with the answer that fits."""
    again = A.returns(Invoice, retries=1).describe("Bills.")
    shapes: dict[str, Expr[Any]] = {
        "sequence": B >> again,
        "fan out": FanOut(B, again),
        "loop": Loop(again, max_iterations=2),
        "map": map_over("items", again),
        "route": Route("x").eq(1, again),
        "timeout": again.timeout(60),
        "delegate": C.delegate(again),
    }

    def answer(request: LlmRequest) -> Any:
        return GOOD if "does not fit" in str(seen(request)) else BAD

    said: dict[str, Any] = {"a": answer, "b": "b", "c": CALLS["delegate"]}
    run = await play(shapes[shape], said, state={"x": 1, "items": [1, 2]})
    assert run.output == Invoice(total=1)


async def test_a_field_that_is_missing_is_asked_for_again() -> None:
    """Fields of a schema that an answer lacks or cannot hold count as answers that do not fit."""

    class Loose(BaseModel):
        total: float | None = None
        number: int | None = None

    agent = A.returns(Loose, retries=1).writes(Desk.total, Desk.number)
    run = await play(agent, {"a": [{"total": 1}, {"total": 1, "number": 2}]})
    assert run.state == {"total": 1, "number": 2}
    with pytest.raises(StateKeyError, match="number"):
        await play(agent, {"a": {"total": 1}})


async def test_a_stream_gives_the_chunks_of_the_answer_that_fits() -> None:
    """Those of a wrong answer reach neither the client nor a step that takes an answer piece by piece."""

    def good(request: LlmRequest) -> AsyncGenerator[str, None]:
        async def stream() -> AsyncGenerator[str, None]:
            yield '{"total"'
            yield ": 1}"

        return stream()

    agent = A.returns(Invoice, retries=1)
    events = [event async for event in agent.stream("hi", backend=script({"a": [_pieces, good]}))]
    assert [event.content for event in events if event.is_partial] == ['{"total"', ": 1}"]
    backend = script({"a": [_pieces, good], "c": "after"})
    chunked = agent.stream_to("chunked", chunk_size=100) >> C
    async for _ in chunked.stream("hi", backend=backend):
        pass
    assert "no json" not in str([seen(request) for request in backend.calls["c"]])


async def test_what_callbacks_do_to_an_answer_comes_before_the_check() -> None:
    """A callback that repairs the answer leaves nothing to ask again."""

    def repair(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse | None:
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text='{"total": 7}')]))

    backend = script({"a": BAD})
    agent = A.returns(Invoice, retries=1).after_model(repair)
    assert await agent.ask_async("hi", backend=backend) == Invoice(total=7)
    assert len(backend.calls["a"]) == 1


async def test_calls_for_a_better_answer_count_towards_the_limit_of_the_run() -> None:
    """`max_llm_calls` bounds them, too."""
    backend = script({"a": BAD})
    with pytest.raises(Exception, match="Max number of llm calls limit"):
        await A.returns(Invoice, retries=9).run(
            "hi", backend=backend, config=ExecutionConfig(max_llm_calls=2)
        )
    assert len(backend.calls["a"]) == 2


async def test_each_call_has_a_span() -> None:
    """Every answer is a call of its own in a trace, and the agent's span says what was wrong."""
    exporter = InMemorySpanExporter()
    set_up(TelemetryConfig(custom_exporters=[exporter]))
    await play(A.returns(Invoice, retries=1), {"a": [BAD, GOOD]})
    spans = exporter.get_finished_spans()
    exporter.shutdown()
    names = [span.name.partition(" ")[0] for span in spans]
    assert 2 in (names.count("call_llm"), names.count("generate_content"))  # as ADK's versions call them
    noted = [event for span in spans for event in span.events if event.name == NOTE]
    assert [dict(event.attributes or {}) for event in noted] == [{"agent": "a", "attempt": 1}]


async def test_a_recording_replays_wrong_answers_and_what_tools_ask() -> None:
    """A replay makes the same calls, and has the same events."""
    expr = A.returns(Invoice, retries=1).tool(look) >> C
    said = {"a": [call_tool("look", query="x"), call_tool("look", query="tea"), BAD, GOOD], "c": "after"}
    tape = Recorder()
    run = await expr.run("hi", backend=script(said), middleware=[tape])
    recording = Recording.from_json(tape.get_recording().to_json())
    again = await expr.run("hi", backend=ReplayerBackend(recording))
    assert [event.metadata for event in again] == [event.metadata for event in run]
    assert [event.content for event in again] == [event.content for event in run]
    assert again.usage == run.usage


@pytest.mark.parametrize("retries", [-1, True, 1.0, "2", None])
def test_wrong_retries_are_refused(retries: Any) -> None:
    """One line says what is taken."""
    with pytest.raises(ArgumentError) as caught:
        A.returns(Invoice, retries=retries)
    said = f"returns(retries=) takes a whole number from 0 on, not {retries!r}."
    assert str(caught.value) == said


def test_retries_are_part_of_an_expression() -> None:
    """They are stored, hashed, explained and written as source; none leave everything as it was."""
    agent = A.returns(Invoice, retries=2)
    assert from_dict(json.loads(json.dumps(to_dict(agent.node)))) == agent.node
    assert agent != BILL
    assert ir_hash(agent.node) != ir_hash(BILL.node)
    assert 'Agent("a").returns(Invoice, retries=2)' in to_source(agent)
    assert "structured JSON → Invoice (asked again up to 2 times)" in str(agent.explain())
    assert A.returns(Invoice, retries=0) == agent.returns(Invoice) == BILL
    assert "retries" not in json.dumps(to_dict(BILL.node))
    assert "retries" not in to_source(BILL)


async def test_a_built_agent_asks_again_on_a_plain_runner() -> None:
    """`build()` takes the check and the retries with it."""
    backend = script({"a": [BAD, GOOD], "c": "after"})
    for expr, last in (
        (A.returns(Invoice, retries=1), '{"total": 1}'),
        (A.returns(Invoice, retries=1) >> C, "after"),
    ):
        backend = script({"a": [BAD, GOOD], "c": "after"})
        runner = InMemoryRunner(agent=cast(Any, backend).compile(expr.node).app.root_agent, app_name="x")
        session = await runner.session_service.create_session(app_name="x", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="hi")])
        events = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
        texts = [part.text for e in events for part in (e.content.parts if e.content else None) or ()]
        assert texts[-1] == last
        assert BAD not in texts


# --- an answer by a tool ----------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [1, 2])
async def test_an_answer_by_a_tool_is_asked_again(retries: int) -> None:
    """An agent with tools may answer by a tool of ADK's; the model gets the reason as its result."""
    agent = A.returns(Invoice, retries=retries).tool(look)
    wrong, right = call_tool("set_model_response", total="much"), call_tool("set_model_response", total=1)
    backend = script({"a": [*[wrong] * retries, right]})
    assert (await agent.run("hi", backend=backend)).output == Invoice(total=1)
    assert len(backend.calls["a"]) == retries + 1
    results = [
        part.function_response.response
        for content in backend.calls["a"][-1].contents
        for part in content.parts or ()
        if part.function_response
    ]
    assert len(results) == retries
    assert all("total" in str(result) for result in results)
    backend = script({"a": wrong})
    with pytest.raises(AnswerError) as caught:
        await agent.run("hi", backend=backend)
    assert len(backend.calls["a"]) == retries + 1
    assert caught.value.reason.startswith("total is 'much' but should be a valid number")


# --- tools that ask again ---------------------------------------------------------------------------


async def test_a_model_gets_the_reason_as_the_result_of_the_tool() -> None:
    """It may call again; the run goes on, and no error is reported."""
    backend = script({"a": [call_tool("look", query="x"), call_tool("look", query="tea"), "done"]})
    run = await A.tool(look).run("hi", backend=backend)
    results = [result.result for event in run for result in event.tool_responses]
    assert results == [{"ask_again": "There is no x; try 'tea'.", "retries": 1}, {"result": "found"}]
    assert run.text == "done"


@pytest.mark.parametrize("kind", ["plain", "async", "wrapped", "native", "inside"])
async def test_any_tool_may_ask_again(kind: str) -> None:
    """Functions, `T` operations, tools of ADK's, and tools of agents inside a tool."""
    from google.adk.tools.function_tool import FunctionTool

    async def alook(query: str) -> str:
        """Look something up."""
        return look(query)

    alook.__name__ = "look"
    tools: dict[str, Any] = {
        "plain": look,
        "async": alook,
        "wrapped": T.timeout(T.cache(T.fn(look), ttl=60), seconds=60),
        "native": FunctionTool(look),
    }
    said: dict[str, Any] = {"a": [call_tool("look", query="x"), call_tool("look", query="tea"), "done"]}
    expr: Expr[Any] = (
        A.tool(tools[kind]) if kind in tools else B.tool(T.agent(A.describe("Looks.").tool(look)))
    )
    run = await play(expr, {**said, "b": [call_tool("a", request="x"), "done"]})
    assert run.text == "done"


async def test_a_tool_may_ask_again_only_so_often() -> None:
    """Once in a row by default; more by what it raises or by the retries of the agent; success resets."""

    def patient(query: str) -> str:
        """Look something up."""
        raise AskAgain("No.", retries=2)

    backend = script({"a": call_tool("look", query="x")})
    with pytest.raises(ToolError) as caught:
        await A.tool(look).run("hi", backend=backend)
    assert str(caught.value) == (
        "Agent 'a': its tool 'look' asked again 2 times in a row, and may do so 1: There is no x; try 'tea'. "
        "Allow more with AskAgain(reason, retries=...), or let the tool return what is wrong."
    )
    assert len(backend.calls["a"]) == 2
    for agent, name in ((A.tool(patient), "patient"), (A.tool(look).returns(Invoice, retries=2), "look")):
        backend = script({"a": call_tool(name, query="x")})
        with pytest.raises(ToolError, match="asked again 3 times in a row, and may do so 2"):
            await agent.run("hi", backend=backend)
        assert len(backend.calls["a"]) == 3
    calls = [call_tool("look", query=query) for query in ("x", "tea", "x", "tea")]
    assert (await play(A.tool(look), {"a": [*calls, "done"]})).text == "done"
    assert (await play(A.tool(look) // B, {"a": call_tool("look", query="x"), "b": "b"})).text == "b"


async def test_retry_leaves_a_tool_that_asks_to_its_model() -> None:
    """The same call would only be refused again."""
    called: list[str] = []

    def picky(query: str) -> str:
        """Look something up."""
        called.append(query)
        return look(query)

    said = {"a": [call_tool("picky", query="x"), call_tool("picky", query="tea"), "done"]}
    agent = A.tool(picky).middleware(retry(3, on=Exception, tools=True))
    assert (await play(agent, said)).text == "done"
    assert called == ["x", "tea"]


@pytest.mark.parametrize(("reason", "options"), [(5, {}), (None, {}), ("No.", {"retries": -1})])
def test_a_wrong_wish_to_be_called_again_is_refused(reason: Any, options: dict[str, Any]) -> None:
    """`AskAgain` takes a text, and a number."""
    with pytest.raises(ArgumentError, match=r"AskAgain\("):
        AskAgain(reason, **options)
