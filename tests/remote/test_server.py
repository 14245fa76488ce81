"""`A2AServer`: who gets in, what leaves, what waits, and what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.genai import types

from adk_fluent import Agent, Pipeline, RemoteAgent, Route, S, T, gate
from adk_fluent.a2a import AuthConfig
from adk_fluent.a2a.protocol.sdk import is_newer
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.mock import MockBackend
from adk_fluent.errors import ArgumentError, MissingExtraError, ServerError
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer, ServeLimits
from adk_fluent.testing import call_tool, mock_backend
from tests.clock import advance, with_clock
from tests.limits import LIMIT, comes_true
from tests.remote.wire import asking, call, cancelling, message, state, task, task_in, text_of
from tests.samples import Ticket

GATED: Pipeline[Any] = (
    Agent("clerk").writes("draft")
    >> gate(lambda state: True, message="Pay {amount}?")
    >> Agent("teller").instruct("Tell {draft}.")
)


def served(expression: Expr[Any], script: Mapping[str, Any], **options: Any) -> A2AServer:
    """A server whose models are scripted."""
    return A2AServer(expression, backend=mock_backend(script), **options)


def back(tool_context: Any) -> str:
    """Hand back to the agent above."""
    tool_context.actions.transfer_to_agent = "boss"
    return "ok"


def instruction(request: Any) -> str:
    """What a model is told to do."""
    return str(request.config.system_instruction)


def ann(headers: Mapping[str, str]) -> str | None:
    """Ann, who knows the word."""
    return "ann" if headers.get("x-word") == "let me in" else None


# --- calls ----------------------------------------------------------------------------------------


async def test_a_call_runs_the_expression() -> None:
    """The answer is an artifact of a task that is completed."""
    async with served(Agent("clerk"), {"clerk": "Paid."}) as server:
        told = await task(server.url, "Pay.")
    assert state(told) == "COMPLETED"
    assert [part["text"] for artifact in told["artifacts"] for part in artifact["parts"]] == ["Paid."]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_delegate_does_not_answer_for_an_agent_that_returns_a_type(
    streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The task fails, as `ask` does; the log names the error. No word of the delegate gets out."""
    boss = Agent("boss").returns(Ticket).delegate(Agent("kid"))
    script = {"boss": [call_tool("transfer_to_agent", agent_name="kid")], "kid": "SECRET"}
    async with served(Agent("before") >> boss, {"before": "Hi.", **script}) as server:
        told = (await call(server.url, message("Pay.", streaming=streaming))).text
    assert ("SECRET" in told, "Hi." in told, "AnswerError" in told) == (False, False, True)
    assert " failed: AnswerError at " in caplog.text
    assert "SECRET" not in caplog.text


async def test_a_delegate_may_speak_before_the_agent_that_returns_a_type_answers() -> None:
    """What it said is held back until then, and is sent in its place; one of the type answers itself."""
    one, two = '{"intent": "1"}', '{"intent": "2"}'
    call_back = types.FunctionCall(name="back", args={})
    parts = [types.Part(text="One moment."), types.Part(function_call=call_back)]
    for kid, said, answers in (
        (Agent("kid").tool(back), types.Content(role="model", parts=parts), ["One moment.", one]),
        (Agent("kid").returns(Ticket), two, [two]),
    ):
        boss = Agent("boss").returns(Ticket).delegate(kid)
        script = {"boss": [call_tool("transfer_to_agent", agent_name="kid"), one], "kid": said}
        async with served(boss, script) as server:
            told = await task(server.url, "Pay.")
        assert state(told) == "COMPLETED"
        assert [part["text"] for each in told["artifacts"] for part in each["parts"]] == answers


async def test_an_agent_that_returns_a_type_and_gives_no_answer_fails_its_task() -> None:
    """An expression for which `ask` raises completes no task; one that may return None does."""
    clerk = Agent("clerk")
    routes: dict[str, Route[Any]] = {
        "FAILED": Route("k").eq(1, clerk.returns(Ticket)),
        "COMPLETED": Route("k").eq(1, clerk.returns(Ticket | None)),
    }
    for how, routed in routes.items():
        async with served(S.set(k=2) >> routed, {}) as server:
            assert state(await task(server.url, "Pay.")) == how


