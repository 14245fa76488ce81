"""Runs that wait for what is no approval: a long-running tool's result, a credential, input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import (
    APIKey,
    APIKeyIn,
    HTTPBearer,
    OAuth2,
    OAuthFlowAuthorizationCode,
    OAuthFlows,
)
from google.adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
)
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Loop, Route, S, gate, map_over, race, transfer
from adk_fluent.adopt import adopt
from adk_fluent.backends.adk.events.approvals import Asked, answer_in, message_of
from adk_fluent.backends.events import AgentEvent, Pending, RunResult
from adk_fluent.errors import AnswerError, ArgumentError, RunError, SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.expr.conversations import Chat
from adk_fluent.testing import AgentHarness, MockBackend, call_tool, mock_backend
from tests.backends.support import SERVICES, close, said, session_service, speakers

A, B = Agent("a"), Agent("b")


def ticket(text: str) -> dict[str, Any]:
    """Open a ticket, which a person works on."""
    return {"status": "open", "number": 7}


def quiet(text: str) -> None:
    """Open a ticket, of which nothing is known until it is done."""


def asked_of(function: Callable[..., Any], text: str = "broken") -> str:
    """The question about a call of such a tool."""
    return f'{function.__name__}(text="{text}") runs outside of this process. What is its result?'


class Report(BaseModel):
    """What came of a ticket."""

    done: bool


def desk(name: str = "desk", function: Callable[..., Any] = ticket) -> Agent[str]:
    """An agent whose tool takes long."""
    return Agent(name).tool(LongRunningFunctionTool(function))


def responses_in(request: LlmRequest) -> list[types.FunctionResponse]:
    """What tools gave, as a model is shown it."""
    parts = [part for content in request.contents for part in content.parts or []]
    return [part.function_response for part in parts if part.function_response]


def asks(request: Any) -> Any:
    """What each model answers: one with a ticket tool opens a ticket, waits, and tells what came of it."""
    tools = [tool.name for each in request.config.tools or () for tool in each.function_declarations]
    given = responses_in(request)
    opening = next((name for name in ("ticket", "quiet") if name in tools), None)
    if opening is None:
        return call_tool("transfer_to_agent", agent_name="desk") if tools else "ok"
    if any("fixed" in str(response.response) for response in given):
        return "It is fixed."
    opened = any(response.name == opening for response in given)
    return "I opened it." if opened else call_tool(opening, text="broken")


def scripted() -> MockBackend:
    """A backend on which agents with such a tool open tickets."""
    return mock_backend({}, default=asks)


async def answered(expression: Expr[Any], result: RunResult[Any], answer: object, **options: Any) -> Any:
    """Go on with one answer to all that a run waits for."""
    answers = {pending.id: answer for pending in result.pending}
    return await expression.resume(session_id=result.session_id, answers=answers, **options)


async def collected(events: AsyncGenerator[AgentEvent, None]) -> list[AgentEvent]:
    """All events of a stream."""
    return [event async for event in events]


# --- long-running tools ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ticket, quiet])
async def test_a_run_waits_for_the_result_of_a_long_running_tool(function: Callable[..., Any]) -> None:
    """`.pending` says which call waits and what it gave so far; the steps behind it have not run."""
    backend = scripted()
    expression = A >> desk(function=function) >> B
    result = await expression.run("hi", backend=backend)
    (pending,) = result.pending
    assert (pending.agent, pending.kind, pending.awaited) == ("desk", "result", "a result")
    assert pending.message == asked_of(function)
    assert pending.payload["name"] == function.__name__
    assert pending.payload.get("response") == function("")
    assert result.text == ""
    assert "b" not in speakers(result)
    rest = await answered(expression, result, {"status": "fixed"}, backend=backend)
    assert said(rest) == [("desk", "It is fixed."), ("b", "ok")]
    assert rest.pending == []
    assert rest.text == "ok"


async def test_a_result_that_is_no_object_reaches_the_model_as_one() -> None:
    """Text and other JSON become `{"result": ...}`, as ADK does with what tools give."""
    backend = scripted()
    result = await desk().run("hi", backend=backend)
    await answered(desk(), result, "fixed", backend=backend)
    given = responses_in(backend.calls["desk"][-1])
    assert [response.response for response in given] == [{"result": "fixed"}]


@pytest.mark.parametrize("given", [{"result": "x"}, {"result": None}, {"result": {"a": 1}}, {"a": 1}, {}])
def test_an_answer_is_read_as_it_was_given(given: dict[str, Any]) -> None:
    """A recorded answer, or one of another process, is passed on in the form that it has."""
    call = types.FunctionCall(id="1", name="ticket", args={})
    event = Event(author="desk", content=types.Content(parts=[types.Part(function_call=call)]))
    asked = Asked(Pending("1", "desk", "", {}, "result"), event)
    answer = answer_in(types.FunctionResponse(id="1", name="ticket", response=given))
    (part,) = message_of({"1": answer}, {"1": asked}).parts or []
    assert part.function_response is not None
    assert part.function_response.response == given


Make = Callable[[Callable[..., Any]], Expr[Any]]
SHAPES: Mapping[str, tuple[Make, int, list[str]]] = {
    "alone": (lambda f: desk("desk", f), 1, ["desk"]),
    "branches": (lambda f: FanOut(desk("desk", f), desk("other", f)) >> B, 2, ["b", "desk", "other"]),
    "one branch": (lambda f: FanOut(desk("desk", f), A) >> B, 1, ["b", "desk"]),
    "branches in branches": (
        lambda f: FanOut(FanOut(desk("desk", f), A), desk("other", f)) >> B,
        2,
        ["b", "desk", "other"],
    ),
    "a loop": (lambda f: Loop(desk("desk", f) >> A, max_iterations=1) >> B, 1, ["a", "b", "desk"]),
    "a fallback": (lambda f: (desk("desk", f) // A) >> B, 1, ["b", "desk"]),
    "a race": (lambda f: race(desk("desk", f), desk("other", f)) >> B, 1, ["b", "desk"]),
    "the first of two": (
        lambda f: FanOut(desk("desk", f), desk("other", f)).merge("first_complete") >> B,
        1,
        ["b", "desk"],
    ),
    "interleaved": (
        lambda f: FanOut(desk("desk", f), desk("other", f)).merge("interleave") >> B,
        2,
        ["b", "desk", "other"],
    ),
    "a route": (lambda f: Route("kind").eq("x", desk("desk", f)) >> B, 1, ["b", "desk"]),
    "items": (
        lambda f: S.set(items=[1, 2]) >> map_over("items", desk("desk", f)) >> B,
        2,
        ["b", "desk", "desk"],
    ),
    "a transfer": (lambda f: transfer("desk") >> A >> desk("desk", f), 1, ["desk"]),
    "delegation": (lambda f: Agent("boss").delegate(desk("desk", f).describe("Opens tickets.")), 1, ["desk"]),
    "in time": (lambda f: desk("desk", f).timeout(60) >> B, 1, ["b", "desk"]),
    "a condition": (lambda f: desk("desk", f).proceed_if(lambda s: True) >> B, 1, ["b", "desk"]),
    "before a gate": (lambda f: desk("desk", f) >> gate(lambda s: False) >> B, 1, ["b", "desk"]),
}


@pytest.mark.parametrize("function", [ticket, quiet])
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_composite_waits_and_goes_on(shape: str, function: Callable[..., Any]) -> None:
    """Answered at once, each step that waited goes on, and those behind it run once."""
    make, asked, after = SHAPES[shape]
    expression = make(function)
    backend = scripted()
    result = await expression.run("hi", backend=backend, state={"kind": "x"})
    assert [pending.kind for pending in result.pending] == ["result"] * asked
    rest = await answered(expression, result, {"status": "fixed"}, backend=backend)
    assert sorted(speakers(rest)) == after
    assert rest.pending == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_conversation_goes_on_in_every_composite(shape: str) -> None:
    """`chat.resume` ends the turn that waited, and the next turn begins anew."""
    make, asked, after = SHAPES[shape]
    async with make(ticket).session(backend=scripted(), state={"kind": "x"}) as chat:
        first = await chat.send("hi")
        assert [pending.kind for pending in first.pending] == ["result"] * asked
        rest = await chat.resume(answers={each.id: {"status": "fixed"} for each in first.pending})
        assert (sorted(speakers(rest)), rest.pending) == (after, [])
        assert (await chat.send("again")).pending == []


async def nap() -> str:
    """Take longer than a desk that only opens a ticket."""
    for _ in range(100):
        await asyncio.sleep(0)
    return "rested"


def first_of(*steps: Expr[Any]) -> Expr[Any]:
    """A fan-out that ends with the first branch that completes."""
    return FanOut(*steps).merge("first_complete")


@pytest.mark.parametrize("join", [race, first_of])
@pytest.mark.parametrize("first", [True, False])
async def test_a_branch_that_waits_does_not_win(join: Callable[..., Expr[Any]], first: bool) -> None:
    """Another branch that completes wins, even if the one that waits stopped earlier."""
    both = (desk(), Agent("slow").tools(nap))
    script = {
        "slow": [call_tool("nap"), "Done."],
        "desk": [call_tool("ticket", text="x"), "It is open."],
        "b": "ok",
    }
    result = await (join(*(both if first else both[::-1])) >> B).run("hi", backend=mock_backend(script))
    assert (result.text, result.pending, sorted(speakers(result))) == ("ok", [], ["b", "slow"])


async def test_answers_may_come_one_by_one() -> None:
    """A branch that is answered goes on; the other one waits on, and the steps behind both."""
    backend, expression = scripted(), FanOut(desk(), desk("other")) >> B
    first = await expression.run("hi", backend=backend)
    one, two = first.pending
    second = await expression.resume(
        session_id=first.session_id, answers={two.id: {"status": "fixed"}}, backend=backend
    )
    assert second.pending == [one]
    assert "b" not in speakers(second)
    third = await answered(expression, second, {"status": "fixed"}, backend=backend)
    assert third.text == "ok"


@pytest.mark.parametrize("kind", SERVICES)
async def test_a_result_that_comes_days_later(kind: str, tmp_path: Path) -> None:
    """The run goes on from the store alone, as in another process, and only once."""
    service, expression = session_service(kind, tmp_path), A >> desk() >> B
    first = await expression.run("hi", session_id="s", backend=scripted(), session_service=service)
    options: dict[str, Any] = {"backend": scripted(), "session_service": service}
    rest = await answered(expression, first, {"status": "fixed"}, **options)
    assert rest.text == "ok"
    with pytest.raises(SessionError, match="it waits for nothing"):
        await answered(expression, first, {"status": "fixed"}, **options)
    await close(service)


async def test_every_way_to_run_says_that_it_waits() -> None:
    """`ask` and `map` raise; a stream and a conversation keep their session."""
    expression = desk() >> B
    with pytest.raises(RunError, match=r"'desk' waits for a result: ticket\(.*\.pending") as caught:
        await expression.ask_async("hi", backend=scripted())
    assert caught.value.result is not None
    assert caught.value.result.pending[0].kind == "result"
    with pytest.raises(RunError, match="waits for a result"):
        await expression.map(["hi"], backend=scripted())
    backend = scripted()
    events = await collected(expression.stream("hi", backend=backend))
    (pending,) = [pending for event in events for pending in event.pending]
    rest = await expression.resume(
        session_id=events[0].session_id, answers={pending.id: "fixed"}, backend=backend
    )
    assert rest.text == "ok"
    async with expression.session(backend=backend) as chat:
        first = await chat.send("hi")
    rest = await expression.resume(
        session_id=chat.session_id, answers={first.pending[0].id: "fixed"}, backend=backend
    )
    assert rest.text == "ok"


async def test_a_conversation_takes_the_answer() -> None:
    """`chat.resume(answers=)` goes on with the turn; so does a test harness."""
    async with desk().session(backend=scripted()) as chat:
        turn = await chat.send("hi")
        assert (await chat.resume(answers={turn.pending[0].id: "fixed"})).text == "It is fixed."
    async with AgentHarness(desk(), backend=scripted()) as harness:
        response = await harness.send("hi")
        assert response.pending[0].kind == "result"
        assert (await harness.resume(answers={response.pending[0].id: "fixed"})).final_text == "It is fixed."


@pytest.mark.parametrize("resume", [Expr[Any].resume, Chat[Any].resume, AgentHarness.resume])
def test_every_resume_takes_its_arguments_in_one_order(resume: Callable[..., Any]) -> None:
    """Answers come before approvals, and these go by their name alone."""
    given = signature(resume).parameters
    assert [name for name in given if name in ("answers", "approvals")] == ["answers", "approvals"]
    assert given["approvals"].kind is Parameter.KEYWORD_ONLY


async def test_a_typed_answer_is_still_to_come() -> None:
    """An agent that returns a type has not failed to answer: it waits, and `.output` says so."""
    typed = desk(function=quiet).returns(Report)
    result = await typed.run("hi", backend=scripted())
    with pytest.raises(AnswerError, match="'desk' waits for a result"):
        _ = result.output


async def test_approvals_and_answers_are_one_mapping() -> None:
    """`approvals=` answers what `answers=` does; the same request in both is an error, as is no mapping."""
    backend = scripted()
    result = await desk().run("hi", backend=backend)
    given: dict[str, Any] = {"session_id": result.session_id, "backend": backend}
    request = result.pending[0].id
    with pytest.raises(ArgumentError, match="two answers to"):
        await desk().resume(answers={request: 1}, approvals={request: True}, **given)
    with pytest.raises(ArgumentError, match=r"resume\(answers=\) takes \{id: value\}"):
        await desk().resume(answers=["fixed"], **given)  # pyright: ignore[reportArgumentType]  # a user's mistake
    with pytest.raises(ArgumentError, match="is None; give what the tool gave"):
        await desk().resume(answers={request: None}, **given)
    with pytest.raises(SessionError, match=f"needs .*waits for '{request}'"):
        await desk().resume(**given)
    assert (await desk().resume(approvals={request: "fixed"}, **given)).text == "It is fixed."


def careful() -> Agent[str]:
    """A desk whose long-running tool needs an approval first."""
    return Agent("desk").tool(LongRunningFunctionTool(ticket), require_confirmation=True)


async def test_an_approval_comes_before_the_result() -> None:
    """While the call needs an approval only that is asked; then its result is."""
    backend = mock_backend({"desk": [call_tool("ticket", text="x"), *["told"] * 5]}, default="ok")
    expression = careful() >> B
    first = await expression.run("hi", backend=backend)
    assert [pending.kind for pending in first.pending] == ["approval"]
    second = await answered(expression, first, True, backend=backend)
    assert [pending.kind for pending in second.pending] == ["result"]
    third = await answered(expression, second, {"status": "fixed"}, backend=backend)
    assert third.pending == []
    assert third.text == "ok"


async def test_a_refused_call_waits_for_no_result() -> None:
    """The model is told that the call was refused, and the run goes on."""
    backend = mock_backend({"desk": [call_tool("ticket", text="x"), *["told"] * 5]}, default="ok")
    expression = careful() >> B
    first = await expression.run("hi", backend=backend)
    rest = await answered(expression, first, False, backend=backend)
    assert rest.pending == []
    assert rest.text == "ok"


# --- credentials ----------------------------------------------------------------------------------

KEY = AuthConfig(
    auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "X-Key"}),  # pyright: ignore[reportArgumentType]  # an alias
    credential_key="key",
)
CODES = OAuthFlowAuthorizationCode(
    authorizationUrl="https://login.example/start",
    tokenUrl="http://127.0.0.1:9/token",
    scopes={"mail": "Mail"},
)
CLIENT = OAuth2Auth(client_id="me", client_secret="not-so-secret")
OAUTH = AuthConfig(
    auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=CODES)),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=CLIENT),
    credential_key="oauth",
)
BEARER = AuthConfig(auth_scheme=HTTPBearer(), credential_key="bearer")


class Mail:
    """A tool that needs a credential, and notes which it got."""

    def __init__(self, config: AuthConfig) -> None:
        self.config, self.got = config, list[AuthCredential]()

    def reader(self, name: str = "desk") -> Agent[str]:
        """An agent with that tool."""

        def read(folder: str, tool_context: ToolContext) -> dict[str, str]:
            """Read mail."""
            credential = tool_context.get_auth_response(self.config)
            if credential is None:
                tool_context.request_credential(self.config)
                return {"status": "not signed in"}
            self.got.append(credential)
            return {"status": "fixed"}

        return Agent(name).tool(read)


def reads(request: LlmRequest) -> Any:
    """The answer of the mail agent's model."""
    given = str([response.response for response in responses_in(request)])
    if "fixed" in given:
        return "You have mail."
    return "Please sign in." if "not signed in" in given else call_tool("read", folder="in")


