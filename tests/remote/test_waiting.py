"""Servers whose runs wait for what is no approval: the state of the task, and every form of the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.adk.auth.auth_tool import AuthConfig
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from adk_fluent import Agent, RemoteAgent, T
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.test_waiting import (
    BEARER,
    KEY,
    OAUTH,
    B,
    Mail,
    adk_request_input,
    asked_of,
    desk,
    quiet,
    reads,
    responses_in,
    scripted,
    ticket,
)
from tests.remote.wire import state, task, text_of


def near() -> MockBackend:
    """What runs the calling side, whose remote agents are real."""
    return mock_backend({"end": "Ended."}, remotes="real")


def mailing() -> MockBackend:
    """What runs the side that needs a credential."""
    return mock_backend({"desk": reads}, default="ok")


def call_in(told: Mapping[str, Any]) -> dict[str, Any]:
    """The call that a task waits for, of a status in either version of the protocol."""
    (call,) = [part["data"] for part in told["status"]["message"]["parts"] if "data" in part]
    return call


def response(told: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A part that answers the call of a task, as ADK's clients write it."""
    call = call_in(told)
    data = {"id": call["id"], "name": call["name"], "response": given}
    return {"data": data, "metadata": {"adk_type": "function_response"}}


async def answered(url: str, told: Mapping[str, Any], *parts: Mapping[str, Any]) -> dict[str, Any]:
    """What becomes of a task that is sent some parts."""
    return await task(url, "-", taskId=told["id"], contextId=told["contextId"], parts=[*parts])


def words_of(told: Mapping[str, Any]) -> list[str]:
    """The answers of a task."""
    return [part["text"] for artifact in told["artifacts"] for part in artifact["parts"]]


# --- long-running tools ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ticket, quiet])
@pytest.mark.parametrize("form", ["words", "JSON", "a response"])
async def test_a_task_waits_for_the_result_of_a_tool(function: Callable[..., Any], form: str) -> None:
    """It is input-required until the result is there, in any form; then the later steps run."""
    backend = scripted()
    async with A2AServer(desk(function=function) >> B, backend=backend) as server:
        asked = await task(server.url, "hi")
        assert state(asked) == "INPUT_REQUIRED"
        assert text_of(asked) == asked_of(function)
        assert (call_in(asked)["name"], call_in(asked)["args"]) == (function.__name__, {"text": "broken"})
        assert "b" not in backend.calls
        answer = {
            "words": {"text": "fixed"},
            "JSON": {"text": '{"status": "fixed", "number": 7}'},
            "a response": response(asked, {"status": "fixed", "number": 7}),
        }[form]
        told = await answered(server.url, asked, answer)
    assert (state(told), words_of(told)) == ("COMPLETED", ["ok"])
    given = {"result": "fixed"} if form == "words" else {"status": "fixed", "number": 7}
    assert responses_in(backend.calls["desk"][-1])[-1].response == given


@pytest.mark.parametrize("function", [ticket, quiet])
async def test_a_caller_waits_for_the_tool_of_the_other_side(function: Callable[..., Any]) -> None:
    """Its own run waits for the same, and goes on with the answer."""
    async with A2AServer(desk(function=function) >> B, backend=scripted()) as server:
        steps, backend = RemoteAgent("far", endpoint=server.url) >> Agent("end"), near()
        waiting = await steps.run("hi", backend=backend)
        (pending,) = waiting.pending
        assert (pending.agent, pending.kind) == ("far", "result")
        assert "end" not in backend.calls
        answers = {pending.id: {"status": "fixed"}}
        result = await steps.resume(session_id=waiting.session_id, answers=answers, backend=backend)
    assert [event.content for event in result if event.content] == ["ok", "Ended."]


async def test_questions_of_one_task_are_answered_in_turn() -> None:
    """A yes answers the approval and no tool; of other questions words answer the first."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay somebody."""
        paid.append(amount)
        return "paid"

    calls = [
        types.Part(function_call=types.FunctionCall(name=name, args=args))
        for name, args in (("quiet", {"text": "x"}), ("pay", {"amount": 5}))
    ]

    def both(request: LlmRequest) -> Any:
        given = str([each.response for each in responses_in(request)])
        if "paid" in given and "lamp" in given:
            return "All done."
        return "Wait." if responses_in(request) else types.Content(role="model", parts=calls)

    ticketed = asked_of(quiet, "x")
    agent = desk(function=quiet).tools(T.fn(pay, confirm=True))
    async with A2AServer(agent, backend=mock_backend({"desk": both})) as server:
        asked = await task(server.url, "hi")
        assert sorted(text_of(asked).splitlines()) == [
            "Run pay(amount=5)?",
            ticketed,
        ]
        unclear = await answered(server.url, asked, {"text": "perhaps"})
        assert text_of(unclear).endswith("Answer yes or no.")
        left = await answered(server.url, asked, {"text": "yes"})
        assert (state(left), text_of(left), paid) == (
            "INPUT_REQUIRED",
            ticketed,
            [5],
        )
        told = await answered(server.url, left, {"text": "a lamp"})
    assert (state(told), words_of(told)[-1], paid) == ("COMPLETED", "All done.", [5])