async def test_a_message_without_words_is_one() -> None:
    """A model is always asked something: some refuse to be asked nothing."""
    backend = mock_backend({"clerk": "What is it?"})
    async with A2AServer(Agent("clerk"), backend=backend) as server:
        assert state(await task(server.url, "")) == "COMPLETED"
    assert "(no text)" in str(backend.calls["clerk"][0].contents)


@pytest.mark.newest  # the only one to speak two versions
async def test_a_client_of_the_older_protocol_is_answered() -> None:
    """Version 0.3 of the protocol is spoken at the same address, and has a card of its own."""
    said = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "Pay."}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": said}}
    async with (
        served(Agent("clerk"), {"clerk": "Paid."}) as server,
        httpx.AsyncClient(timeout=LIMIT) as client,
    ):
        told = (await client.post(server.url, json=body)).json()["result"]
        current = await client.get(server.url + ".well-known/agent-card.json")
        older = [
            await client.get(server.url + ".well-known/agent.json"),
            await client.get(server.url + ".well-known/agent-card.json", headers={"a2a-version": "0.3"}),
        ]
        url = server.url
    assert told["status"]["state"] == "completed"
    assert told["artifacts"][0]["parts"][0]["text"] == "Paid."
    assert [interface["url"] for interface in current.json()["supportedInterfaces"]] == [url, url]
    for card in (each.json() for each in older):
        assert (card["url"], card["preferredTransport"], card["protocolVersion"]) == (url, "JSONRPC", "0.3")
        assert "supportedInterfaces" not in card


@pytest.mark.newest
@pytest.mark.parametrize("auth", [None, AuthConfig(token="t"), AuthConfig("api_key", "k")])
async def test_a_card_has_the_fields_of_its_own_protocol_alone(auth: AuthConfig | None) -> None:
    """The card of 1.0 is read whole by the protocol's own types; that of 0.3 by those of 0.3."""
    from a2a.compat.v0_3.types import AgentCard as OlderCard
    from a2a.types import AgentCard
    from google.protobuf.json_format import ParseDict

    async with served(Agent("clerk"), {}, auth=auth) as server, httpx.AsyncClient(timeout=LIMIT) as client:
        current = (await client.get(server.url + ".well-known/agent-card.json")).json()
        older = (await client.get(server.url + ".well-known/agent.json")).json()
    ParseDict(current, AgentCard())  # which refuses a field that it does not know
    assert set(older) <= {field.alias or name for name, field in OlderCard.model_fields.items()}
    assert ("securitySchemes" in current, "security" in older) == (auth is not None, auth is not None)


async def test_a_card_can_be_kept_by_caches() -> None:
    """It has an ETag and says how long it is fresh; who has it already gets 304 without a body."""
    async with served(Agent("clerk"), {}) as server, httpx.AsyncClient(timeout=LIMIT) as client:
        for path in (".well-known/agent-card.json", ".well-known/agent.json"):
            first = await client.get(server.url + path)
            assert first.headers["cache-control"] == "max-age=300"
            etag = first.headers["etag"]
            for had in (etag, f'"other", W/{etag}', "*"):
                again = await client.get(server.url + path, headers={"if-none-match": had})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
            changed = await client.get(server.url + path, headers={"if-none-match": '"other"'})
            assert (changed.status_code, changed.json()) == (200, first.json())
    async with served(Agent("other"), {}) as server, httpx.AsyncClient(timeout=LIMIT) as client:
        assert (await client.get(server.url + ".well-known/agent-card.json")).headers["etag"] != etag


async def test_a_plain_client_of_adk_gets_the_answer_in_pieces() -> None:
    """ADK's own `RemoteA2aAgent` hears the tokens and the answer."""
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    async def pieces() -> AsyncIterator[str]:
        yield "Pa"
        yield "id."

    async with served(Agent("clerk"), {"clerk": pieces()}) as server:
        url = server.url + ".well-known/agent-card.json"
        far = RemoteA2aAgent(name="far", agent_card=url)
        runner = InMemoryRunner(agent=far, app_name="x")
        await runner.session_service.create_session(app_name="x", user_id="u", session_id="s")
        asked = types.Content(role="user", parts=[types.Part(text="Pay.")])
        events = [e async for e in runner.run_async(user_id="u", session_id="s", new_message=asked)]
        await far.cleanup()
        await runner.close()
    streams = is_newer()  # before, ADK's agent asked for the answer alone
    said = [(e.content.parts[0].text, bool(e.partial)) for e in events if e.content and e.content.parts]
    assert said == [("Pa", True), ("id.", True)] * streams + [("Paid.", False)]


