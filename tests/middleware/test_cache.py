"""`cache`: the same request is answered once, exactly, as it was answered, and nothing else is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from adk_fluent import Agent
from adk_fluent.cost import Price
from adk_fluent.errors import ArgumentError, RunError
from adk_fluent.middleware import (
    Cache,
    Context,
    Middleware,
    cache,
    cost_attribution,
    fallback_model,
    token_budget,
)
from adk_fluent.middleware.caching import key_of
from adk_fluent.middleware.protocol import CallModel
from adk_fluent.middleware.stores import MemoryStore
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import PlainLlm, failing, reply
from tests.clock import still, without_pauses
from tests.limits import LIMIT
from tests.services import redis_server

A = Agent("a", "m")


class Size(BaseModel):
    size: int


class Colour(BaseModel):
    colour: str


def counting() -> MockBackend:
    """A model that says how often it was asked; its answers go to the real store."""
    return mock_backend({"a": [f"answer {n}" for n in range(1, 20)]}, stores="real")


async def answers(agent: Agent[Any], backend: MockBackend, *prompts: Any) -> list[str]:
    """What is answered to each prompt, each in a session of its own."""
    return [(await agent.run(prompt, backend=backend)).text for prompt in prompts]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server for the tests of this file."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield f"{url}?socket_timeout={LIMIT:g}"  # not the two seconds of the library


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_hit_reports_that_nothing_was_used(streaming: bool, caplog: pytest.LogCaptureFixture) -> None:
    """ADK logs no warning at a hit, and middleware around the cache counts no tokens and no call for it."""
    costs, budget = cost_attribution(prices={"m": Price.per_million(input=1, output=1)}), token_budget(100)
    backend = mock_backend({"a": "word " * 100})
    agent = A.instruct("x" * 200).middleware(costs, cache())
    for number in range(2):
        caplog.clear()
        asked = agent if number == 0 else agent.middleware(budget)
        async for event in asked.stream("hi", backend=backend) if streaming else _run(asked, backend):
            assert number == 0 or event.usage is None
    assert len(backend.calls["a"]) == 1
    assert not [record for record in caplog.records if "usage" in record.getMessage()]
    assert costs.spent["a", "m"].calls == 1


async def _run(agent: Agent[Any], backend: MockBackend) -> AsyncGenerator[Any, None]:
    for event in await agent.run("hi", backend=backend):
        yield event


async def test_an_answer_that_ended_in_the_middle_is_not_kept() -> None:
    """A stream that ends after a piece, without the whole answer, is asked for anew each time."""
    asked = list[int]()

    async def ends(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        asked.append(1)
        yield reply("One ", partial=True)
        if len(asked) == 3:
            yield reply("One two.")

    kept = cache()
    agent = Agent("a", PlainLlm.of(ends)).middleware(kept)
    for _ in range(4):
        async for _ in agent.stream("hi"):
            pass
    assert (len(asked), kept.hits) == (3, 1)


# --- what is the same -----------------------------------------------------------------------------


async def test_the_same_request_is_answered_once() -> None:
    """The second time the store answers: the model is not asked, and no tokens are reported."""
    kept, backend = cache(), counting()
    first = await A.middleware(kept).run("hi", backend=backend)
    second = await A.middleware(kept).run("hi", backend=backend)
    assert (first.text, second.text, len(backend.calls["a"])) == ("answer 1", "answer 1", 1)
    assert (kept.hits, kept.misses) == (1, 1)
    assert sum(usage.input_tokens for usage in first.usage.values()) > 0
    assert sum(usage.input_tokens for usage in second.usage.values()) == 0
    assert second.by("a")[0].metadata["adk_fluent.cached"] is True
    assert "adk_fluent.cached" not in first.by("a")[0].metadata


def request(**changes: Any) -> LlmRequest:
    """A request with everything in it."""
    declared = types.FunctionDeclaration(name="f", description="d")
    parts = [
        types.Part(text="hi"),
        types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
    ]
    config = types.GenerateContentConfig(
        system_instruction=changes.pop("system", "be kind"),
        tools=[types.Tool(function_declarations=[changes.pop("tool", declared)])],
        temperature=changes.pop("temperature", 0.5),
        response_schema=changes.pop("schema", Size),
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                threshold=changes.pop("threshold", types.HarmBlockThreshold.BLOCK_NONE),
            )
        ],
        labels=changes.pop("labels", None),
    )
    contents = [types.Content(role=changes.pop("role", "user"), parts=changes.pop("parts", parts))]
    return LlmRequest(model=changes.pop("model", "m"), contents=contents, config=config, **changes)


OTHER: list[dict[str, Any]] = [
    {"model": "n"},
    {"system": "be brief"},
    {"tool": types.FunctionDeclaration(name="g", description="d")},
    {"tool": types.FunctionDeclaration(name="f", description="e")},
    {"temperature": 0.6},
    {"temperature": None},
    {"schema": Colour},
    {"schema": None},
    {"threshold": types.HarmBlockThreshold.BLOCK_ONLY_HIGH},
    {"labels": {"a": "b"}},
    {"role": "model"},
    {"parts": [types.Part(text="ho")]},
    {"parts": [types.Part(text="hi"), types.Part.from_bytes(data=b"\x00\xfe", mime_type="image/png")]},
    {"parts": [types.Part(text="hi"), types.Part.from_bytes(data=b"\x00\xff", mime_type="image/gif")]},
    {"parts": [types.Part(function_call=types.FunctionCall(name="f", args={"x": 1}))]},
    {"parts": [types.Part(function_call=types.FunctionCall(name="f", args={"x": "1"}))]},
    {"parts": [types.Part(function_call=types.FunctionCall(name="f", args={"x": True}))]},
    {"parts": [types.Part(text="hi", thought=True)]},
]  # fmt: skip


@pytest.mark.parametrize("change", OTHER)
def test_a_request_that_differs_in_anything_has_another_key(change: dict[str, Any]) -> None:
    """Model, instruction, tools, schema, options, roles, texts, images, arguments: each of them counts."""
    assert key_of(request()) == key_of(request())
    assert key_of(request()) != key_of(request(**change))


def test_all_keys_differ() -> None:
    """None of them is taken for another, and a stream is none of the whole answers."""
    keys = {key_of(request(**dict(change))) for change in [{}, *OTHER]}
    assert len(keys) == 1 + len(OTHER)
    assert key_of(request(), streaming=True) not in keys


@given(
    st.dictionaries(st.text(max_size=3), st.none() | st.booleans() | st.integers() | st.text(max_size=3)),
    st.dictionaries(st.text(max_size=3), st.none() | st.booleans() | st.integers() | st.text(max_size=3)),
)
def test_keys_are_equal_for_equal_arguments_alone(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two tool calls have one key if their arguments are written as the same JSON, and else not."""

    def key(args: dict[str, Any]) -> str | None:
        part = types.Part(function_call=types.FunctionCall(name="f", args=args))
        return key_of(request(parts=[part]))

    assert (key(one) == key(other)) == (json.dumps(one) == json.dumps(other))