# --- credentials ----------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [KEY, OAUTH], ids=["key", "oauth"])
async def test_a_task_waits_for_a_credential(config: AuthConfig) -> None:
    """It is auth-required, tells no secret of this side, and asks again after what is no credential."""
    mail = Mail(config)
    async with A2AServer(mail.reader() >> B, backend=mailing()) as server:
        asked = await task(server.url, "hi")
        assert state(asked) == "AUTH_REQUIRED"
        assert "not-so-secret" not in str(asked)
        wrong = await answered(server.url, asked, {"text": '{"key": "k"}'})
        assert state(wrong) == "AUTH_REQUIRED"
        assert "Give the key, the token or the address" in text_of(wrong)
        told = await answered(server.url, wrong, {"text": "https://me.example/?code=1"})
    assert (state(told), words_of(told)[-1]) == ("COMPLETED", "ok")
    (got,) = mail.got
    oauth = got.oauth2
    assert "https://me.example/?code=1" in (got.api_key, oauth and oauth.auth_response_uri)


async def test_a_callers_config_gives_its_credential_alone() -> None:
    """The addresses and the secret stay those of this side, whatever an answer says of them."""
    mail = Mail(OAUTH)
    theirs = OAUTH.model_dump(mode="json", by_alias=True, exclude_none=True)
    theirs["authScheme"]["flows"]["authorizationCode"]["tokenUrl"] = "http://127.0.0.1:9/theirs"
    oauth = {"accessToken": "t-1", "clientSecret": "theirs"}
    theirs["exchangedAuthCredential"] = {"authType": "oauth2", "oauth2": oauth}
    backend = mailing()
    async with A2AServer(mail.reader(), backend=backend) as server:
        asked = await task(server.url, "hi")
        assert state(await answered(server.url, asked, response(asked, theirs))) == "COMPLETED"
    assert [got.oauth2 and (got.oauth2.access_token, got.oauth2.client_secret) for got in mail.got] == [
        ("t-1", "not-so-secret")
    ]


@pytest.mark.parametrize("config", [KEY, BEARER, OAUTH], ids=["key", "bearer", "oauth"])
async def test_a_caller_is_asked_for_the_credential_of_the_other_side(config: AuthConfig) -> None:
    """It goes to the agent that asks for it."""
    mail = Mail(config)
    async with A2AServer(mail.reader() >> B, backend=mailing()) as server:
        steps, backend = RemoteAgent("far", endpoint=server.url) >> Agent("end"), near()
        waiting = await steps.run("hi", backend=backend)
        (pending,) = waiting.pending
        assert (pending.agent, pending.kind) == ("far", "credential")
        result = await steps.resume(
            session_id=waiting.session_id, answers={pending.id: "k-2"}, backend=backend
        )
    assert [event.content for event in result if event.content][-1] == "Ended."
    assert "k-2" in str(mail.got[0].model_dump())


async def test_no_other_process_hears_of_a_credential() -> None:
    """A remote agent that is asked later gets the conversation, and nothing that was answered in secret."""
    mail, far = Mail(KEY), mock_backend({"clerk": "Told."})
    async with A2AServer(Agent("clerk"), backend=far) as server:
        steps = mail.reader() >> RemoteAgent("far", endpoint=server.url)
        backend = mock_backend({"desk": reads}, remotes="real")
        waiting = await steps.run("hi", backend=backend)
        answers: dict[str, Any] = {waiting.pending[0].id: "k-secret"}
        result = await steps.resume(session_id=waiting.session_id, answers=answers, backend=backend)
    assert result.text == "Told."
    assert "k-secret" not in str(far.calls["clerk"][0].contents)


# --- input ----------------------------------------------------------------------------------------


@pytest.mark.newest
async def test_a_task_waits_for_input() -> None:
    """The question is in the status, for callers of any kind; words answer it."""
    agent: Expr[Any] = Agent("desk").tool(LongRunningFunctionTool(adk_request_input)) >> B
    script = {"desk": [call_tool("adk_request_input", message="Which city?"), "Thanks."]}
    async with A2AServer(agent, backend=mock_backend(script, default="ok")) as server:
        asked = await task(server.url, "hi")
        assert (state(asked), text_of(asked)) == ("INPUT_REQUIRED", "Which city?")
        told = await answered(server.url, asked, {"text": "Oslo"})
        assert (state(told), words_of(told)[-1]) == ("COMPLETED", "ok")
    async with A2AServer(agent, backend=mock_backend(script, default="ok")) as server:
        far, backend = RemoteAgent("far", endpoint=server.url), near()
        waiting = await far.run("hi", backend=backend)
        (pending,) = waiting.pending
        assert (pending.kind, pending.message) == ("input", "Which city?")
        result = await far.resume(
            session_id=waiting.session_id, answers={pending.id: "Oslo"}, backend=backend
        )
    assert result.text == "ok"
