"""`RemoteAgent` against servers that are plain ADK: what it sends and hears, and what counts as failure."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, Pipeline, RemoteAgent, Route, S, T, tap
from adk_fluent.a2a import AuthConfig, RetryConfig
from adk_fluent.a2a.protocol import connections
from adk_fluent.a2a.protocol.sdk import is_newer
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.mock import MockBackend
from adk_fluent.errors import ArgumentError, RemoteError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.serve import listening as served_here
from adk_fluent.testing import call_tool, mock_backend
from tests.clock import advance, on_clock
from tests.conftest import open_in
from tests.limits import comes_true, in_thread
from tests.remote.others import Says, listening, plain, says, words

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def model(agent: Any) -> Says:
    """The model of an agent."""
    assert isinstance(agent.model, Says)
    return agent.model


def sent(text: str) -> Any:
    """The values of a data part, as a model is shown it."""
    told = json.loads(text.removeprefix("<a2a_datapart_json>").removesuffix("</a2a_datapart_json>"))
    return told if is_newer() else told["data"]


def noted(events: list[AgentEvent], name: str) -> Any:
    """What is noted under a name on one of these events."""
    (found,) = [event.metadata[name] for event in events if event.metadata and name in event.metadata]
    return found


class Order(BaseModel):
    intent: str
    amount: int


class Receipt(BaseModel):
    ok: bool


# --- what is sent, and what comes back ------------------------------------------------------------


async def test_reads_travel_as_data_and_the_answer_is_written() -> None:
    """The user's message and the declared keys reach the other side; its answer is in state, once."""
    clerk = says("Pa", "id.")
    async with listening(plain(clerk)) as url:
        pay = RemoteAgent("pay", endpoint=url).reads("intent", "user:tier").writes("receipt")
        steps = S.set(intent="refund", secret="x", **{"user:tier": 2}) >> Agent("aside") >> pay
        result = await (steps >> Agent("b").instruct("Tell {receipt}.")).run(
            "hi", backend=mock_backend({"aside": "Not for you.", "b": "told"}, remotes="real")
        )
    assert result.state["receipt"] == "Paid."
    assert [event.content for event in result.by("pay") if event.content] == ["Paid."]
    said, data = words(model(clerk).asked[0])
    assert said == "hi"
    assert sent(data) == {"intent": "refund", "tier": 2}


async def test_text_from_earlier_runs_is_not_sent() -> None:
    """With `.reads(...)` the message of this run goes with the keys, and nothing that was said before."""
    clerk = says("Paid.")
    backend = mock_backend(default="noted", remotes="real")
    async with listening(plain(clerk)) as url:
        pay = RemoteAgent("pay", endpoint=url).reads("intent")
        steps = S.set(intent="refund") >> Route("to").eq("pay", pay).otherwise(Agent("aside"))
        await steps.run("My number is 4711.", session_id="s", state={"to": "aside"}, backend=backend)
        await steps.run("Pay.", session_id="s", state={"to": "pay"}, backend=backend)
    (request,) = model(clerk).asked
    assert "4711" not in str(request.contents)
    assert "noted" not in str(request.contents)
    assert "Pay." in words(request)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("as_tool", [True, False])
async def test_an_answer_has_a_limit(streaming: bool, as_tool: bool) -> None:
    """More bytes than `max_bytes=` fail the call, streamed or not, agent or tool; it is not asked again."""
    clerk = says("x" * 100_000)
    async with listening(plain(clerk, streaming=streaming)) as url:
        options: dict[str, Any] = {"max_bytes": 50_000, "retry": RetryConfig(3, 0.0)}
        made: Expr[Any] = RemoteAgent("far", endpoint=url, **options)
        script: dict[str, Any] = {}
        if as_tool:
            made = Agent("boss").tools(T.a2a(url, name="far", **options))
            script = {"boss": [call_tool("far", request="Go."), "told"]}
        with pytest.raises(RunError, match=r"its answer has more than 50000 bytes \(max_bytes=\)"):
            await made.run("Go.", backend=mock_backend(script, remotes="real"))
    assert len(model(clerk).asked) == 1