async def test_our_own_client_gets_the_answer_in_pieces() -> None:
    """Each piece comes once, and the words of the caller are not said back."""

    async def pieces() -> AsyncIterator[str]:
        for piece in ("Pa", "id", "."):
            yield piece

    async with served(Agent("clerk"), {"clerk": pieces()}) as server:
        far = RemoteAgent("far", endpoint=server.url)
        events = [event async for event in far.stream("Pay.", backend=mock_backend(remotes="real"))]
    said = [(event.content, event.is_partial) for event in events if event.author == "far"]
    assert said == [("Pa", True), ("id", True), (".", True), ("Paid.", False)]


async def test_values_go_into_the_state_under_what_the_expression_reads() -> None:
    """Whole numbers stay whole; what it does not read, or sets itself, a caller cannot set."""
    told = Agent("clerk").instruct("Order {order}, {kind}.")
    backend = mock_backend({"clerk": "ok"})
    async with A2AServer(S.set(kind="book") >> told.writes("out"), backend=backend) as server:
        far = RemoteAgent("far", endpoint=server.url).reads("order", "kind", "admin")
        await (S.set(order=7, kind="car", admin=True) >> far).run("Go.", backend=mock_backend(remotes="real"))
    request = backend.calls["clerk"][0]
    assert instruction(request).startswith("Order 7, book.")
    assert "admin" in str(request.contents)  # what is no input is said, as any words are


# --- what leaves ----------------------------------------------------------------------------------


async def test_words_of_agents_behind_the_scenes_never_leave() -> None:
    """Not in the stream, not in the task that is kept, not in the card, and not in the text of a failure."""
    steps = Agent("spy").instruct("Use the SECRET list.").writes("found") >> Agent("clerk").instruct(
        "{found}"
    )
    async with served(steps, {"spy": "SECRET plan", "clerk": "Paid."}) as server:
        body = message("Pay.", streaming=True)
        streamed = (await call(server.url, body)).text
        async with httpx.AsyncClient(timeout=LIMIT) as client:
            card = (await client.get(server.url + ".well-known/agent-card.json")).text
    assert "Paid." in streamed
    assert "SECRET" not in streamed + card
    assert "spy" not in streamed + card
    broken = Agent("spy").returns(int).writes("found") >> Agent("clerk")
    async with served(broken, {"spy": "SECRET", "clerk": "Paid."}) as server:
        failed = await task(server.url, "Pay.")
    assert state(failed) == "FAILED"
    assert text_of(failed).startswith("The run failed (")
    assert "SECRET" not in json.dumps(failed)


# --- who gets in ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "headers"),
    [
        (AuthConfig("bearer", "t"), {"authorization": "Bearer t"}),
        (AuthConfig("api_key", "k"), {"x-api-key": "k"}),
        (ann, {"x-word": "let me in"}),
    ],
    ids=["bearer", "api key", "hook"],
)
async def test_only_those_who_may_get_in(auth: Any, headers: dict[str, str]) -> None:
    """Without the right credentials nothing runs; the card and the health are open, and name the scheme."""
    backend = mock_backend({"clerk": "Paid."})
    async with A2AServer(Agent("clerk"), auth=auth, backend=backend) as server:
        wrong = [
            await call(server.url, message("Pay."), **given) for given in ({}, dict.fromkeys(headers, "x"))
        ]
        assert [answer.status_code for answer in wrong] == [401, 401]
        assert "clerk" not in backend.calls
        right = await call(server.url, message("Pay."), **headers)
        assert state(task_in(right)) == "COMPLETED"
        async with httpx.AsyncClient(timeout=LIMIT) as client:
            card = (await client.get(server.url + ".well-known/agent-card.json")).json()
            assert (await client.get(server.url + "health")).json() == {"status": "ok"}
    assert ("securitySchemes" in card) is isinstance(auth, AuthConfig)


async def test_users_that_a_hook_names_have_their_own_sessions() -> None:
    """One user cannot go on in the conversation of another by naming it."""
    backend = mock_backend({"clerk": "ok"})

    async def named(headers: Mapping[str, str]) -> str | None:
        return headers.get("x-user")

    async with A2AServer(Agent("clerk"), auth=named, backend=backend) as server:
        for user in ("ann", "bob"):
            await call(server.url, message(f"I am {user}.", contextId="shared"), **{"x-user": user})
    assert "I am ann." not in str(backend.calls["clerk"][1].contents)