async def test_what_cannot_be_compared_is_not_kept() -> None:
    """A request with a value of an unknown class has no key, and the model is asked each time."""

    class Odd(types.GenerateContentConfig):
        odd: Any = None

    made = request()
    made.config = Odd(odd=object())
    assert key_of(made) is None


async def test_each_turn_of_a_conversation_is_a_request_of_its_own() -> None:
    """What was said before belongs to the request, and a conversation that goes the same way is replayed."""
    kept = cache()
    backend = counting()
    agent = A.middleware(kept)
    for _ in range(2):
        async with agent.session(backend=backend) as chat:
            said = [(await chat.send(prompt)).text for prompt in ("hi", "hi", "bye")]
        assert said == ["answer 1", "answer 2", "answer 3"]
    assert len(backend.calls["a"]) == 3


async def test_tool_calls_are_replayed_and_run() -> None:
    """A stored answer that calls a tool calls it again: the tool really runs, the model is not asked."""
    rung: list[str] = []

    def ring(bell: str) -> str:
        """Ring."""
        rung.append(bell)
        return "rung"

    backend = mock_backend({"a": [call_tool("ring", bell="x"), "done", "not asked"]})
    agent = A.tool(ring).middleware(cache())
    assert await answers(agent, backend, "go", "go") == ["done", "done"]
    assert rung == ["x", "x"]
    assert len(backend.calls["a"]) == 2


