"""What `ask` and its like give where an agent that returns a type gave no answer: why there is none."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, Loop, Route, S, gate, map_over, race, transfer
from adk_fluent.errors import AnswerError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from tests.backends.support import play, script


class Invoice(BaseModel):
    total: float


A, B = Agent("a"), Agent("b")
BILL, PAY = A @ Invoice, B @ Invoice


def content(*parts: types.Part) -> types.Content:
    """What a model says, in parts."""
    return types.Content(role="model", parts=list(parts))


def stop(tool_context: ToolContext) -> dict[str, int]:
    """Let the run end with what this gives."""
    tool_context.actions.skip_summarization = True
    return {"total": 1}


def leave(tool_context: ToolContext) -> str:
    """End the loop."""
    tool_context.actions.escalate = True
    return "left"


@dataclass
class Case:
    """A run without an answer.

    Attributes:
        expr: what is run, returning `Invoice`.
        says: the error, up to what to do about it.
        responses: what the models say.
        state: what the run starts with.
    """

    expr: Expr[Any]
    says: str
    responses: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])


EMPTY = "'a' gave no answer: its answer was empty"
SKIPPED = "'a' gave no answer: it was skipped, since its condition did not hold"

CASES = {
    "empty": Case(BILL, EMPTY, {"a": ""}),
    "blank": Case(BILL, EMPTY, {"a": " \n"}),
    "no parts": Case(BILL, EMPTY, {"a": content()}),
    "no content": Case(BILL, "'a' gave no answer: its model said nothing", {"a": LlmResponse(content=None)}),
    "thoughts alone": Case(
        BILL, "'a' gave no answer: it only thought", {"a": content(types.Part(text="Hm.", thought=True))}
    ),
    "a tool's result": Case(
        BILL.tool(stop),
        "'a' gave no answer: it ended with what the tool 'stop' gave",
        {"a": call_tool("stop")},
    ),
    "a picture": Case(
        BILL,
        "'a' gave no answer: it answered with something that is not text",
        {"a": content(types.Part.from_bytes(data=b"x", mime_type="image/png"))},
    ),
    "skipped": Case(BILL.proceed_if(lambda s: False), SKIPPED),
    "skipped after text": Case(
        B >> BILL.proceed_if(lambda s: False), f"{SKIPPED}; 'b', who spoke before, answers in text"
    ),
    "unmatched": Case(
        Route("kind").eq("bill", BILL),
        "'a' gave no answer: no branch of Route('kind') matched, since state key 'kind' is 'joke'",
        state={"kind": "joke"},
    ),
    "unmatched after text": Case(
        B >> Route("kind").eq("bill", BILL) >> S.set(x=1),
        "'a' gave no answer: no branch of Route('kind') matched, since state key 'kind' is not set",
    ),
    "unmatched conditions": Case(
        Route().when(lambda s: False, BILL).when(lambda s: False, PAY),
        "'a' or 'b' gave no answer: no branch of the route matched",
    ),
    "no items": Case(
        map_over("items", BILL), "'a' gave no answer: state key 'items' holds no items", state={"items": []}
    ),
    "hidden": Case(
        BILL.hide(), "'a' gave no answer: what it said is hidden from the user", {"a": {"total": 1}}
    ),
    "left a loop": Case(
        Loop(B.tool(leave), BILL, max_iterations=2),
        "'a' gave no answer: it did not run",
        {"b": [call_tool("leave"), content()]},
    ),
    "handed over": Case(
        BILL.delegate(PAY.describe("Pays.")),
        "'b' gave no answer: its answer was empty",
        {"a": call_tool("transfer_to_agent", agent_name="b"), "b": ""},
    ),
    "the last of two": Case(
        BILL >> PAY, "'b' gave no answer: its answer was empty", {"a": {"total": 1}, "b": ""}
    ),
    "the second use": Case(BILL >> B >> BILL, EMPTY, {"a": [{"total": 1}, ""]}),
    "a branch": Case(Route("x").eq(1, BILL).otherwise(B), EMPTY, {"a": ""}, {"x": 1}),
    "all branches": Case(BILL | PAY, "'b' gave no answer: its answer was empty", {"a": "", "b": ""}),
    "a fallback": Case(
        BILL // PAY, "'b' gave no answer: its answer was empty", {"a": RuntimeError("down"), "b": ""}
    ),
    "a race": Case(race(BILL, BILL.named("c").model("m")), EMPTY, {"a": "", "c": RuntimeError("down")}),
    "a round": Case(BILL * 2, EMPTY, {"a": ""}),
    "in time": Case(BILL.timeout(60), EMPTY, {"a": ""}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_no_answer_says_why(case: Case) -> None:
    """Each way not to answer has its own words, which name the agent and what to do, wherever one asks."""
    expr, backend = case.expr, script(case.responses)
    whole = f"{case.says}. Where there may be none, return a type T | None."
    with pytest.raises(AnswerError) as asked:
        await expr.ask_async("hi", backend=backend, state=case.state)
    assert str(asked.value) == whole
    with pytest.raises(AnswerError, match="gave no answer"):
        await expr.map(["hi"], backend=script(case.responses), state=case.state)
    result = await play(expr, case.responses, state=case.state)
    async with expr.session(backend=script(case.responses), state=case.state) as chat:
        turn = await chat.send("hi")
    for run in (result, turn):
        with pytest.raises(AnswerError) as read:
            _ = run.output
        assert str(read.value) == whole


def test_ask_without_a_running_loop_says_why() -> None:
    """`ask` is like `ask_async`."""
    with pytest.raises(AnswerError, match=EMPTY):
        BILL.ask("hi", backend=script({"a": ""}))


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("handed over", "all branches")])
async def test_no_answer_is_none_where_none_is_one(name: str) -> None:
    """An expression whose agents return `Invoice | None` gives `None` in each of these cases."""
    case = CASES[name]
    maybe = _maybe(case.expr)
    assert await maybe.ask_async("hi", backend=script(case.responses), state=case.state) is None
    assert await maybe.map(["hi"], backend=script(case.responses), state=case.state) == [None]
    assert (await play(maybe, case.responses, state=case.state)).output is None


def _maybe(expr: Expr[Any]) -> Expr[Any]:
    """The expression with `Invoice | None` in place of `Invoice`."""
    from adk_fluent.ir import AgentNode, Node, rewrite

    def change(node: Node) -> Node:
        typed = isinstance(node, AgentNode) and node.output_schema is Invoice
        return node.replace(output_schema=Invoice | None) if typed else node

    return Expr[Any].from_node(rewrite(expr.node, change))


async def test_null_is_an_answer_where_none_is_one() -> None:
    """A model that says `null` gives `None` for `Invoice | None`, and is refused for `Invoice`."""
    assert await A.returns(Invoice | None).ask_async("hi", backend=script({"a": "null"})) is None
    with pytest.raises(AnswerError, match="'a' answered 'null', which is not a Invoice"):
        await BILL.ask_async("hi", backend=script({"a": "null"}))


@pytest.mark.parametrize(
    ("expr", "responses", "text"),
    [
        (A, {"a": ""}, ""),
        (A, {"a": content(types.Part(text="Hm.", thought=True))}, ""),
        (A.proceed_if(lambda s: False), {}, ""),
        (Route("k").eq("x", A), {}, ""),
        (BILL >> B, {"a": {"total": 1}, "b": ""}, ""),
        (Route("k").eq("x", BILL).eq("y", B), {}, ""),
        (B >> A.proceed_if(lambda s: False), {"b": "before"}, "before"),
    ],
)
async def test_agents_that_return_no_type_give_text(expr: Expr[Any], responses: Any, text: str) -> None:
    """Where an agent that returns no type may have the last word, no answer is empty text, as ever."""
    assert await expr.ask_async("hi", backend=script(responses)) == text
    assert (await play(expr, responses)).output == text


async def test_an_earlier_answer_of_the_type_stands_in() -> None:
    """Where the last step is skipped, the typed answer before it is the answer."""
    expr = PAY >> BILL.proceed_if(lambda s: False)
    assert await expr.ask_async("hi", backend=script({"b": {"total": 2}})) == Invoice(total=2)


async def test_a_blank_end_does_not_take_the_answer_away() -> None:
    """A model that streams its answer and then an empty piece has answered."""

    def pieces(request: object) -> Any:
        async def stream() -> Any:
            yield '{"total": 5}'
            yield "\n"

        return stream()

    run = await play(BILL, {"a": pieces})
    assert run.output == Invoice(total=5)


async def test_a_refused_gate_is_why_there_is_no_answer() -> None:
    """While it waits, `.output` says so; after it is refused, it says that."""
    expr = gate(lambda s: True, message="Pay?").named("ask_boss") >> BILL
    backend = script(session_service=InMemorySessionService())
    waiting = await expr.run("hi", backend=backend, session_id="s")
    with pytest.raises(AnswerError, match=r"'a' gave no answer: 'ask_boss' waits for approval: Pay\?"):
        _ = waiting.output
    refused = await expr.resume(session_id="s", approvals={waiting.pending[0].id: False}, backend=backend)
    with pytest.raises(AnswerError, match=r"'a' gave no answer: it did not run: Not approved: Pay\?"):
        _ = refused.output
    with pytest.raises(RunError, match="waits for approval"):
        await expr.ask_async("hi", backend=backend)


@pytest.mark.parametrize("message", ["Send it?", "Send it!", "Send it.", "Send it", "Send it …"])
async def test_a_reason_ends_in_one_mark(message: str) -> None:
    """What a gate asks, or a model reports, is told with the mark it ends with, or with a full stop."""
    ended = message if message[-1] in "?!.…" else f"{message}."
    waiting = await play(gate(lambda s: True, message=message) >> BILL)
    with pytest.raises(AnswerError) as caught:
        _ = waiting.output
    assert str(caught.value) == (
        f"'a' gave no answer: 'gate' waits for approval: {ended} "
        "Where there may be none, return a type T | None."
    )
    with pytest.raises(RunError) as failed:
        await play(A, {"a": LlmResponse(error_code="X", error_message=message)})
    assert str(failed.value).startswith(f"'a' gave no answer but an error: X: {ended} Give it a fallback")


async def test_a_step_handed_over_to_may_answer_in_text() -> None:
    """A transfer may lead to an agent that returns no type; its text is the answer."""
    expr = (BILL >> transfer("c")) | (Agent("c") >> S.set(x=1))
    assert (await play(expr, {"a": {"total": 1}, "c": "hello"})).output == "hello"


async def test_a_result_keeps_why_when_it_is_pickled() -> None:
    """What makes the output travels with pickled values: the types, the names, and why there is none."""
    run = await play(BILL, {"a": ""})
    parse: Any = getattr(run, "_parse")  # noqa: B009
    again = pickle.loads(pickle.dumps(parse))
    assert again == parse
    with pytest.raises(AnswerError, match=EMPTY):
        again.output([])
