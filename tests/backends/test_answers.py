"""Structured answers on ADK's real runner: fences, answers that do not fit, unions, and answers by a tool."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import date
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, Optional, Union, cast

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import InMemoryRunner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_fluent import Agent, FanOut, Loop, RemoteAgent, Route, StateSchema, T, gate, map_over, race
from adk_fluent.adopt import adopt
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm
from adk_fluent.errors import AnswerError, ArgumentError, StateTypeError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import SERVICES, close, play, script, session_service

MODEL = "gemini-2.5-flash"


class Line(BaseModel):
    total: Decimal


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Invoice(BaseModel):
    due: date
    level: Level = Level.LOW
    lines: list[Line] = []


class Ticket(BaseModel):
    id: str


class Memo(BaseModel):
    id: str


class Desk(StateSchema):
    due: date
    level: Level
    invoice: Invoice | None = None


A, B = Agent("a"), Agent("b")
MAYBE = Optional[Invoice]  # noqa: UP045  # as people write it, too
MAYBE_SEVERAL = Optional[list[Invoice]]  # noqa: UP045  # likewise
EITHER = Union[Ticket, Invoice]  # noqa: UP007  # likewise
DATA = {"due": "2025-06-01", "level": 2, "lines": [{"total": "1.50"}]}
STORED = {"due": "2025-06-01", "level": 2, "lines": [{"total": "1.50"}]}
INVOICE = Invoice(due=date(2025, 6, 1), level=Level.HIGH, lines=[Line(total=Decimal("1.50"))])
JSON = json.dumps(DATA, indent=1)
FENCED = {
    "json": f"```json\n{JSON}\n```",
    "bare": f"```\n{JSON}\n```\n",
    "upper": f"\n ```JSON\n{JSON}\n``` ",
    "one line": f"```json {json.dumps(DATA)} ```",
    "no fence": JSON,
}
fenced = pytest.mark.parametrize("said", FENCED.values(), ids=FENCED)


# --- a fence around it ----------------------------------------------------------------------------


@fenced
async def test_a_fence_around_an_answer_is_taken_off(said: str) -> None:
    """`ask`, `output` and a session's turn parse a fenced answer, whichever way it is fenced."""
    backend = script({"a": said})
    assert await (A @ Invoice).ask_async("hi", backend=backend) == INVOICE
    assert (await (A @ Invoice).run("hi", backend=backend)).output == INVOICE
    assert await (A @ Invoice).map(["x", "y"], backend=backend) == [INVOICE, INVOICE]
    async with (A @ Invoice).session(backend=backend) as chat:
        assert (await chat.send("hi")).output == INVOICE


@fenced
async def test_a_fence_around_what_is_stored_is_taken_off(said: str) -> None:
    """`writes`, fields of a schema, and the answers that a map collects store what is inside the fence."""
    responses = {"a": said}
    bill = A @ Invoice
    assert (await play(bill.writes("k"), responses)).state == {"k": STORED}
    assert (await play(bill.writes(Desk.invoice), responses)).state == {"invoice": STORED}
    both = {"due": "2025-06-01", "level": 2}
    assert (await play(bill.writes(Desk.due, Desk.level), responses)).state == both
    assert (await play(A.writes(Desk.due, Desk.level), responses)).state == both
    mapped = await play(map_over("items", bill), responses, state={"items": [1, 2]})
    assert mapped.state["results"] == [STORED, STORED]
    mapped = await play(map_over("items", A.writes(Desk.due, Desk.level)), responses, state={"items": [1]})
    assert mapped.state["results"] == [both]


@fenced
async def test_a_fence_is_taken_off_in_every_composite(said: str) -> None:
    """Where an agent stands makes no difference to what of its answer is stored and given."""
    bill = (A @ Invoice).writes("k")
    shapes: dict[str, Expr[Any]] = {
        "sequence": B >> bill,
        "fan out": FanOut(bill) >> (A @ Invoice).named("c").model("m"),
        "race": race(bill, B.proceed_if(lambda s: False) >> bill.named("c")),
        "loop": bill * 2,
        "route": Route("x").eq(1, bill),
        "fallback": bill // B,
        "timeout": bill.timeout(60),
        "map": map_over("items", bill),
    }
    for shape, expr in shapes.items():
        run = await play(expr, {"a": said, "c": said}, state={"x": 1, "items": [1]})
        assert run.output == INVOICE, shape
        if shape != "map":
            assert run.state["k"] == STORED, shape