async def test_a_replay_says_no_price() -> None:
    """It was not paid for again."""
    prices = {"m": Price.per_million(input=1, output=2)}
    agent, backend = A.middleware(cache(), cost_attribution(prices=prices)), counting()
    events = [(await agent.run("hi", backend=backend)).by("a")[0] for _ in range(2)]
    assert ["adk_fluent.cost_usd" in event.metadata for event in events] == [True, False]


async def test_another_model_is_another_request() -> None:
    """What a fallback model answered is not given for what the first model would say."""
    kept = cache()
    agent = A.middleware(fallback_model("other"), kept)
    backend = mock_backend({"a": [ConnectionError("down"), "a again"], "other": "other says"})
    assert await answers(agent, backend, "hi", "hi", "hi") == ["other says", "a again", "a again"]


# --- streams --------------------------------------------------------------------------------------


async def chunks(request: LlmRequest) -> AsyncGenerator[str, None]:
    """An answer in pieces."""
    for piece in ("One ", "two ", "three."):
        yield piece


async def pieces(agent: Agent[Any], backend: MockBackend) -> list[tuple[str, bool]]:
    """What a streaming user gets: each piece, and whether it is one."""
    async with aclosing(agent.stream("hi", backend=backend)) as events:
        return [(event.content, event.is_partial) async for event in events if event.content]


async def test_a_stream_is_replayed_as_a_stream() -> None:
    """The pieces come again as they came, and then the whole."""
    backend = mock_backend({"a": [chunks, "not asked"]})
    agent = A.middleware(cache())
    first, second = await pieces(agent, backend), await pieces(agent, backend)
    assert first == second == [("One ", True), ("two ", True), ("three.", True), ("One two three.", False)]
    assert len(backend.calls["a"]) == 1


async def test_pieces_are_given_to_streams_alone() -> None:
    """A run that does not stream gets no pieces from a stream that was stored, and is asked for itself."""
    backend = mock_backend({"a": [chunks, "whole"]})
    agent = A.middleware(cache())
    await pieces(agent, backend)
    result = await agent.run("hi", backend=backend)
    assert (result.text, [event for event in result if event.is_partial]) == ("whole", [])


async def breaks_off(request: LlmRequest) -> AsyncGenerator[str, None]:
    """A stream that breaks."""
    yield "One "
    raise ConnectionError("lost")


@pytest.mark.parametrize(
    "bad", [ConnectionError("down"), failing(), breaks_off, reply("cut", interrupted=True)]
)
async def test_what_is_no_answer_is_not_kept(bad: Any) -> None:
    """Errors, error responses, and what broke off or was interrupted are asked for again."""
    backend = mock_backend({"a": [bad, "answer"]})
    agent = A.middleware(cache())
    with suppress(RunError):
        await agent.run("hi", backend=backend)
    assert (await agent.run("hi", backend=backend)).text == "answer"


@pytest.mark.parametrize("leave", [True, False])
async def test_an_answer_that_nobody_waited_for_is_not_kept(leave: bool) -> None:
    """A run that is cancelled, or whose reader leaves, in the middle of an answer leaves nothing."""
    waiting = asyncio.Event()

    async def slow(request: LlmRequest) -> AsyncGenerator[str, None]:
        yield "One "
        waiting.set()
        await asyncio.Event().wait()

    backend = mock_backend({"a": [slow, "answer"]})
    agent = A.middleware(cache())
    if leave:
        async with aclosing(agent.stream("hi", backend=backend)) as events:
            await anext(events)
    else:
        run = asyncio.ensure_future(pieces(agent, backend))
        await waiting.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert (await pieces(agent, backend))[-1] == ("answer", False)


# --- the same at the same time --------------------------------------------------------------------


class Busy:
    """A model whose answers wait for `go`, which a failure takes back.

    Attributes:
        asked: set when it is asked; `calls` is how often it was.
    """

    def __init__(self, *first: object) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.calls = 0
        self._first = list(first)

    async def __call__(self, request: LlmRequest) -> AsyncGenerator[Any, None]:
        self.calls += 1
        number = self.calls
        self.asked.set()
        yield f"answer {number}: "
        await self.go.wait()
        if self._first and isinstance(problem := self._first.pop(0), Exception):
            self.go.clear()
            raise problem
        yield "well"