@pytest.mark.parametrize("shape", ["alone", "sequence", "branch"])
async def test_a_run_waits_for_a_credential(shape: str) -> None:
    """`.pending` says which key is wanted; with it the tool runs again, and the steps behind it run."""
    mail = Mail(KEY)
    desk = mail.reader()
    expression = {"alone": desk, "sequence": A >> desk >> B, "branch": FanOut(desk, A) >> B}[shape]
    backend = mock_backend({"desk": reads}, default="ok")
    with pytest.raises(RunError, match="'desk' waits for a credential: API key 'X-Key'"):
        await expression.ask_async("hi", backend=mock_backend({"desk": reads}, default="ok"))
    result = await expression.run("hi", backend=backend)
    (pending,) = result.pending
    assert (pending.agent, pending.kind, dict(pending.payload)) == ("desk", "credential", {"type": "apiKey"})
    rest = await answered(expression, result, "k-123", backend=backend)
    assert [credential.api_key for credential in mail.got] == ["k-123"]
    assert rest.pending == []
    assert "desk" in speakers(rest)
    assert ("b" in speakers(rest)) == (shape != "alone")


async def test_a_sign_in_takes_the_address_that_it_ended_at() -> None:
    """For OAuth the payload has the address to open; the answer is the one the browser was sent back to."""
    mail = Mail(OAUTH)
    backend = mock_backend({"desk": reads})
    result = await mail.reader().run("hi", backend=backend)
    (pending,) = result.pending
    assert pending.payload["url"].startswith("https://login.example/start?")
    assert "not-so-secret" not in str(pending)
    back = "https://me.example/back?code=1"
    assert (await answered(mail.reader(), result, back, backend=backend)).text == "You have mail."
    oauth = mail.got[0].oauth2
    assert oauth is not None
    assert oauth.auth_response_uri == back
    assert oauth.state is not None
    assert oauth.state in pending.payload["url"]