@pytest.mark.parametrize("kind", SERVICES)
async def test_a_fenced_answer_survives_a_pause(kind: str, tmp_path: Path) -> None:
    """What was answered before a pause, and what after it, is read alike when the run goes on."""
    service = session_service(kind, tmp_path)
    backend = script({"a": FENCED["json"]}, session_service=service)
    asked = gate(lambda state: state["_item"] == 2, message="Pay?")
    expr = map_over("items", asked >> A @ Invoice) >> (A @ Invoice).named("c").model("m").writes("k")
    waiting = await expr.run("hi", backend=backend, session_id="s", state={"items": [1, 2]})
    backend = script({"a": FENCED["bare"], "c": FENCED["upper"]}, session_service=service)
    request = waiting.pending[0].id
    run = await expr.resume(session_id="s", approvals={request: True}, backend=backend)
    assert run.output == INVOICE
    assert (run.state["results"], run.state["k"]) == ([STORED, STORED], STORED)
    await close(service)


async def test_only_a_fence_around_the_whole_answer_is_taken_off() -> None:
    """Words beside a fence make it no JSON, as for ADK; a fence inside a text stays."""
    with pytest.raises(AnswerError, match="it is not JSON"):
        await (A @ Ticket).ask_async("hi", backend=script({"a": 'Here: ```json\n{"id": "x"}\n```'}))
    answer = {"id": "```json\n1\n```"}
    assert await (A @ Ticket).ask_async("hi", backend=script({"a": answer})) == Ticket(id=answer["id"])


async def test_text_keeps_its_fence() -> None:
    """An agent that returns no type says what it says."""
    run = await play(A.writes("k"), {"a": FENCED["json"]})
    assert run.text == run.output == run.state["k"] == FENCED["json"]


# --- answers that do not fit ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"due": "2025-06-01", "lines": [{"total": 1}, {"totl": 1}]}, "lines[1].total is missing"),
        (
            {"due": "2025-06-01", "lines": [{"total": "x"}]},
            "lines[0].total is 'x' but should be a valid decimal",
        ),
        ({"level": 1}, "due is missing"),
        ({"level": 7}, "due is missing (and 1 more)"),
        ({"due": "2025-06-01", "level": 7}, "level is 7 but should be 1 or 2"),
        ("[1]", "it should be an object"),
        ("no json", "it is not JSON: expected ident at line 1 column 2"),
        ('{"due": ', "it is not JSON: EOF while parsing a value at line 1 column 8"),
    ],
)
async def test_an_answer_that_does_not_fit_says_where(answer: Any, fault: str) -> None:
    """The error names the agent, what it said, the type and the path to it; for `writes` the key, too."""
    responses, said = {"a": answer}, answer if isinstance(answer, str) else json.dumps(answer)
    with pytest.raises(AnswerError) as asked:
        await (A @ Invoice).ask_async("hi", backend=script(responses))
    assert str(asked.value) == f"'a' answered {said!r:.80}, which is not a Invoice: {fault}."
    with pytest.raises(AnswerError) as stored:
        await play((A @ Invoice).writes("k"), responses)
    whole = f"'a' answered {said!r:.80} for state key 'k', which is not a Invoice: {fault}."
    assert str(stored.value) == whole
    with pytest.raises(AnswerError, match="is not a Invoice"):
        await play((A @ Invoice).writes(Desk.due, Desk.level), responses)
    with pytest.raises(AnswerError, match=r"'a' answered .* is not a Invoice"):
        await play(map_over("items", A @ Invoice), responses, state={"items": [1]})