class Door(Middleware):
    """Stands before the cache, knows when so many have gone in, and may let nothing out to the first."""

    def __init__(self, many: int, *, holds: bool = False) -> None:
        self.all_in, self.opens = asyncio.Event(), asyncio.Event()
        self._many, self._holds = many, holds

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncGenerator[LlmResponse, None]:
        self._many -= 1
        if self._many == 0:
            self.all_in.set()
        holds, self._holds = self._holds, False
        async for response in call(request):
            if holds:
                await self.opens.wait()
            yield response


async def asking(agent: Agent[Any], backend: MockBackend, streaming: bool) -> str:
    """What a run answers; it streams or it does not."""
    if not streaming:
        return (await agent.run("hi", backend=backend)).text
    said = await pieces(agent, backend)
    assert said[:-1] == [(said[-1][0][:-4], True), ("well", True)]
    return said[-1][0]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["memory", "folder"])
async def test_the_same_request_at_the_same_time_is_one_call(
    streaming: bool, kind: str, tmp_path: Path
) -> None:
    """Ten runs ask the same at once: one call answers them all, streamed too; another request is its own."""
    model = Busy()
    backend = mock_backend({"a": model})
    kept = cache("memory" if kind == "memory" else tmp_path)
    agent = A.middleware(kept)
    runs = [asyncio.ensure_future(asking(agent, backend, streaming)) for _ in range(10)]
    other = asyncio.ensure_future(agent.run("ho", backend=backend))
    await model.asked.wait()
    model.go.set()
    assert len(set(await asyncio.gather(*runs))) == 1
    assert (await other).text.endswith("well")
    assert (model.calls, kept.hits, kept.misses) == (2, 9, 2)
    assert await asking(agent, backend, streaming) == runs[0].result()
    assert model.calls == 2
    await kept.close()


async def test_each_of_them_gets_an_answer_of_its_own() -> None:
    """What one run does to its answer, no other sees, and tokens are counted once."""

    class Shouts(Middleware):
        async def after_model(self, ctx: Context, response: LlmResponse) -> None:
            assert response.content
            assert response.content.parts
            response.content.parts[0].text += "!"  # pyright: ignore[reportOperatorIssue]  # it is a text

    model = Busy()
    backend = mock_backend({"a": model})
    agent = A.middleware(Shouts(), cache())
    model.go.set()
    results = await asyncio.gather(*(agent.run("hi", backend=backend) for _ in range(3)))
    assert {result.text for result in results} == {"answer 1: well!"}
    used = [sum(usage.input_tokens for usage in result.usage.values()) for result in results]
    assert sorted(map(bool, used)) == [False, False, True]