TOKEN = AuthCredential(
    auth_type=AuthCredentialTypes.HTTP,
    http=HttpAuth(scheme="bearer", credentials=HttpCredentials(token="t-1")),
)
FORMS: Mapping[str, object] = {
    "text": "t-1",
    "a credential": TOKEN,
    "its JSON": TOKEN.model_dump(mode="json", by_alias=True, exclude_none=True),
    "the whole request": BEARER.model_copy(update={"exchanged_auth_credential": TOKEN}),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_credential_has_several_forms(form: str) -> None:
    """Text, ADK's `AuthCredential` and its `AuthConfig` all reach the tool as the same credential."""
    mail = Mail(BEARER)
    backend = mock_backend({"desk": reads})
    result = await mail.reader().run("hi", backend=backend)
    await answered(mail.reader(), result, FORMS[form], backend=backend)
    assert mail.got == [TOKEN]


@pytest.mark.parametrize("wrong", [True, 5, ["k"], {"key": "k"}, "", " "])
async def test_what_is_no_credential_is_refused(wrong: object) -> None:
    """The error names the forms that an answer has, and the run still waits."""
    mail = Mail(KEY)
    backend = mock_backend({"desk": reads})
    result = await mail.reader().run("hi", backend=backend)
    with pytest.raises(ArgumentError, match=r"is no credential: .*Give the key, the token or the address"):
        await answered(mail.reader(), result, wrong, backend=backend)
    assert (await answered(mail.reader(), result, "k", backend=backend)).text == "You have mail."


# --- input ----------------------------------------------------------------------------------------


def adk_request_input(message: str) -> None:
    """Ask the user a question, as ADK's own tool of this name does."""


@pytest.mark.newest
async def test_a_run_waits_for_input() -> None:
    """The question is the message; the answer reaches the model, and the steps behind it run."""
    expression = Agent("desk").tool(LongRunningFunctionTool(adk_request_input)) >> B
    backend = mock_backend(
        {"desk": [call_tool("adk_request_input", message="Which city?"), "Thanks."]}, default="ok"
    )
    result = await expression.run("hi", backend=backend)
    (pending,) = result.pending
    assert (pending.agent, pending.kind, pending.message) == ("desk", "input", "Which city?")
    rest = await answered(expression, result, "Oslo", backend=backend)
    assert said(rest) == [("desk", "Thanks."), ("b", "ok")]
    (given,) = responses_in(backend.calls["desk"][-1])
    assert given.response == {"result": "Oslo"}


@pytest.mark.newest
async def test_an_adopted_workflow_waits_for_input() -> None:
    """A node that yields `RequestInput` makes the run one that can go on; the schema says the form."""
    from google.adk.events.request_input import RequestInput
    from google.adk.workflow import START, Workflow

    async def city(node_input: str) -> AsyncGenerator[RequestInput, None]:
        yield RequestInput(interrupt_id="city", message="Which city?", response_schema={"type": "string"})

    def weather(node_input: str) -> str:
        return f"Rain in {node_input}"

    expression = adopt(Workflow(name="w", edges=[(START, city, weather)]))
    result = await expression.run("hi")
    (pending,) = result.pending
    assert (pending.kind, pending.message, pending.form) == (
        "input",
        "Which city?",
        'what fits {"type": "string"}',
    )
    rest = await answered(expression, result, "Oslo")
    assert "Rain in Oslo" in [event.raw.output for event in rest if event.raw is not None]
    assert rest.pending == []


WRONG_INPUT: Mapping[str, tuple[dict[str, Any], object, str, object, dict[str, Any]]] = {
    "no number": ({"type": "integer"}, "many", "it should be a valid integer", 3, {"result": 3}),
    "no text": ({"type": "string"}, 5, "it should be a valid string", "Oslo", {"result": "Oslo"}),
    "text like a number": ({"type": "string"}, 5, "it should be", "1500", {"result": '"1500"'}),
    "no object": (
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "Oslo",
        "it should be a valid dictionary. Give",
        {"city": "Oslo"},
        {"city": "Oslo"},
    ),
    "another object": (
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"town": "Oslo"},
        "city is missing",
        {"city": "Oslo"},
        {"city": "Oslo"},
    ),
}