async def test_tasks_are_found_by_their_own_user_alone() -> None:
    """Another user cannot read, cancel or answer a task by its id; its own user can."""

    def named(headers: Mapping[str, str]) -> str | None:
        return headers.get("x-user")

    steps = Agent("clerk") >> gate(lambda state: True, message="Pay?") >> Agent("teller")
    async with served(steps, {"clerk": "draft", "teller": "Told."}, auth=named) as server:

        async def told(user: str, body: Any) -> str:
            return (await call(server.url, body, **{"x-user": user})).text

        waiting = task_in(await call(server.url, message("Pay."), **{"x-user": "ann"}))
        ids = {"taskId": waiting["id"], "contextId": waiting["contextId"]}
        assert state(waiting) == "INPUT_REQUIRED"
        for body in (asking(waiting["id"]), cancelling(waiting["id"]), message("yes", **ids)):
            refused = await told("bob", body)
            assert '"code":-32001' in refused.replace(" ", "")
            assert "draft" not in refused
        assert "Pay?" in await told("ann", asking(waiting["id"]))
        assert "Told." in await told("ann", message("yes", **ids))


# --- what waits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "ends"), [(True, "Told."), (False, "Not approved: Pay 5?")])
async def test_a_gate_of_the_other_side_is_a_gate_here(answer: bool, ends: str) -> None:
    """The task waits; the caller's own run waits with it, and both go on, or end, by the person's answer."""
    near = mock_backend({"end": "Ended."}, remotes="real")
    async with served(GATED, {"clerk": "draft", "teller": "Told."}) as server:
        far = RemoteAgent("far", endpoint=server.url).reads("amount").writes("out")
        steps = S.set(amount=5) >> far >> Agent("end").instruct("{out}")
        waiting = await steps.run("Go.", backend=near, session_id="s")
        (pending,) = waiting.pending
        assert (pending.agent, pending.message) == ("far", "Pay 5?")
        result = await steps.resume(session_id="s", approvals={pending.id: answer}, backend=near)
    assert [event.content for event in result.by("far") if event.content] == [ends]
    assert [event.content for event in result.by("end") if event.content] == ["Ended."] * answer


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("Yes.", "COMPLETED"),
        ("no", "REJECTED"),
        ("perhaps", "INPUT_REQUIRED"),
        ('{"by": "Ann"}', "COMPLETED"),
        ('{"confirmed": true}', "COMPLETED"),
        ('{"confirmed": false}', "REJECTED"),
        ('{"response": "{\\"confirmed\\": false}"}', "REJECTED"),
    ],
)
async def test_a_client_that_is_not_adk_answers_in_words(words: str, ends: str) -> None:
    """A yes goes on, a no rejects the task; JSON says either, or approves; anything else is asked again."""
    async with served(GATED, {"clerk": "draft", "teller": "Told."}) as server:
        asked = await task(server.url, "Go.", parts=[{"text": "Go."}, {"data": {"amount": 5}}])
        assert state(asked) == "INPUT_REQUIRED"
        assert text_of(asked) == "Pay 5?"
        told = await task(server.url, words, taskId=asked["id"], contextId=asked["contextId"])
    assert state(told) == ends


async def test_a_tool_that_asks_makes_the_task_wait() -> None:
    """What is to be run is told, and it runs once it is approved, and not before."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay somebody."""
        paid.append(amount)
        return "paid"

    agent = Agent("clerk").tools(T.fn(pay, confirm=True))
    async with served(agent, {"clerk": [call_tool("pay", amount=5), "Paid."]}) as server:
        asked = await task(server.url, "Go.")
        assert text_of(asked) == "Run pay(amount=5)?"
        assert paid == []
        told = await task(server.url, "yes", taskId=asked["id"], contextId=asked["contextId"])
    assert state(told) == "COMPLETED"
    assert paid == [5]


