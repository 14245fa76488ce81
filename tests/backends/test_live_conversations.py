"""`expr.live()`: ADK's bidirectional streaming, against Gemini's live protocol and against scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from google.adk.models import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import A as files
from adk_fluent import (
    Agent,
    C,
    FanOut,
    Loop,
    Pipeline,
    Route,
    S,
    StateSchema,
    T,
    gate,
    map_over,
    race,
    tap,
    transfer,
)
from adk_fluent.backends.adk.steps.scripted_live import ScriptedLine
from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig
from adk_fluent.di import Resource
from adk_fluent.errors import (
    ArgumentError,
    BackendError,
    ModelError,
    SessionError,
    StateTypeError,
    ToolError,
    UnsupportedNodeError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.expr.conversations import Live
from adk_fluent.middleware import CallTool, Context, Middleware, tool_approval
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.live_server import LiveGemini, Message, content, serving, spoken
from tests.backends.support import seen
from tests.clock import without_pauses
from tests.limits import within_limit


class Counted(StateSchema):
    """A schema that is bound."""

    count: int


A = Agent("a")
X, Y = Agent("x"), Agent("y")


async def turn(live: Live) -> list[AgentEvent]:
    """The events until the model has said what it has to say."""
    events: list[AgentEvent] = []
    async for event in live:
        events.append(event)
        if event.turn_complete:
            break
    return events


def said(events: list[AgentEvent]) -> list[tuple[str, str]]:
    """Who said what, whole answers only."""
    return [(event.author, event.content) for event in events if event.content and not event.is_partial]


# --- Gemini's protocol ----------------------------------------------------------------------------


def by_adk(test: Any) -> Any:
    """Let pass what ADK itself does that Google's client warns of: how it sends, how it names modalities."""
    for warning in ("The `session.send` method:DeprecationWarning", "Pydantic serializer:UserWarning"):
        test = pytest.mark.filterwarnings(f"ignore:{warning}")(test)
    return test


def aloud(told: Message) -> Iterable[Message]:
    """A model that speaks: sound, and what it says in words."""
    if "realtimeInput" in told or "realtime_input" in told:
        yield content(inputTranscription={"text": "good morning"})
        yield content(interrupted=True)
        return
    yield content(outputTranscription={"text": "Hello "})
    yield spoken(b"abcd")
    yield content(outputTranscription={"text": "there."})
    yield content(turnComplete=True)


@by_adk
async def test_a_conversation_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text and sound go to the model by Google's own client; sound, words and interruptions come back."""
    async with serving(LiveGemini(aloud), tmp_path, monkeypatch) as gemini:
        agent = Agent("a", "gemini-live-test").instruct("Be brief.")
        async with agent.live() as live:
            await live.send("hi")
            first = await turn(live)
            assert gemini.open == 1
            await live.send(types.Blob(data=b"sound", mime_type="audio/pcm;rate=16000"))
            second: list[AgentEvent] = []
            async for event in live:
                second.append(event)
                if event.interrupted:
                    break
    assert [part.inline_data.data for event in first for part in event.parts if part.inline_data] == [b"abcd"]
    words = [event.output_transcription for event in first if event.output_transcription and event.is_partial]
    assert "".join(words) == "Hello there."
    assert "good morning" in [event.input_transcription for event in second]
    assert first[-1].turn_complete
    (setup,) = gemini.setups
    assert "Be brief." in str(setup)
    assert "AUDIO" in str(setup)
    assert "hi" in str(gemini.heard[0])