@pytest.mark.newest
@pytest.mark.parametrize("name", WRONG_INPUT)
async def test_input_that_does_not_fit_its_question_is_refused(name: str) -> None:
    """The error says what is wrong and which form fits, no model is asked, and the run still waits."""
    from google.adk.tools import request_input

    schema, wrong, message, right, given = WRONG_INPUT[name]
    expression = Agent("desk").tool(request_input) >> B
    asks = call_tool("adk_request_input", message="Where?", response_schema=schema)
    backend = mock_backend({"desk": [asks, "Thanks."]}, default="ok")
    result = await expression.run("hi", backend=backend)
    with pytest.raises(ArgumentError, match=rf"^The answer to '.*' does not fit: .*{message}.* what fits {{"):
        await answered(expression, result, wrong, backend=backend)
    assert len(backend.calls["desk"]) == 1
    rest = await answered(expression, result, right, backend=backend)
    assert said(rest) == [("desk", "Thanks."), ("b", "ok")]
    assert [response.response for response in responses_in(backend.calls["desk"][-1])] == [given]


@pytest.mark.newest
async def test_input_of_a_workflow_that_does_not_fit_is_refused() -> None:
    """The same where a node asks; the answer reaches the next node as its type."""
    from google.adk.events.request_input import RequestInput
    from google.adk.workflow import START, Workflow

    async def number(node_input: str) -> AsyncGenerator[RequestInput, None]:
        yield RequestInput(interrupt_id="number", message="How many?", response_schema=str)

    def order(node_input: str) -> str:
        return f"{node_input} lamps"

    expression = adopt(Workflow(name="w", edges=[(START, number, order)]))
    result = await expression.run("hi")
    with pytest.raises(
        ArgumentError, match=r"'number' does not fit: it should be a valid string\. Give what fits"
    ):
        await answered(expression, result, 5)
    rest = await answered(expression, result, "5")  # which ADK alone takes for a number, and refuses
    assert "5 lamps" in [event.raw.output for event in rest if event.raw is not None]