async def test_no_event_loop_is_kept_by_a_remote_agent() -> None:
    """Each `ask` has an event loop of its own, which is collected after it with its connection."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    def ask(url: str) -> None:
        far = RemoteAgent("far", endpoint=url) >> tap(
            lambda state: loops.append(weakref.ref(asyncio.get_running_loop()))
        )
        assert far.ask("hi", backend=mock_backend(remotes="real")) == "ok"

    async with listening(plain(says("ok"))) as url:
        for _ in range(3):
            await in_thread(ask, url)
    gc.collect()
    assert [each() for each in loops] == [None] * 3


async def test_without_reads_the_conversation_is_sent() -> None:
    """An agent that declares nothing hears what one in its place would hear."""
    clerk = says("ok")
    async with listening(plain(clerk)) as url:
        await (Agent("a") >> RemoteAgent("far", endpoint=url)).run(
            "hi", backend=mock_backend({"a": "Said it."}, remotes="real")
        )
    text = "\n".join(words(model(clerk).asked[0]))
    assert text.startswith("hi")
    assert "Said it." in text


async def test_the_next_turn_sends_what_is_new() -> None:
    """The other side keeps its own conversation, so only what was said since then travels."""
    clerk = says("ok")
    async with listening(plain(clerk)) as url:
        far = RemoteAgent("far", endpoint=url)
        session = far.session(backend=mock_backend(remotes="real"))
        await session.send("first")
        await session.send("second")
    assert words(model(clerk).asked[1]) == ["first", "ok", "second"]


@pytest.mark.parametrize("newer", [False, True])
async def test_tokens_arrive_as_they_are_produced_and_once(newer: bool) -> None:
    """The first piece is here while the other side still waits for the second; nothing is said twice."""
    clerk, gate = says("Hel", "lo"), asyncio.Event()
    model(clerk).wait_for(gate)
    seen: list[tuple[str, bool]] = []
    async with listening(plain(clerk, streaming=True, newer=newer)) as url:
        far = RemoteAgent("far", endpoint=url)
        async for event in far.stream("hi", backend=mock_backend(remotes="real")):
            if event.author == "far" and event.content:
                seen.append((event.content, event.is_partial))
                gate.set()
    assert seen == [("Hel", True), ("lo", True), ("Hello", False)]


async def test_a_run_that_does_not_stream_gets_the_answer_alone() -> None:
    """`run` has one event with the answer, however many pieces the other side sends."""
    async with listening(plain(says("Hel", "lo"), streaming=True)) as url:
        result = await RemoteAgent("far", endpoint=url).run("hi", backend=mock_backend(remotes="real"))
    assert [event.content for event in result if event.content] == ["Hello"]


async def test_the_answer_is_of_the_promised_type() -> None:
    """`@ Model` parses what comes back, state holds JSON types, and anything else is a failure."""
    async with listening(plain(says('{"ok": true}'))) as url:
        pay = RemoteAgent("pay", endpoint=url).writes("receipt") @ Receipt
        result = await pay.run("hi", backend=mock_backend(remotes="real"))
    assert result.output == Receipt(ok=True)
    assert result.state["receipt"] == {"ok": True}
    async with listening(plain(says("maybe"))) as url:
        wrong = RemoteAgent("pay", endpoint=url) @ Receipt
        with pytest.raises(
            RemoteError, match=r"'pay' at http://127.*answered 'maybe', which is not a Receipt"
        ):
            await wrong.run("hi", backend=mock_backend(remotes="real"))


async def test_what_is_sent_must_be_what_the_other_side_takes() -> None:
    """`input_schema` is checked before anything is sent; the missing field is named."""
    clerk = says("ok")
    async with listening(plain(clerk)) as url:
        pay = RemoteAgent("pay", endpoint=url, input_schema=Order).reads("intent", "amount")
        with pytest.raises(RemoteError, match="it takes a Order, and amount is missing"):
            await (S.set(intent="refund") >> pay).run("hi", backend=mock_backend(remotes="real"))
        with pytest.raises(RemoteError, match="state key 'intent' cannot be written as JSON"):
            await (S.set(intent=object()) >> pay).run("hi", backend=mock_backend(remotes="real"))
    assert model(clerk).asked == []


# --- capabilities ---------------------------------------------------------------------------------


async def test_a_missing_capability_is_named_before_the_first_call() -> None:
    """What the card does not list is a failure; ids, names and tags of skills count."""
    clerk = says("ok")
    async with listening(plain(clerk)) as url:
        far = RemoteAgent("far", endpoint=url, capabilities=["clerk", "proces_refund"])
        with pytest.raises(RemoteError, match=r"its card has no skill 'proces_refund'; it names 'clerk'"):
            await far.run("hi", backend=mock_backend(remotes="real"))
        assert model(clerk).asked == []
        able = RemoteAgent("far", endpoint=url, capabilities=["clerk"])
        assert (await able.run("hi", backend=mock_backend(remotes="real"))).text == "ok"


# --- failures -------------------------------------------------------------------------------------


async def test_an_error_on_the_other_side_is_a_failure_here() -> None:
    """A task that failed does not pass for an answer."""
    async with listening(plain(says(error="no such account"))) as url:
        with pytest.raises(RemoteError, match=r"'far' at http://127\S+: it failed: no such account"):
            await RemoteAgent("far", endpoint=url).run("hi", backend=mock_backend(remotes="real"))


async def test_a_dead_endpoint_runs_the_fallback_and_says_why() -> None:
    """The fallback answers, and an event tells what went wrong."""
    far = RemoteAgent("far", endpoint="http://127.0.0.1:1", fallback=Agent("near").writes("receipt"))
    result = await far.writes("receipt").run("hi", backend=mock_backend({"near": "By hand."}, remotes="real"))
    assert result.text == "By hand."
    assert result.state["receipt"] == "By hand."
    (told,) = [e.metadata["adk_fluent.failed"] for e in result if "adk_fluent.failed" in (e.metadata or {})]
    assert told["far"].startswith(
        "Remote agent 'far' at http://127.0.0.1:1: it cannot be reached: ConnectError"
    )


def guarded(token: str, asked: list[str]) -> Any:
    """A server that lets nobody in without a token, not even to its card."""

    def make(port: int) -> Any:
        inner = plain(says("ok"))(port)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {key.decode(): value.decode() for key, value in scope["headers"]}
                asked.append(headers.get("authorization", "") + headers.get("x-api-key", ""))
                if asked[-1] != token:
                    await send({"type": "http.response.start", "status": 401, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await inner(scope, receive, send)

        return app

    return make


async def test_credentials_are_sent_and_a_401_is_a_failure() -> None:
    """A bearer token or an API key lets in; without one the failure says so, and is not tried again."""
    asked: list[str] = []
    async with listening(guarded("Bearer t", asked)) as url:
        pay = RemoteAgent("pay", endpoint=url, auth=AuthConfig(token="t"))
        assert (await pay.run("hi", backend=mock_backend(remotes="real"))).text == "ok"
        asked.clear()
        denied = RemoteAgent("pay", endpoint=url, retry=RetryConfig(3, 0.0))
        with pytest.raises(RemoteError, match=r"HTTP 401 \(not authenticated; see auth=\)"):
            await denied.run("hi", backend=mock_backend(remotes="real"))
        assert len(asked) == 1
    async with listening(guarded("k", asked)) as url:
        keyed = RemoteAgent("pay", endpoint=url, auth=AuthConfig("api_key", "k"))
        assert (await keyed.run("hi", backend=mock_backend(remotes="real"))).text == "ok"


async def test_what_may_pass_is_tried_again() -> None:
    """A server that is not there yet is asked again; the answer says how often it was tried."""
    down = iter([503, 503])

    def make(port: int) -> Any:
        inner = plain(says("ok"))(port)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["method"] == "POST" and (status := next(down, None)):
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        return app

    async with listening(make) as url:
        far = RemoteAgent("far", endpoint=url, retry=RetryConfig(max_attempts=3, initial_delay=0.0))
        result = await far.run("hi", backend=mock_backend(remotes="real"))
    (tries,) = [
        e.metadata["adk_fluent.attempts"] for e in result if "adk_fluent.attempts" in (e.metadata or {})
    ]
    assert result.text == "ok"
    assert len(tries) == 2
    assert all("503" in told for told in tries)


async def test_a_server_that_has_changed_is_asked_for_its_card_again() -> None:
    """After a call that failed the next one reads the card anew: another server may be there by now."""
    asked: list[str] = []

    def make(port: int) -> Any:
        inner = plain(says("ok"))(port)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                asked.append(scope["method"])
                if asked == ["GET", "POST", "POST"]:
                    await send({"type": "http.response.start", "status": 404, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await inner(scope, receive, send)

        return app

    async with listening(make) as url:
        far, backend = RemoteAgent("far", endpoint=url), mock_backend(remotes="real")
        await far.run("hi", backend=backend)
        with pytest.raises(RemoteError, match="404"):
            await far.run("hi", backend=backend)
        assert (await far.run("hi", backend=backend)).text == "ok"
    assert asked == ["GET", "POST", "POST", "GET", "POST"]


@pytest.mark.newest  # ADK's servers do not cancel before
def test_a_call_that_takes_too_long_is_cancelled_on_the_other_side() -> None:
    """The time limit is real, the failure names it, and the remote task does not run on."""

    async def listen(far: RemoteAgent[str]) -> None:
        async for event in far.stream("hi", backend=mock_backend(remotes="real")):
            if event.is_partial:  # the rest never comes, and time passes while it is waited for
                asyncio.get_running_loop().call_soon(advance, 3600)

    async def call() -> None:
        clerk = says("Hel", "lo")
        model(clerk).wait_for(asyncio.Event())
        async with listening(plain(clerk, streaming=True)) as url:
            far = RemoteAgent("far", endpoint=url, timeout=3600)
            with pytest.raises(RemoteError, match="it did not answer within 3600 seconds"):
                await listen(far)
            await comes_true(lambda: model(clerk).left == ["cancelled"], "the task is cancelled")

    on_clock(call())


@pytest.mark.newest  # ADK's servers do not cancel before
async def test_leaving_a_stream_cancels_the_remote_task() -> None:
    """Whoever stops listening stops the work, here and there."""
    clerk = says("Hel", "lo")
    model(clerk).wait_for(asyncio.Event())
    async with listening(plain(clerk, streaming=True)) as url:
        events = RemoteAgent("far", endpoint=url).stream("hi", backend=mock_backend(remotes="real"))
        async for event in events:
            if event.is_partial:
                break
        await events.aclose()
        await comes_true(lambda: model(clerk).left == ["cancelled"], "the task is cancelled")


@pytest.mark.newest  # ADK's servers do not cancel before
async def test_of_calls_at_once_the_one_that_is_left_is_cancelled() -> None:
    """Calls of one agent share its connection; to leave one cancels its task, and the other is answered."""
    clerk, gate = says("ok"), asyncio.Event()
    model(clerk).wait_for(gate)
    async with listening(plain(clerk)) as url:
        far, backend = RemoteAgent("far", endpoint=url), mock_backend(remotes="real")
        left, kept = [asyncio.ensure_future(far.run(text, backend=backend)) for text in ("left", "kept")]
        while len(model(clerk).asked) < 2:
            await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await comes_true(lambda: model(clerk).left == ["cancelled"], "the task is cancelled")
        gate.set()
        assert (await kept).text == "ok"
    assert model(clerk).left == ["cancelled"]


# --- as a tool ------------------------------------------------------------------------------------


async def test_a_remote_agent_is_a_tool() -> None:
    """`T.a2a(url)` is called like a function with a request, and gives the answer."""
    clerk = says("It is open.")
    async with listening(plain(clerk)) as url:
        guide = Agent("guide").tools(T.a2a(url, name="museum"))
        script = mock_backend({"guide": [call_tool("museum", request="Open?"), "Yes."]}, remotes="real")
        result = await guide.run("Is the museum open?", backend=script)
    assert result.by("guide")[1].tool_responses[0].result == {"result": "It is open."}
    assert words(model(clerk).asked[0])[-1] == "Open?"
    assert result.text == "Yes."


# --- without a network ----------------------------------------------------------------------------


async def test_a_mock_answers_for_it_without_a_network() -> None:
    """Tests script a remote agent by its name, and see what it would have been sent."""
    backend = MockBackend({"pay": {"ok": True}, "near": "By hand."})
    pay = RemoteAgent("pay", endpoint="https://pay.example", fallback=Agent("near")).reads("intent") @ Receipt
    pipeline: Pipeline[Any] = S.set(intent="refund") >> pay.writes("receipt")
    result = await pipeline.run("hi", backend=backend)
    assert result.state["receipt"] == {"ok": True}
    assert result.output == Receipt(ok=True)
    assert sent(words(backend.calls["pay"][0])[-1]) == {"intent": "refund"}
    failing = MockBackend({"pay": ConnectionError("lost"), "near": "By hand."})
    assert (await pipeline.run("hi", backend=failing)).text == "By hand."


@pytest.mark.newest  # ADK's servers do not cancel before
def test_connections_are_closed_when_their_loop_ends() -> None:
    """Whether answered, failed or cancelled in the middle, no socket of a call outlives `asyncio.run`."""

    async def calls() -> None:
        clerk = says("Hel", "lo")
        async with listening(plain(clerk, streaming=True)) as url:
            far = RemoteAgent("far", endpoint=url)
            backend = mock_backend(remotes="real")
            await asyncio.gather(*(far.run("hi", backend=backend) for _ in range(8)))
            model(clerk).wait_for(asyncio.Event())
            hanging = [asyncio.ensure_future(far.run("hi", backend=backend)) for _ in range(4)]
            while len(model(clerk).asked) < 12:
                await asyncio.sleep(0)
            for each in hanging:
                each.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)

    left: list[object] = []

    class Loop(asyncio.SelectorEventLoop):
        def close(self) -> None:
            left.extend(open_in(self))
            super().close()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(calls())
    assert left == []


def counting(clients: set[object], make: Callable[[int], ASGIApp], port: int) -> ASGIApp:
    """An app that notes the addresses of its clients."""
    served = make(port)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            clients.add(scope["client"])
        await served(scope, receive, send)

    return app


async def test_the_client_closes_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so before servers do, also ours: a request that meets a closing server would be lost."""
    others = 5  # the seconds of uvicorn and Node.js
    assert connections.IDLE_SECONDS < others < served_here.IDLE_SECONDS
    opened: list[int] = []
    for seconds in (600.0, 0.0):
        monkeypatch.setattr(connections, "IDLE_SECONDS", seconds)
        clients = set[object]()
        async with listening(partial(counting, clients, plain(says("Hello.")))) as url:
            assert (await RemoteAgent("far", endpoint=url).run("hi")).text == "Hello."
        opened.append(len(clients))
    assert opened == [1, 2]  # a call reads the card, and sends the message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endpoint": "https://[::1"}, "takes an http or https URL"),
        ({"timeout": "5"}, "timeout= takes a positive number, not '5'"),
        ({"timeout": None}, "timeout= takes a positive number, not None"),
        ({"retry": 3}, r"retry= takes RetryConfig\(\.\.\.\), not int 3"),
        ({"auth": "token"}, r"auth= is an AuthConfig\(\.\.\.\), not str\."),
        ({"auth": AuthConfig()}, "the token of auth= is empty"),
        ({"input_schema": {"x": int}}, "input_schema= takes a pydantic model's class, not dict"),
        ({"output_schema": {"x": int}}, "output_schema= takes a type such as a pydantic model, not dict"),
        ({"fallback": "near"}, "fallback= takes an expression, not str 'near'"),
    ],
)
def test_options_are_checked_where_they_are_written(options: dict[str, Any], said: str) -> None:
    """What would fail at the first call, or be taken for something else, is refused at once."""
    with pytest.raises(ArgumentError, match=f"RemoteAgent 'far': .*{said}"):
        cast(Any, RemoteAgent)("far", **{"endpoint": "https://far.example", **options})


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (AuthConfig, {"type": "apikey", "token": "t"}, "is one of 'bearer', 'api_key', not 'apikey'"),
        (AuthConfig, {"token": "t\n"}, r"Was it read from a file\? Add \.strip\(\)"),
        (AuthConfig, {"token": "é"}, "printable ASCII"),
        (AuthConfig, {"token": None}, "takes text, not NoneType"),
        (RetryConfig, {"max_attempts": 0}, "takes a whole number from 1, not 0"),
        (RetryConfig, {"max_attempts": 2.5}, "takes a whole number from 1, not 2.5"),
        (RetryConfig, {"initial_delay": -1}, "takes seconds from 0, not -1"),
    ],
)
def test_credentials_and_tries_are_checked(kind: type, values: dict[str, Any], said: str) -> None:
    """A type that there is not, a token that no header carries, and no tries: nobody finds out at a call."""
    with pytest.raises(ArgumentError, match=said) as error:
        kind(**values)
    assert "é" not in str(error.value)