@by_adk
async def test_text_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `modality="text"` the model is asked for text, which comes in pieces and then whole."""

    def answer(told: Message) -> Iterable[Message]:
        for piece in ("Good ", "day."):
            yield content(modelTurn={"role": "model", "parts": [{"text": piece}]})
        yield content(turnComplete=True)

    async with (
        serving(LiveGemini(answer), tmp_path, monkeypatch) as gemini,
        Agent("a", "gemini-live-test").writes("answer").live(modality="text") as live,
    ):
        await live.send("hi")
        events = await turn(live)
    assert [event.content for event in events if event.is_partial] == ["Good ", "day."]
    assert said(events) == [("a", "Good day.")]
    assert "TEXT" in str(gemini.setups)


@by_adk
async def test_a_tool_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that the model calls runs, and its result goes back on the same connection."""
    looked: list[str] = []

    def look(word: str) -> str:
        """Look a word up."""
        looked.append(word)
        return "found"

    def answer(told: Message) -> Iterable[Message]:
        if "toolResponse" in told or "tool_response" in told:
            yield content(modelTurn={"role": "model", "parts": [{"text": "It is there."}]})
            yield content(turnComplete=True)
        else:
            yield {"toolCall": {"functionCalls": [{"id": "1", "name": "look", "args": {"word": "tea"}}]}}
            yield content(turnComplete=True)  # as models do that wait for the result then

    async with (
        serving(LiveGemini(answer), tmp_path, monkeypatch) as gemini,
        Agent("a", "gemini-live-test").tool(look).live(modality="text") as live,
    ):
        await live.send("tea?")
        events = [*await turn(live), *await turn(live)]
    assert looked == ["tea"]
    assert "found" in str(gemini.heard)
    assert [call.tool_name for event in events for call in event.tool_calls] == ["look"]
    assert said(events)[-1] == ("a", "It is there.")


# --- scripts --------------------------------------------------------------------------------------


async def test_turn_after_turn() -> None:
    """A later loop goes on where an earlier one was left; each message is answered."""
    backend = mock_backend({"a": ["Hello there.", "Bye."]})
    async with A.live(backend=backend, modality="text") as live:
        await live.send("hi")
        assert said(await turn(live)) == [("a", "Hello there.")]
        await live.send(types.Blob(data=b"x", mime_type="audio/pcm"))
        assert said(await turn(live)) == [("a", "Bye.")]
    assert len(backend.calls["a"]) == 2
    assert "hi" in seen(backend.calls["a"][1])


async def test_sending_while_listening() -> None:
    """One task sends while another listens."""
    backend = mock_backend({"a": ["one", "two", "three"]})
    told: list[str] = []

    async def speak(live: Live) -> None:
        for word in "abc":
            await live.send(word)

    async with A.live(backend=backend, modality="text") as live:
        speaking = asyncio.ensure_future(speak(live))
        async for event in live:
            told += [event.content or ""] * event.is_final
            if told[-1:] == ["three"] and event.turn_complete:
                break
        await speaking
    assert told == ["one", "two", "three"]


@without_pauses  # ADK takes a second to hand over
async def test_a_sequence_hands_over() -> None:
    """Each agent of a sequence speaks until it calls `task_completed`; state gets from one to the next."""
    done = call_tool("task_completed")
    backend = mock_backend({"a": ["first", done], "b": ["second", done]})
    pipeline = A.writes("x") >> S.compute(n=lambda state: len(state["x"])) >> Agent("b").instruct("{n}")
    events: list[AgentEvent] = []
    async with pipeline.live(backend=backend, modality="text") as live:
        await live.send("hi")
        async for event in live:
            events.append(event)
            if event.turn_complete:
                await live.send("go on")
        with pytest.raises(SessionError, match="is over; call live"):
            await live.send("more")
    assert said(events) == [("a", "first"), ("b", "second")]


@without_pauses  # ADK takes a second to hand over
async def test_artifacts_are_at_hand() -> None:
    """Artifact steps, tools and templates do in a live conversation what they do in any other run."""
    done = call_tool("task_completed")
    saving = call_tool("save_artifact", filename="plan.md", content="# Plan")
    backend = mock_backend({"a": ["# Tea", done], "b": [saving, "sent"]})
    mailer = Agent("b").context(C.default() + files.for_llm("report.md")).tools(files.tool.save())
    pipeline = (
        A.writes("report").artifacts(files.publish("report.md"))
        >> files.snapshot("report.md", into_key="copy")
        >> mailer.instruct("{copy} {artifact.report.md}")
    )
    events: list[AgentEvent] = []
    async with pipeline.live(backend=backend, modality="text") as live:
        for message in ("hi", "go on"):
            await live.send(message)
            events += await turn(live)
    assert [event.artifact_delta for event in events if event.artifact_delta] == [
        {"report.md": 0},
        {"plan.md": 0},
    ]
    request: Any = backend.calls["b"][0]
    assert str(request.config.system_instruction).startswith("# Tea # Tea")
    assert "Artifact report.md is:" in seen(request)