# --- several at once ------------------------------------------------------------------------------


def pay(amount: int) -> str:
    """Pay somebody."""
    return "paid"


def every_kind(request: Any) -> Any:
    """What each model answers: one with a tool calls it, and tells what it gave."""
    tools = [tool.name for each in request.config.tools or () for tool in each.function_declarations]
    if "read" in tools:
        return reads(request)
    if "pay" not in tools:
        return asks(request)
    given = str([response.response for response in responses_in(request)])
    return "Paid." if "paid" in given else call_tool("pay", amount=5)


def all_kinds() -> Expr[Any]:
    """Branches that wait for a result, an approval of a tool, a credential, and an approval of a gate."""
    payer = Agent("payer").tool(pay, require_confirmation=True)
    return FanOut(desk("desk"), payer, Mail(KEY).reader("mail"), A >> gate(lambda s: True, message="Go?"))


TOGETHER: Mapping[str, Callable[[], Expr[Any]]] = {
    "branches": lambda: all_kinds() >> B,
    "branches in branches": lambda: FanOut(all_kinds(), desk("other", quiet)) >> B,
    "items": lambda: S.set(items=[1, 2]) >> map_over("items", all_kinds()) >> B,
    "a loop": lambda: Loop(all_kinds(), max_iterations=1) >> B,
}
GIVEN: Mapping[str, object] = {"approval": True, "result": {"status": "fixed"}, "credential": "k"}