async def test_nothing_of_an_answer_that_does_not_fit_is_stored() -> None:
    """The event that would have carried it never reaches the session."""
    backend = script({"a": "no json"}, session_service=InMemorySessionService())
    with pytest.raises(AnswerError):
        await (B.writes("said") >> (A @ Invoice).writes("k")).run("hi", backend=backend, session_id="s")
    later = await B.run("hi", backend=backend, session_id="s")
    assert later.state == {"said": "ok"}


async def test_a_fallback_and_a_race_take_an_answer_that_does_not_fit_for_a_failure() -> None:
    """The next branch, or another one, answers instead."""
    bad, good = (A @ Invoice).writes("k"), (B @ Invoice).writes("k")
    for expr in (bad // good, race(bad, good)):
        run = await play(expr, {"a": "no json", "b": DATA})
        assert (run.output, run.state) == (INVOICE, {"k": STORED})


async def test_a_value_that_the_field_refuses_names_the_field() -> None:
    """Fields may be narrower than the type that is returned."""

    class Loose(BaseModel):
        due: str
        level: int

    with pytest.raises(StateTypeError, match=r"'a' wrote .*Desk\.due .*takes date, not 'soon'"):
        await play((A @ Loose).writes(Desk.due, Desk.level), {"a": {"due": "soon", "level": 1}})


# --- prompts that do not fit -----------------------------------------------------------------------


async def test_a_prompt_that_the_root_does_not_accept_is_refused() -> None:
    """The error names the agent, the type and what is wrong, on every google-adk, and nothing is asked."""
    backend = script({"a": "ok"})
    agent = A.accepts(Ticket)
    for prompt, reason in (
        ("hi", "it is not JSON: expected value at line 1 column 1."),
        ("{}", "id is missing."),
    ):
        with pytest.raises(ArgumentError) as caught:
            await agent.run(prompt, backend=backend)
        said = f"Agent 'a' accepts Ticket, and the prompt {prompt!r} is none: {reason}"
        assert str(caught.value) == f"{said} Give it as JSON, or leave out .accepts()."
    assert "a" not in backend.calls
    assert await agent.ask_async('{"id": "T"}', backend=backend) == "ok"
    async with agent.session(backend=backend) as chat:
        with pytest.raises(ArgumentError, match="Agent 'a' accepts Ticket"):
            await chat.send("hi")


# --- unions ---------------------------------------------------------------------------------------


def test_a_union_is_one_type_however_it_is_written() -> None:
    """`A | B` and `Union[A, B]` make equal agents with equal hashes, which are stored and read alike."""
    for one, other in (
        (A @ (Invoice | None), A @ MAYBE),
        (A @ (Invoice | Ticket), A.returns(EITHER)),
        (A.returns(list[Invoice] | None), A @ MAYBE_SEVERAL),
    ):
        assert one == other
        assert hash(one) == hash(other)
        assert ir_hash(one.node) == ir_hash(other.node)
        assert from_dict(json.loads(json.dumps(to_dict(one.node)))) == one.node
        assert one.writes("k").check().to_json() == other.writes("k").check().to_json()
        assert str(one.data_flow()["a"]).count("Optional") == 0
    hashes = {ir_hash((A @ kind).node) for kind in (Invoice, Invoice | None, Ticket | None, Invoice | Ticket)}
    assert len(hashes) == 4
    assert "structured JSON → Invoice | None" in str((A @ (Invoice | None)).data_flow()["a"])


def test_what_is_no_type_is_refused() -> None:
    """A value is no type, also not beside others."""
    untyped: Any = A
    for wrong in (5, None, "Invoice"):
        with pytest.raises(ArgumentError, match=r"returns\(\) takes a type"):
            _ = untyped @ wrong


@pytest.mark.parametrize(
    ("kind", "answer", "value", "stored"),
    [
        (Invoice | Ticket, DATA, INVOICE, STORED),
        (Invoice | Ticket, {"id": "T"}, Ticket(id="T"), {"id": "T"}),
        (EITHER, {"id": "T"}, Ticket(id="T"), {"id": "T"}),
        (Invoice | None, DATA, INVOICE, STORED),
        (MAYBE, DATA, INVOICE, STORED),
        (Invoice | None, "null", None, None),
        (list[Ticket] | None, '[{"id": "T"}]', [Ticket(id="T")], [{"id": "T"}]),
        (list[Invoice], f"```json\n[{JSON}]\n```", [INVOICE], [STORED]),
        (dict[str, date], '{"x": "2025-06-01"}', {"x": date(2025, 6, 1)}, {"x": "2025-06-01"}),
        (int, "3", 3, 3),
    ],
    ids=str,
)
async def test_types_that_are_no_model_are_returned_too(
    kind: Any, answer: Any, value: Any, stored: Any
) -> None:
    """The answer is parsed, stored, mapped and asked of the model, with every google-adk."""
    agent = A @ kind
    backend = script({"a": answer})
    assert await agent.ask_async("hi", backend=backend) == value
    assert backend.calls["a"][0].config.response_schema is not None
    run = await agent.writes("k").run("hi", backend=script({"a": answer}))
    assert (run.output, run.state.get("k")) == (value, stored)
    mapped = await play(map_over("items", agent), {"a": answer}, state={"items": [1]})
    assert mapped.state["results"] == [stored]


async def test_an_answer_that_fits_no_member_says_what_each_lacks() -> None:
    """The fault is told for every member of a union."""
    with pytest.raises(AnswerError) as error:
        await play((A @ (Invoice | Ticket)).writes("k"), {"a": {"level": 1}})
    assert str(error.value) == (
        "'a' answered '{\"level\": 1}' for state key 'k', which is not a Invoice | Ticket: "
        "as Invoice, due is missing; as Ticket, id is missing."
    )


# --- agents with tools ----------------------------------------------------------------------------


def look(query: str, tool_context: ToolContext) -> str:
    """Look something up."""
    return "found"


class Bill(BaseModel):
    due: date
    total: Decimal


BILL = Bill(due=date(2025, 6, 1), total=Decimal("1.50"))
BILL_STORED = {"due": "2025-06-01", "total": "1.50"}


@pytest.mark.parametrize("kind", [Bill, Bill | None])
async def test_an_agent_with_tools_answers_by_a_tool(kind: Any) -> None:
    """Where ADK lets the model answer by a tool, dates and numbers are stored as without one."""
    answer = [call_tool("look", query="x"), call_tool("set_model_response", **_arguments(kind))]
    expr = (A @ kind).tool(look).writes("k")
    run = await play(expr, {"a": answer})
    assert (run.output, run.state) == (BILL, {"k": BILL_STORED})
    assert json.loads(run.text) == BILL_STORED
    said = await play(expr, {"a": [call_tool("look", query="x"), f"```\n{json.dumps(BILL_STORED)}\n```"]})
    assert (said.output, said.state) == (BILL, {"k": BILL_STORED})


def _arguments(kind: Any) -> dict[str, Any]:
    """What the tool takes here: a model's fields, or, where ADK can describe it, a value of the type."""
    compiled: Any = (A @ kind).tool(look).build()
    return BILL_STORED if compiled.output_schema is Bill else {"response": BILL_STORED}


async def test_an_answer_by_a_tool_that_does_not_fit() -> None:
    """Older ADKs raise, and then it is our error with the path; newer ones let the model try again."""
    wrong = {**BILL_STORED, "total": "much"}
    answer = [call_tool("set_model_response", **wrong), call_tool("set_model_response", **BILL_STORED)]
    backend = script({"a": answer})
    expr = (A @ Bill).tool(look).writes("k")
    if "set_model_response" in EventActions.model_fields:  # where ADK keeps what the tool took
        assert (await expr.run("hi", backend=backend)).output == BILL
        assert len(backend.calls["a"]) == 2
        return
    with pytest.raises(AnswerError) as error:
        await expr.run("hi", backend=backend)
    assert str(error.value) == (
        "'a' answered {'due': '2025-06-01', 'total': 'much'}, which is not a Bill: "
        "total is 'much' but should be a valid decimal."
    )


# --- plain ADK ------------------------------------------------------------------------------------


def native(*responses: Any) -> Callable[[], ScriptedLlm]:
    """A model to hand to an agent itself."""
    return lambda: ScriptedLlm.of(Script("a", list(responses), "repeat", []), merge_state=False)


async def natively(runner: InMemoryRunner) -> Mapping[str, Any]:
    """The state after a run on ADK's own runner."""
    service, app = runner.session_service, runner.app_name
    session = await service.create_session(app_name=app, user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    found = await service.get_session(app_name=app, user_id="u", session_id=session.id)
    assert found is not None
    return found.state


@fenced
async def test_a_built_agent_stores_the_same_on_a_plain_runner(said: str) -> None:
    """`build()` and `to_app()` take what answers need with them: fences, JSON types, fields and errors."""
    agent = Agent("a", native(said)())
    for expr, state in (
        ((agent @ Invoice).writes("k"), {"k": STORED}),
        (B.model(native("ok")()) >> (agent @ Invoice).writes("k"), {"k": STORED}),
        (agent.writes(Desk.due, Desk.level), {"due": "2025-06-01", "level": 2}),
        ((agent @ (Invoice | Ticket)).writes("k"), {"k": STORED}),
    ):
        assert await natively(InMemoryRunner(agent=expr.build(), app_name="x")) == state
        assert await natively(InMemoryRunner(app=expr.to_app())) == state
    with pytest.raises(AnswerError, match="'a' answered 'no' for state key 'k', which is not a Invoice"):
        await natively(
            InMemoryRunner(agent=(Agent("a", native("no")()) @ Invoice).writes("k").build(), app_name="x")
        )


@pytest.mark.parametrize("kid", [Agent("kid"), Agent("kid").returns(Memo)], ids=["text", "another type"])
async def test_a_delegate_that_does_not_answer_in_the_type_is_named(kid: Agent[Any]) -> None:
    """An agent that returns a type never answers with the text of one that it handed over to."""
    boss = Agent("boss").returns(Ticket).delegate(kid)
    script: dict[str, Any] = {
        "boss": [call_tool("transfer_to_agent", agent_name="kid")],
        "kid": Memo(id="1").model_dump_json() if kid.node.given.get("output_schema") else "Hello.",
        "before": "Hi.",
    }
    for expression in (boss, Agent("before") >> boss):
        with pytest.raises(AnswerError, match=r"'boss'.* returns Ticket and handed over to 'kid'"):
            await expression.ask_async("x", backend=mock_backend(script))
    with pytest.raises(AnswerError, match="'kid'"):
        await boss.map(["x"], backend=mock_backend(script))


WITH_A_KID: dict[str, Callable[[Agent[Any]], Expr[Any]]] = {
    "sequence": lambda kid: Agent("first").returns(Ticket) >> kid,
    "route": lambda kid: Route("k").eq(1, Agent("first").returns(Ticket)).otherwise(kid),
    "loop": lambda kid: Loop(kid, max_iterations=1),
}


@pytest.mark.parametrize("name", WITH_A_KID)
async def test_delegates_inside_a_composite_are_named(name: str) -> None:
    """Who has the last word in what an agent hands over to is named by the check and by the run."""
    kids = WITH_A_KID[name]
    boss = Agent("boss").returns(Ticket).delegate(cast(Any, kids(Agent("kid")).named("kids")))
    (issue,) = [issue for issue in boss.check(state={"k": 2}).issues if issue.code == "type-mismatch"]
    assert issue.message == "boss returns Ticket, and can hand over to kid, which does not"
    script = {
        "boss": [call_tool("transfer_to_agent", agent_name="kids")],
        "first": '{"id": "1"}',
        "kid": "Hello.",
    }
    with pytest.raises(AnswerError, match=r"'boss'.* returns Ticket and handed over to 'kid'"):
        await boss.ask_async("x", backend=mock_backend(script), state={"k": 2})
    typed = Agent("boss").returns(Ticket).delegate(cast(Any, kids(Agent("kid").returns(Ticket))))
    assert "type-mismatch" not in {issue.code for issue in typed.check(state={"k": 2}).issues}


async def test_a_tool_of_an_agent_gives_no_text_of_a_delegate_for_a_type() -> None:
    """Used as a tool, an agent that returns a type never gives the text of one that it handed over to."""
    boss = Agent("boss").returns(Ticket).delegate(Agent("kid"))
    caller = Agent("caller").tool(T.agent((Agent("before") >> boss).named("both")))
    backend = mock_backend(
        {
            "caller": [call_tool("both", request="x"), "Done."],
            "before": "Hi.",
            "boss": [call_tool("transfer_to_agent", agent_name="kid")],
            "kid": "Hello.",
        }
    )
    with pytest.raises(AnswerError, match=r"'boss'.* returns Ticket and handed over to 'kid'"):
        await caller.run("x", backend=backend)


class Passing(BaseAgent):
    """An agent of a class derived from ADK's, in which another one speaks."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


class Saying(BaseAgent):
    """An agent of a class derived from ADK's, which speaks itself."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text="Hello.")]))


class Helped(LlmAgent):
    """An agent of ADK's with a method more."""

    def help(self) -> None:
        """Do nothing."""


def natives(kind: type[LlmAgent], schema: type[BaseModel] | None = None) -> LlmAgent:
    """An agent of ADK's that returns a type and may hand over to another one."""
    kid = LlmAgent(name="kid", model=MODEL, output_schema=schema)
    return kind(name="boss", model=MODEL, output_schema=Memo, sub_agents=[kid])


ADOPTED: dict[str, Callable[[type[BaseModel] | None], Expr[Any]]] = {
    "agent": lambda schema: adopt(natives(LlmAgent, schema)),
    "its class": lambda schema: adopt(natives(Helped, schema)),
    "later": lambda schema: Agent("before") >> adopt(natives(LlmAgent, schema)),
    "kid": lambda schema: (
        Agent("boss").returns(Memo).delegate(adopt(natives(LlmAgent, schema).sub_agents[0].clone()))
    ),
}


@pytest.mark.parametrize("name", ADOPTED)
async def test_delegates_of_adopted_agents_are_named(name: str) -> None:
    """An adopted agent keeps to its `output_schema`, whoever it hands over to, and the check says so."""
    script: dict[str, Any] = {"boss": [call_tool("transfer_to_agent", agent_name="kid")]}
    script |= {"kid": "Hello.", "before": "Hi."}
    adopted = ADOPTED[name](None)
    with pytest.raises(AnswerError, match=r"'boss'.* returns Memo and handed over to 'kid'"):
        await adopted.ask_async("x", backend=mock_backend(script))
    assert "boss returns Memo, and can hand over to kid, which does not" in str(adopted.check())
    typed = ADOPTED[name](Memo)
    script["kid"] = '{"id": "2"}'
    assert await typed.ask_async("x", backend=mock_backend(script)) == Memo(id="2")
    assert not typed.check().warnings


async def test_a_delegate_of_a_class_of_its_own_is_named() -> None:
    """What such an agent answers in is not known, whoever speaks in it, so it does not answer for a type."""
    for speaks in ("kid", "inner"):
        inner = LlmAgent(name="inner", model=native("Hello.")())
        kid = Passing(name="kid", sub_agents=[inner]) if speaks == "inner" else Saying(name="kid")
        boss = Agent("boss").returns(Memo).delegate(adopt(kid))
        backend = mock_backend(
            {"boss": [call_tool("transfer_to_agent", agent_name="kid")], "inner": "Hello."}
        )
        with pytest.raises(AnswerError, match=r"to 'kid'.* Give 'kid' to 'boss' as a tool, T.agent\(...\)"):
            await boss.ask_async("x", backend=backend)
        assert "boss returns Memo, and can hand over to kid, which does not" in str(boss.check())


def test_the_check_names_delegates_of_agents_that_are_tools() -> None:
    """An agent that is called as a tool hands over as well."""
    boss = Agent("boss").returns(Ticket).delegate(Agent("kid"))
    for tool in (T.agent(boss), T.timeout(T.agent((Agent("before") >> boss).named("both")), 5)):
        (issue,) = Agent("caller").tool(tool).check().warnings
        assert issue.message == "boss returns Ticket, and can hand over to kid, which does not"
    (issue,) = (
        Agent("boss").returns(Ticket).delegate(RemoteAgent("kid", endpoint="https://x.test")).check().warnings
    )
    assert issue.message == "boss returns Ticket, and can hand over to kid, which does not"


async def test_a_delegate_may_answer_in_the_type() -> None:
    """Where both return the type, the answer is of it, whoever gives it."""
    boss = Agent("boss").returns(Memo).delegate(Agent("kid").returns(Memo))
    script: dict[str, Any] = {
        "boss": [call_tool("transfer_to_agent", agent_name="kid")],
        "kid": '{"id": "2"}',
    }
    assert await boss.ask_async("x", backend=mock_backend(script)) == Memo(id="2")


INSIDE_ADKS_TOOL: dict[str, tuple[Callable[[LlmAgent], BaseAgent], dict[str, Any], str]] = {
    "a delegate in text": (lambda boss: boss, {}, "'boss' gave no answer: it returns Memo and handed over"),
    "in a sequence": (
        lambda boss: (Agent("before", MODEL) >> adopt(boss)).named("both").build(),
        {},
        "'boss' gave no answer: it returns Memo and handed over to 'kid', which answers in text.",
    ),
    "it did not come so far": (
        lambda boss: Passing(name="both", sub_agents=[LlmAgent(name="before", model=MODEL), boss]),
        {},
        "'boss' gave no answer: it returns Memo and 'before' had the last word, which answers in text.",
    ),
    "the agent itself": (lambda boss: boss, {"boss": "Hello."}, "'boss' answered 'Hello.', which is not a"),
}


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's, of its own AgentTool
@pytest.mark.parametrize("name", INSIDE_ADKS_TOOL)
async def test_adks_own_tool_of_an_agent_names_who_answered_in_another_type(name: str) -> None:
    """In an `AgentTool` too, the error names the agent that returns a type, and who answered instead."""
    make, instead, message = INSIDE_ADKS_TOOL[name]
    tool = AgentTool(make(natives(LlmAgent)))
    models = {
        "caller": [call_tool(tool.name, request="x"), "Done."],
        "before": "Hi.",
        "boss": [call_tool("transfer_to_agent", agent_name="kid")],
        "kid": "Hello.",
        **instead,
    }
    caller = Agent("caller", MODEL).tool(tool)
    natively = adopt(LlmAgent(name="caller", model=MODEL, tools=[tool]))
    for expression in (caller, natively, Agent("outer", MODEL).tool(T.agent(caller))):
        outer = {"outer": [call_tool("caller", request="x"), "Done."]}
        with pytest.raises(AnswerError, match=message) as caught:
            await expression.run("x", backend=mock_backend(models | outer))
        assert isinstance(caught.value.__cause__, ValidationError)  # as callbacks and fallbacks see it
    fallback = caller // Agent("spare")
    assert await fallback.ask_async("x", backend=mock_backend({**models, "spare": "Here."})) == "Here."


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's, of its own AgentTool
async def test_adks_own_tools_of_agents_inside_each_other() -> None:
    """Of two agents that are tools inside each other, the one that answered in another type is named."""
    inner = AgentTool(LlmAgent(name="inner", model=MODEL))
    outer = AgentTool(LlmAgent(name="outer", model=MODEL, output_schema=Memo, tools=[inner]))
    models = {
        "caller": [call_tool("outer", request="x"), "Done."],
        "outer": [call_tool("inner", request="x"), "Hello."],
        "inner": "Hi.",
    }
    with pytest.raises(AnswerError, match=r"^'outer' answered 'Hello\.', which is not a Memo"):
        await Agent("caller").tool(outer).run("x", backend=mock_backend(models))
    models["outer"] = [call_tool("inner", request="x"), '{"id": "1"}']
    assert await Agent("caller").tool(outer).ask_async("x", backend=mock_backend(models)) == "Done."