async def test_an_expression_as_a_tool() -> None:
    """What cannot run live itself can as a tool: its events are told, and what it writes is in the state."""
    rounds = Loop(X.writes("found"), max_iterations=2).named("rounds")
    backend = mock_backend({"a": [call_tool("rounds", request="dig"), "done"], "x": ["sand", "gold"]})
    async with A.tools(T.agent(rounds)).live(backend=backend, modality="text", session_id="s") as live:
        await live.send("hi")
        assert said(await turn(live)) == [("x", "sand"), ("x", "gold"), ("a", "done")]
    assert (await A.run("hi", backend=backend, session_id="s")).state == {"found": "gold"}


async def test_what_a_tool_gives_is_checked() -> None:
    """A result that cannot be stored names agent and tool, as in any other run."""

    def look() -> object:
        """Look."""
        return object()

    backend = mock_backend({"a": [call_tool("look"), "seen"]})
    async with A.tool(look).live(backend=backend, modality="text") as live:
        await live.send("hi")
        with pytest.raises(ToolError, match="Agent 'a': what its tool 'look' returned cannot be stored"):
            await turn(live)


@without_pauses  # ADK takes a second to hand over
async def test_resources_are_given() -> None:
    """Tools, callbacks and steps are given what is injected; it is closed when the conversation ends."""
    log: list[str] = []

    @contextmanager
    def open_shop() -> Generator[str]:
        log.append("open")
        yield "shop"
        log.append("closed")

    def price(article: str, shop: str) -> str:
        """The price of an article."""
        return f"{article} of the {shop}"

    def before(callback_context: Any, shop: str) -> None:
        log.append(f"before {shop}")

    def step(state: Any, shop: str) -> dict[str, str]:
        return {"x": shop}

    done = call_tool("task_completed")
    backend = mock_backend({"a": [call_tool("price", article="tea"), "ok", done]})
    agent: Any = A.tool(price).before_agent(cast(Any, before))
    pipeline = (agent >> step).inject(shop=Resource(open_shop, scope="invocation", in_thread=False))
    async with pipeline.live(backend=backend, modality="text", session_id="s") as live:
        await live.send("hi")
        (answer,) = [response for event in await turn(live) for response in event.tool_responses]
        assert answer.result == {"result": "tea of the shop"}
        assert log == ["open", "before shop"]
        await live.send("go on")
        assert [event.state_delta async for event in live if event.state_delta] == [{"x": "shop"}]
    assert log == ["open", "before shop", "closed"]


@without_pauses  # ADK takes a second to hand over
async def test_a_schema_is_kept_to() -> None:
    """What a bound schema does not allow is refused in a live conversation, too."""
    backend = mock_backend({"a": [call_tool("task_completed")]})
    pipeline = (A >> S.set(count="many")).schema(Counted)
    async with pipeline.live(backend=backend, modality="text") as live:
        await live.send("hi")
        with pytest.raises(StateTypeError, match="count"):
            await turn(live)


async def test_tools_run() -> None:
    """A tool that a script calls runs, and the answer follows."""
    backend = mock_backend({"a": [call_tool("look"), "seen"]})
    ran: list[int] = []

    def look() -> str:
        """Look."""
        ran.append(1)
        return "there"

    async with A.tool(look).live(backend=backend, modality="text") as live:
        await live.send("hi")
        assert said(await turn(live)) == [("a", "seen")]
    assert ran == [1]


async def test_what_was_said_is_there_later() -> None:
    """A named session keeps the conversation, and a `run` in it sees what was said."""
    service = InMemorySessionService()
    backend = mock_backend({"a": ["in person", "in writing"]}, session_service=service)
    async with A.live(backend=backend, modality="text", session_id="s", state={"k": 1}) as live:
        await live.send("hi")
        await turn(live)
    result = await A.run("and now?", backend=backend, session_id="s")
    assert result.state["k"] == 1
    assert "in person" in seen(backend.calls["a"][-1])
    with pytest.raises(SessionError, match=r"live\(state=\) is for the start"):
        async with A.live(backend=backend, session_id="s", state={"k": 2}):
            """It has begun."""