async def test_tasks_of_one_conversation_wait_each_for_their_own_answer() -> None:
    """A yes to one task runs what that one asked, and nothing that another one waits for."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay somebody."""
        paid.append(amount)
        return "paid"

    calls = [call_tool("pay", amount=5), call_tool("pay", amount=7), "Paid 7.", "Paid 5."]
    async with served(Agent("clerk").tools(T.fn(pay, confirm=True)), {"clerk": calls}) as server:
        one = await task(server.url, "Pay 5.", contextId="c")
        two = await task(server.url, "Pay 7.", contextId="c")
        assert [text_of(each) for each in (one, two)] == ["Run pay(amount=5)?", "Run pay(amount=7)?"]
        unclear = await task(server.url, "perhaps", taskId=two["id"], contextId="c")
        assert text_of(unclear) == "Run pay(amount=7)?  Answer yes or no."
        for each, amounts in ((two, [7]), (one, [7, 5])):
            told = await task(server.url, "yes", taskId=each["id"], contextId="c")
            assert state(told) == "COMPLETED"
            assert paid == amounts


# --- what is kept ---------------------------------------------------------------------------------


# --- limits, and the end --------------------------------------------------------------------------


class Slow(MockBackend):
    """Models that wait until they are let go."""

    def __init__(self) -> None:
        self.begun, self.gate, self.left = asyncio.Event(), asyncio.Event(), list[str]()
        super().__init__({"clerk": self._scripted})

    async def _pieces(self) -> AsyncIterator[str]:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.left.append("cancelled")
            raise
        yield "Paid."

    def _scripted(self, request: Any) -> AsyncIterator[str]:
        return self._pieces()


async def test_too_large_a_request_is_refused() -> None:
    """More bytes than may be get 413, announced or not, and nothing runs."""
    backend = mock_backend({"clerk": "ok"})
    async with A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(body=1000)) as server:
        assert (await call(server.url, message("x" * 2000))).status_code == 413

        async def unannounced() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * 500

        async with httpx.AsyncClient(timeout=LIMIT) as client:
            assert (await client.post(server.url, content=unannounced())).status_code == 413
    assert "clerk" not in backend.calls


async def test_too_many_tasks_are_asked_to_come_back() -> None:
    """A server that is full says so with 503, in its health, too, and goes on with what it has."""
    backend = Slow()
    async with A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(tasks=1)) as server:
        first = asyncio.ensure_future(task(server.url, "first"))
        await backend.begun.wait()
        refused = await call(server.url, message("second"))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        async with httpx.AsyncClient(timeout=LIMIT) as client:
            assert (await client.get(server.url + "health")).status_code == 503
        backend.gate.set()
        assert state(await first) == "COMPLETED"


async def test_a_crowd_is_held_to_the_limit() -> None:
    """Of calls that arrive at once no more run than may; a full server can be told to cancel, and asked."""
    backend = Slow()
    async with A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(tasks=2)) as server:
        calls = [
            asyncio.ensure_future(call(server.url, message(f"{n}", contextId=f"c{n}"))) for n in range(8)
        ]
        refused: list[int] = []
        for done in asyncio.as_completed(calls):
            refused.append((await done).status_code)
            if len(refused) == 6:
                break
        assert refused == [503] * 6
        assert len(backend.calls["clerk"]) == 2
        assert '"code":-32001' in (await call(server.url, asking("unknown"))).text.replace(" ", "")
        backend.gate.set()
        answered = [await one for one in calls]
    assert sorted(answer.status_code for answer in answered) == [200] * 2 + [503] * 6


async def test_a_full_server_hears_that_a_task_is_cancelled() -> None:
    """Who fills it can also leave."""
    backend = Slow()
    async with A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(tasks=1)) as server:
        far = RemoteAgent("far", endpoint=server.url, timeout=LIMIT)
        leaving = asyncio.ensure_future(far.run("Go.", backend=mock_backend(remotes="real")))
        await backend.begun.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        async with httpx.AsyncClient(timeout=LIMIT) as client, asyncio.timeout(LIMIT):
            while (await client.get(server.url + "health")).status_code != 200:
                await asyncio.sleep(0.01)
    assert backend.left == ["cancelled"]


async def test_a_request_that_does_not_arrive_is_refused() -> None:
    """One whose body never comes gets 408, and holds no connection for ever."""
    async with served(Agent("clerk"), {"clerk": "ok"}, limits=ServeLimits(arrival=0.05)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[2].strip("/")))
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        told = await reader.read()
        writer.close()
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"a request may take 0.05 seconds to arrive" in told


@with_clock
async def test_a_task_that_takes_too_long_fails() -> None:
    """Its model call is cancelled, and the caller is told."""
    backend = Slow()
    async with A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(seconds=5)) as server:
        asked = asyncio.ensure_future(task(server.url, "Go."))
        await backend.begun.wait()
        advance(5)  # of the minute that the caller has
        told = await asked
    assert (state(told), text_of(told)) == ("FAILED", "It took longer than 5 seconds.")
    assert backend.left == ["cancelled"]