async def calls_at_once(expression: Expr[Any]) -> dict[str, int]:
    """How often each model is asked where all is answered at once."""
    backend = mock_backend({}, default=every_kind)
    result = await expression.run("hi", backend=backend)
    answers = {pending.id: GIVEN[pending.kind] for pending in result.pending}
    await expression.resume(session_id=result.session_id, answers=answers, backend=backend)
    return {agent: len(calls) for agent, calls in backend.calls.items()}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("shape", TOGETHER)
async def test_waits_of_several_kinds_are_answered_one_by_one(shape: str, kind: str, tmp_path: Path) -> None:
    """Only who was answered goes on, and asks its model; the others wait on, and the step behind them all."""
    service, backend = session_service(kind, tmp_path), mock_backend({}, default=every_kind)
    expression, first = TOGETHER[shape](), True
    options: dict[str, Any] = {"session_id": "s", "backend": backend, "session_service": service}
    result = await expression.run("hi", **options)
    assert {pending.kind for pending in result.pending} == set(GIVEN)
    while waiting := {pending.id: pending for pending in result.pending}:
        assert "b" not in backend.calls
        chosen = [*waiting][0 if first else -1]
        given, first = {chosen: GIVEN[waiting[chosen].kind]}, not first
        with pytest.raises(SessionError, match=r"'s' does not wait for 'x'; it waits for '") as unknown:
            await expression.resume(answers={**given, "x": 1}, **options)
        assert all(repr(id) in str(unknown.value) for id in waiting)
        result = await expression.resume(answers=given, **options)
        assert [pending.id for pending in result.pending] == [id for id in waiting if id != chosen]
        with pytest.raises(SessionError, match=f"does not wait for '{chosen}'; it waits for "):
            await expression.resume(answers=given, **options)
    assert result.text == "ok"
    asked = {agent: len(calls) for agent, calls in backend.calls.items()}
    await close(service)
    assert asked == await calls_at_once(expression)