async def test_a_session_that_nobody_named_is_forgotten() -> None:
    """After the conversation its session is gone, unless it has a name."""
    service = InMemorySessionService()
    backend = mock_backend({"a": "ok"}, session_service=service)
    async with A.live(backend=backend, modality="text") as live:
        await live.send("hi")
        await turn(live)
    assert (await service.list_sessions(app_name="adk_fluent_app", user_id="user")).sessions == []


async def test_filtered_words_are_blanked() -> None:
    """What a policy keeps from the user is taken out of live events, too."""
    backend = mock_backend({"a": "secret"})
    async with A.hide().filtered().live(backend=backend, modality="text") as live:
        await live.send("hi")
        assert said(await turn(live)) == []


async def test_hanging_up_ends_the_model() -> None:
    """Leaving the block closes the connection while the model still speaks."""
    ended: list[str] = []

    async def endless(request: LlmRequest) -> AsyncIterator[str]:
        try:
            while True:
                yield "word "
        finally:
            ended.append("closed")

    async with A.live(backend=mock_backend({"a": endless}), modality="text") as live:
        await live.send("hi")
        async for event in live:
            assert event.content == "word "
            break
    assert ended == ["closed"]


# --- leaving while another task reads -------------------------------------------------------------


class Speaking:
    """A model that begins to speak, and then says nothing more until it is ended."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), 0

    async def __call__(self, request: LlmRequest) -> AsyncIterator[str]:
        try:
            yield "word "
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.ended += 1


async def read(live: Live) -> list[str]:
    """What is said until the conversation ends."""
    return [event.content or "" async for event in live]


@pytest.mark.parametrize("leave", ["async with", "aclose", "aclose twice", "aclose by several"])
async def test_leaving_ends_the_reader(leave: str) -> None:
    """Whoever leaves, the connection is closed, and the loop of another task ends without an error."""
    speaking, service = Speaking(), InMemorySessionService()
    backend = mock_backend({"a": speaking}, session_service=service)
    async with A.live(backend=backend, modality="text") as live:
        await live.send("hi")
        reading = asyncio.ensure_future(read(live))
        await within_limit(speaking.begun.wait())
        if leave != "async with":
            times = 2 if leave == "aclose by several" else 1
            await within_limit(asyncio.gather(*[live.aclose() for _ in range(times)]))
        if leave == "aclose twice":
            await within_limit(live.aclose())
    assert speaking.ended == 1
    assert await within_limit(reading) == ["word "]
    assert (await service.list_sessions(app_name="adk_fluent_app", user_id="user")).sessions == []
    with pytest.raises(SessionError, match="conversation is closed; call live"):
        await live.send("more")


async def test_leaving_ends_a_loop_that_is_at_an_event() -> None:
    """A loop whose body works on an event when another task leaves ends after that, without an error."""
    has_event, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(live: Live) -> list[str]:
        heard: list[str] = []
        async for event in live:
            heard.append(event.content or "")
            has_event.set()
            await go_on.wait()
        return heard

    async with A.live(backend=mock_backend({"a": ["one", "two"]}), modality="text") as live:
        reading = asyncio.ensure_future(slowly(live))
        await live.send("hi")
        await within_limit(has_event.wait())
    go_on.set()
    assert await within_limit(reading) == ["one"]


async def test_an_error_in_the_body_closes_the_conversation() -> None:
    """The error of the body leaves as it is; the connection is closed, and the loop of another task ends."""
    speaking = Speaking()
    readers: list[asyncio.Task[list[str]]] = []

    async def failing() -> None:
        async with A.live(backend=mock_backend({"a": speaking}), modality="text") as live:
            readers.append(asyncio.ensure_future(read(live)))
            await live.send("hi")
            await within_limit(speaking.begun.wait())
            raise ValueError("body")

    with pytest.raises(ValueError, match=r"^body$"):
        await failing()
    assert await within_limit(readers[0]) == ["word "]
    assert speaking.ended == 1


async def test_several_conversations_at_once() -> None:
    """Conversations of one expression hear their own answers alone, also in turns that overlap."""

    async def talk(number: int) -> list[tuple[str, str]]:
        backend = mock_backend({"a": [f"one {number}", f"two {number}"]})
        async with A.live(backend=backend, modality="text") as live:
            await live.send("hi")
            first = await turn(live)
            await live.send("more")
            return said(first + await turn(live))

    heard = await within_limit(asyncio.gather(*map(talk, range(4))))
    assert heard == [[("a", f"one {number}"), ("a", f"two {number}")] for number in range(4)]


@by_adk
async def test_leaving_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's client hangs up, too, while another task waits for what the model says next."""
    async with serving(LiveGemini(lambda told: ()), tmp_path, monkeypatch) as gemini:
        async with Agent("a", "gemini-live-test").live(modality="text") as live:
            reading = asyncio.ensure_future(read(live))
            await live.send("hi")
            await within_limit(until(lambda: bool(gemini.heard)))
            assert gemini.open == 1
        assert await within_limit(reading) == []
        await within_limit(until(lambda: gemini.open == 0))


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks go on until something holds."""
    while not holds():
        await asyncio.sleep(0.001)


async def test_a_tool_can_leave() -> None:
    """A tool of the agent may hang up, too: the loop that runs it ends."""
    kept: list[Live] = []

    async def hang_up() -> None:
        """Hang up."""
        await kept[0].aclose()

    backend = mock_backend({"a": [call_tool("hang_up"), "not said"]})
    async with A.tool(hang_up).live(backend=backend, modality="text") as live:
        kept.append(live)
        await live.send("bye")
        assert await within_limit(read(live)) == [""]
        with pytest.raises(SessionError, match="conversation is closed"):
            await live.send("more")


async def test_several_readers_are_refused() -> None:
    """A second task that reads gets one clear line, and the first one goes on."""
    speaking = Speaking()
    async with A.live(backend=mock_backend({"a": speaking}), modality="text") as live:
        await live.send("hi")
        reading = asyncio.ensure_future(read(live))
        await within_limit(speaking.begun.wait())
        with pytest.raises(SessionError, match="Another task reads this live conversation already"):
            await anext(live)
    assert await within_limit(reading) == ["word "]


async def test_a_read_that_is_cancelled_loses_nothing() -> None:
    """A read that is given up, as by a time limit, leaves its event to the next one."""
    go_on = asyncio.Event()

    async def slow(request: LlmRequest) -> AsyncIterator[str]:
        await go_on.wait()
        yield "late"

    async with A.live(backend=mock_backend({"a": slow}), modality="text") as live:
        await live.send("hi")
        reading = asyncio.ensure_future(anext(live))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        go_on.set()
        assert said(await within_limit(turn(live))) == [("a", "late")]


async def test_errors_have_the_result() -> None:
    """An error that ends a live conversation has what happened until then, as in any other run."""

    def look() -> object:
        """Look."""
        return object()

    backend = mock_backend({"a": ["Hello.", call_tool("look")]})
    async with A.writes("said").tool(look).live(backend=backend, modality="text", state={"k": 1}) as live:
        await live.send("hi")
        await turn(live)
        await live.send("look")
        with pytest.raises(ToolError) as caught:
            await turn(live)
    result = caught.value.result
    assert result is not None
    assert result.text == "Hello."
    assert result.state == {"k": 1, "said": "Hello."}
    assert result.session_id == live.session_id


async def aiter_of_nothing() -> AsyncIterator[AgentEvent]:
    """No events."""
    return
    yield AgentEvent("nobody")


# --- what cannot be -------------------------------------------------------------------------------

OTHERS: dict[str, Expr[Any]] = {
    "loop": Loop(X, Y, max_iterations=2),
    "parallel": FanOut(X, Y),
    "first_complete": FanOut(X, Y, merge="first_complete"),
    "route": Route("k").eq(1, X).otherwise(Y),
    "fallback": X // Y,
    "race": race(X, Y),
    "map": map_over("items", X),
    "timeout": X.timeout(60),
    "gate": gate(lambda state: True),
    "transfer": X >> transfer("x"),
    "chunks": X.stream_to("chunked") >> Y,
    "tokens": X.stream_to("token") >> tap(print),
    "delegated": Agent("boss").delegate(FanOut("desk", X, Y)),
    "inside": A >> Pipeline("p", X, Y // Agent("z")),
    "asking": A >> X.tool(print, require_confirmation=True),
    "approving": (A >> X.tool(print)).middleware(tool_approval(["print"])),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_what_cannot_run_live_is_named_first(kind: str) -> None:
    """What ADK cannot run live is named, with what to do, before anything runs."""
    backend = mock_backend(default="ok")
    with pytest.raises(UnsupportedNodeError, match="live conversation") as caught:
        async with OTHERS[kind].live(backend=backend, state={"items": ["x"]}):
            """It does not open."""
    assert "\n" not in str(caught.value)
    assert ("pieces" in str(caught.value)) is (kind in ("chunks", "tokens"))
    assert backend.calls == {}


async def test_a_limit_of_the_whole_cannot_be_either() -> None:
    """`ExecutionConfig(timeout_seconds=)` is named as what stands in the way."""
    config = ExecutionConfig(timeout_seconds=5)
    with pytest.raises(UnsupportedNodeError, match=r"ExecutionConfig\(timeout_seconds=\)"):
        async with A.live(backend=mock_backend(default="ok"), config=config):
            """It does not open."""


class Broken(BaseLlm):
    """A model whose live connection cannot be opened, or breaks when it is listened to."""

    opens: bool = False

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        if not self.opens:
            raise ConnectionError("refused")
        yield cast(BaseLlmConnection, BrokenLine(llm_request, cast(Any, None)))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        raise AssertionError("nothing is generated in a live conversation")
        yield


class BrokenLine(ScriptedLine):
    """Such a connection."""

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        raise ConnectionError("dropped")
        yield


@pytest.mark.parametrize(("opens", "told"), [(False, "refused"), (True, "dropped")])
@pytest.mark.parametrize("watched", [False, True])
async def test_a_connection_that_fails_names_its_agent(opens: bool, told: str, watched: bool) -> None:
    """As in any other run, one line says whose model it was; then nobody hears what is sent."""

    class Watches(Middleware):
        async def around_tool(
            self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool
        ) -> Any:
            return await call(args)

    agent = Agent("guide", Broken(model="live-1", opens=opens)).middleware(*[Watches()] * watched)
    async with agent.live(modality="text") as live:
        await live.send("hi")
        with pytest.raises(ModelError) as caught:
            await anext(live)
        with pytest.raises(SessionError, match="conversation is over; call live"):
            await live.send("still there?")
    assert str(caught.value) == (
        f"Agent 'guide' got no answer from its model 'live-1': ConnectionError: {told}."
    )


async def test_sending_when_it_is_not_open() -> None:
    """Before it begins and after it is closed, sending and listening say so in one line."""
    live = A.live(backend=mock_backend(default="ok"), modality="text")
    with pytest.raises(SessionError, match="not open; write `async with"):
        await live.send("hi")
    async with live:
        with pytest.raises(ArgumentError):
            await live.send(5)
        with pytest.raises(ArgumentError):
            await live.send("")
    for doing in (live.send("hi"), anext(live)):
        with pytest.raises(SessionError, match="is closed; call live"):
            await doing
    await live.aclose()
    with pytest.raises(SessionError, match="opened already"):
        async with live:
            """It does not open again."""


def test_what_it_takes() -> None:
    """A modality that there is not is one clear line."""
    with pytest.raises(ArgumentError, match=r"live\(modality=\) is 'audio' or 'text', not 'txt'"):
        A.live(modality="txt")  # pyright: ignore[reportArgumentType]  # the point


async def test_a_backend_that_holds_none() -> None:
    """A backend without live conversations is named."""

    class Plain:
        def compile(self, node: Any, config: Any = None) -> Any: ...
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return []

        def stream(self, compiled: Any, prompt: Any, *_: Any, **options: Any) -> AsyncIterator[AgentEvent]:
            return aiter_of_nothing()

    with pytest.raises(BackendError, match="Plain has no live conversations"):
        async with A.live(backend=Plain()):
            """It does not open."""