@pytest.mark.parametrize("streaming", [False, True])
async def test_who_waits_for_a_call_that_fails_asks_himself(streaming: bool) -> None:
    """The error is that of one run alone; every other one asks and is answered, and the answer is kept."""
    model, door = Busy(ConnectionError("down")), Door(4)
    backend = mock_backend({"a": model})
    agent = A.middleware(door, cache())
    runs = [asyncio.ensure_future(asking(agent, backend, streaming)) for _ in range(4)]
    await door.all_in.wait()
    model.go.set()
    while model.calls < 4:
        model.asked.clear()
        await model.asked.wait()
    model.go.set()
    found = await asyncio.gather(*runs, return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["ModelError", "str", "str", "str"]
    assert (await asking(agent, backend, streaming)).endswith("well")
    assert model.calls == 4


@pytest.mark.parametrize("streaming", [False, True])
async def test_who_is_cancelled_takes_nobody_along(streaming: bool) -> None:
    """Another of those who wait makes the call anew, once; one of them that is cancelled changes nothing."""
    model = Busy()
    backend = mock_backend({"a": model})
    agent = A.middleware(cache())
    runs = [asyncio.ensure_future(asking(agent, backend, streaming)) for _ in range(5)]
    await model.asked.wait()
    model.asked.clear()
    for leaver in (runs[0], runs[3]):
        leaver.cancel()  # both before either leaves: else the second may make the call when it is cancelled
    for leaver in (runs[0], runs[3]):
        with pytest.raises(asyncio.CancelledError):
            await leaver
    await model.asked.wait()
    model.go.set()
    assert await asyncio.gather(runs[1], runs[2], runs[4]) == ["answer 2: well"] * 3
    assert model.calls == 2


@without_pauses
async def test_nobody_waits_for_a_stream_that_nobody_reads() -> None:
    """A reader who stops in the middle holds up himself alone: another run asks, and others wait for that."""
    model, door = Busy(), Door(1, holds=True)
    backend = mock_backend({"a": model})
    agent = A.middleware(door, cache())
    slow = asyncio.ensure_future(asking(agent, backend, True))
    await door.all_in.wait()
    model.go.set()
    assert await asyncio.gather(*(asking(agent, backend, True) for _ in range(3))) == ["answer 2: well"] * 3
    door.opens.set()
    assert await slow == "answer 1: well"
    assert model.calls == 2


# --- stores ---------------------------------------------------------------------------------------


async def test_answers_outlive_the_process_in_a_folder(tmp_path: Path) -> None:
    """Another cache on the same folder finds them, with images and thoughts as they were."""
    parts = [
        types.Part(text="look", thought=True, thought_signature=b"\x00\xff"),
        types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
        types.Part(text="there"),
    ]
    answer = reply("")
    answer.content = types.Content(role="model", parts=parts)
    backend = mock_backend({"a": [answer, "not asked"]}, stores="real")
    for _ in range(2):
        kept = cache(tmp_path)
        result = await A.middleware(kept).run("hi", backend=backend)
        native: Any = result.by("a")[0].raw
        assert result.text == "there"
        assert [part.model_dump(exclude_none=True) for part in native.content.parts] == [
            part.model_dump(exclude_none=True) for part in parts
        ]
        await kept.close()
    assert len(backend.calls["a"]) == 1


@pytest.mark.needs("redis-server")
async def test_processes_share_a_redis_server(redis_url: str) -> None:
    """Two caches on one server share their answers."""
    backend = counting()
    for _ in range(2):
        kept = cache(redis_url)
        assert await answers(A.middleware(kept), backend, "over redis") == ["answer 1"]
        await kept.close()


async def _later(agent: Agent[Any], backend: MockBackend) -> list[str]:
    said = await answers(agent, backend, "hi")
    await asyncio.sleep(50)
    said += await answers(agent, backend, "hi")
    await asyncio.sleep(20)
    return said + await answers(agent, backend, "hi")


def test_an_answer_is_kept_for_its_time() -> None:
    """After `ttl` seconds the model is asked again."""
    assert still(_later(A.middleware(cache(ttl=60)), counting())) == ["answer 1", "answer 1", "answer 2"]


async def test_a_store_that_is_down_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Without the store the model is asked, and the log says what is wrong, once."""
    backend = counting()
    agent = A.middleware(cache("redis://127.0.0.1:1/0"))
    with caplog.at_level(logging.WARNING, "adk_fluent.middleware"):
        assert await answers(agent, backend, "hi", "hi") == ["answer 1", "answer 2"]
    assert "a: the store of cache() could not be read: ConnectionError" in caplog.text
    assert "could not be written" not in caplog.text


def spoilt(kept: Cache, entry: str) -> None:
    """Put something else in the place of what is in the memory of a cache."""
    store: Any = vars(kept)["_store"]
    assert isinstance(store, MemoryStore)
    texts = vars(store)["_texts"]
    for key in list(texts):
        texts[key] = (entry, None)


@pytest.mark.parametrize(
    "entry", ["no JSON", "[1]", "{}", '{"format": 1, "responses": 3}', '{"format": 99, "responses": []}']
)
async def test_entries_that_are_none_are_not_used(entry: str) -> None:
    """What somebody else, or another version, left in the store is passed over."""
    kept, backend = cache(), counting()
    await answers(A.middleware(kept), backend, "hi")
    spoilt(kept, entry)
    assert await answers(A.middleware(kept), backend, "hi", "hi") == ["answer 2", "answer 2"]


@pytest.mark.parametrize("ttl", [0, -1, "60", float("inf"), True])
def test_wrong_times(ttl: Any) -> None:
    """A time that is none is one clear line."""
    with pytest.raises(ArgumentError, match=r"cache\(ttl=\) is a positive number, not "):
        cache(ttl=ttl)