IN_ONE_TURN: Mapping[str, list[str]] = {
    "results": ["ticket", "ticket", "ticket"],
    "results of tools that gave nothing": ["quiet", "quiet", "quiet"],
    "approvals": ["pay", "pay", "pay"],
    "a credential first": ["read", "pay", "ticket"],
    "several kinds": ["pay", "ticket", "read", "quiet"],
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("calls", IN_ONE_TURN)
async def test_one_agent_asks_no_model_until_all_its_calls_are_answered(
    calls: str, refuses: bool, backwards: bool
) -> None:
    """Of several calls in one turn those that are answered are done; the model waits for the rest."""
    names = IN_ONE_TURN[calls]
    tools = [LongRunningFunctionTool(ticket), LongRunningFunctionTool(quiet)]
    agent = Mail(KEY).reader("desk").tool(tools[0]).tool(tools[1]).tool(pay, require_confirmation=True)
    given: dict[str, dict[str, Any]] = {"pay": {"amount": 5}, "read": {"folder": "in"}}
    at_once = [call_tool(each, **given.get(each, {"text": f"{n}"})) for n, each in enumerate(names)]
    backend = mock_backend({"desk": [at_once, "I opened them.", "All is done."]})
    result = await agent.run("hi", backend=backend)
    assert len(result.pending) == len(names)
    asked = len(backend.calls["desk"])  # ADK 2.x has the model tell once what it waits for
    while len(waiting := result.pending) > 1:
        assert len(backend.calls["desk"]) == asked
        one = waiting[-1 if backwards else 0]
        answer = False if refuses and one.kind == "approval" else GIVEN[one.kind]
        result = await agent.resume(session_id=result.session_id, answers={one.id: answer}, backend=backend)
        assert {each.id for each in result.pending} == {each.id for each in waiting} - {one.id}
    assert len(backend.calls["desk"]) == asked
    result = await answered(agent, result, GIVEN[result.pending[0].kind], backend=backend)
    assert result.pending == []
    assert len(backend.calls["desk"]) == asked + 1