async def test_a_timeout_of_a_tool_is_not_the_limit_of_the_server() -> None:
    """A `TimeoutError` that the user's own tool raises is told as the failure it is."""

    def pay() -> str:
        """Pay somebody."""
        raise TimeoutError("the bank did not answer")

    async with served(Agent("clerk").tools(pay), {"clerk": [call_tool("pay"), "Paid."]}) as server:
        told = await task(server.url, "Go.")
    assert state(told) == "FAILED"
    assert text_of(told).startswith("The run failed (ToolError)")

    class Bank(MockBackend):
        """A backend that lets such an error through as it is."""

        async def stream(self, *arguments: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
            raise TimeoutError("the bank did not answer")
            yield

    async with A2AServer(Agent("clerk"), backend=Bank({})) as server:
        told = await task(server.url, "Go.")
    assert text_of(told).startswith("The run failed (TimeoutError)")


async def test_messages_of_one_conversation_wait_for_each_other(tmp_path: Path) -> None:
    """Ten at once are all answered, one after another, and each sees what was said before it."""
    running, most = 0, 0

    async def answer(request: Any) -> AsyncIterator[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        yield f"{len(request.contents)}"
        running -= 1

    backend = mock_backend({"clerk": lambda request: answer(request)})
    for store in (None, tmp_path / "served.db"):
        async with A2AServer(Agent("clerk"), backend=backend, store=store) as server:
            asking_all = [task(server.url, f"m{index}", contextId="c") for index in range(10)]
            told = await asyncio.gather(*asking_all)
        assert [state(each) for each in told] == ["COMPLETED"] * 10
        answers = [int(each["artifacts"][0]["parts"][0]["text"]) for each in told]
        assert sorted(answers) == list(range(1, 20, 2))
    assert most == 1


async def test_a_conversation_that_waits_does_not_stop_another() -> None:
    """While one conversation's model takes its time, another one is answered."""
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[str]:
        await gate.wait()
        yield "slow"

    async with served(Agent("clerk"), {"clerk": [slowly(), "quick"]}) as server:
        slow = asyncio.ensure_future(task(server.url, "one", contextId="a"))
        waiting = asyncio.ensure_future(task(server.url, "two", contextId="b"))
        assert state(await waiting) == "COMPLETED"
        gate.set()
        assert state(await slow) == "COMPLETED"


@pytest.mark.parametrize("limits", [ServeLimits(conversations=2), ServeLimits(memory=5_500)])
async def test_the_conversation_that_was_silent_for_longest_is_forgotten(limits: ServeLimits) -> None:
    """Above the limit its tasks are not found and its session is gone; the newer ones go on."""
    backend = mock_backend({"clerk": lambda request: "x" * 500})
    async with A2AServer(Agent("clerk"), backend=backend, limits=limits) as server:
        said = "y" * 500
        first, second = [await task(server.url, said, contextId=each) for each in ("a", "b")]
        await task(server.url, said, contextId="a")
        third = await task(server.url, said, contextId="c")
        found = [(await call(server.url, asking(each["id"]))).json() for each in (first, second, third)]
        assert ["result" in each for each in found] == [True, False, True]
        assert found[1]["error"]["code"] == -32001
        await task(server.url, said, contextId="b")
    assert [len(request.contents) for request in backend.calls["clerk"]] == [1, 1, 3, 1, 1]


async def test_a_store_keeps_every_conversation(tmp_path: Path) -> None:
    """The limit is one of memory: what is in a file stays there."""
    limits = ServeLimits(conversations=1)
    store = tmp_path / "served.db"
    async with served(Agent("clerk"), {"clerk": ["ok", "ok"]}, limits=limits, store=store) as server:
        told = [await task(server.url, "hi", contextId=each) for each in ("a", "b")]
        found = [(await call(server.url, asking(each["id"]))).json() for each in told]
    assert all("result" in each for each in found)


async def test_a_server_that_stops_finishes_what_runs() -> None:
    """A task that is running when the server is stopped is answered, and no other one is taken."""
    backend = Slow()
    server = A2AServer(Agent("clerk"), backend=backend)
    await server.start()
    url = server.url
    running = asyncio.ensure_future(task(url, "Go."))
    await backend.begun.wait()
    stopping = asyncio.ensure_future(server.stop())
    refused = await call(url, message("late"))
    assert (refused.status_code, refused.json()) == (503, {"error": "the server is stopping"})
    backend.gate.set()
    assert state(await running) == "COMPLETED"
    await stopping
    with pytest.raises(httpx.ConnectError):
        await call(url, message("too late"))


async def test_a_server_that_was_stopped_can_be_started_again(tmp_path: Path) -> None:
    """It takes calls again, and has what it kept."""
    server = served(GATED, {"clerk": "draft", "teller": "Told."}, store=tmp_path / "served.db")
    async with server:
        asked = await task(server.url, "Go.", parts=[{"text": "Go."}, {"data": {"amount": 5}}])
    async with server:
        told = await task(server.url, "yes", taskId=asked["id"], contextId=asked["contextId"])
    assert state(told) == "COMPLETED"


@with_clock
async def test_what_cannot_finish_is_handed_back() -> None:
    """After the time of grace a task is cancelled, and its caller told that it can send it again."""
    backend = Slow()
    server = A2AServer(Agent("clerk"), backend=backend, limits=ServeLimits(grace=5))
    await server.start()
    running = asyncio.ensure_future(task(server.url, "Go."))
    await backend.begun.wait()
    stopping = asyncio.ensure_future(server.stop())
    await asyncio.sleep(0)  # in which it begins to wait
    advance(5)  # of the minute that the caller has
    await stopping
    told = await running
    assert state(told) == "FAILED"
    assert text_of(told) == "The server stopped before this was done. Send it again."
    assert backend.left == ["cancelled"]


async def test_a_caller_that_leaves_cancels_the_task() -> None:
    """Cancellation reaches the model of the other side."""
    backend = Slow()
    async with A2AServer(Agent("clerk"), backend=backend) as server:
        far = RemoteAgent("far", endpoint=server.url)
        running = asyncio.ensure_future(far.run("hi", backend=mock_backend(remotes="real")))
        await backend.begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await comes_true(lambda: backend.left == ["cancelled"], "the task is cancelled")


# --- mistakes -------------------------------------------------------------------------------------


async def test_a_server_leaves_the_log_handlers_of_the_process_open() -> None:
    """Starting a server closes no handler of the program that starts it."""
    closed: list[object] = []

    class Handler(logging.NullHandler):
        def close(self) -> None:
            closed.append(self)
            super().close()

    handler = Handler()
    async with A2AServer(Agent("a"), backend=mock_backend({"a": "hi"})):
        assert closed == []
    assert closed == []
    handler.close()


async def test_a_taken_port_is_one_clear_line() -> None:
    """So is starting twice, and asking where a server listens that does not."""
    async with served(Agent("clerk"), {"clerk": "ok"}) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(
            ServerError, match=rf"cannot listen at 127\.0\.0\.1:{port}: Address already in use"
        ):
            await served(Agent("clerk"), {}).start(port=port)
        with pytest.raises(ServerError, match="99999: a port is a number from 0 to 65535"):
            await served(Agent("clerk"), {}).start(port=99999)
        with pytest.raises(ServerError, match="listens already"):
            await server.start()
    with pytest.raises(ServerError, match="does not listen"):
        _ = server.url


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"auth": AuthConfig(token="")}, "its token is empty"),
        ({"auth": "token"}, "takes an AuthConfig or a function, not str"),
        ({"card": 3}, "3 is no agent card"),
        ({"store": "mysql://db"}, "takes a file, or a postgresql"),
    ],
)
def test_mistakes_are_told_before_anything_listens(options: dict[str, Any], said: str) -> None:
    """Each in one line that says what to give."""
    with pytest.raises(ArgumentError, match=said) as error:
        served(Agent("clerk"), {}, **options)
    assert "\n" not in str(error.value)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither serving nor calling begins, and both say what to install."""
    monkeypatch.setattr("adk_fluent.a2a.protocol.sdk.find_spec", dict[str, object]().get)
    with pytest.raises(MissingExtraError, match=r"A2AServer needs a2a-sdk.*pip install 'google-adk\[a2a\]'"):
        A2AServer(Agent("clerk"))
    with pytest.raises(MissingExtraError, match=r"Remote agent 'far' needs a2a-sdk"):
        RemoteAgent("far", endpoint="http://127.0.0.1:1").ask("hi")
