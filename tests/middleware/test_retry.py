"""`retry`: what is asked again, when, how often, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import errors, types
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_fluent import Agent
from adk_fluent.errors import ArgumentError, ModelError, RunError
from adk_fluent.middleware import retry
from adk_fluent.state import declares
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import failing, play, raises_from, reply, script
from tests.clock import still

A = Agent("a")


def limited(seconds: float | None = None) -> errors.APIError:
    """What Gemini's client raises when there were too many requests."""
    info = [] if seconds is None else [{"retryDelay": f"{seconds:g}s"}]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": info}}
    return errors.ClientError(429, body, httpx.Response(429, json=body))


async def _timed(agent: Agent[Any], answers: list[Any]) -> tuple[str, float, int]:
    backend = mock_backend({"a": answers})
    loop = asyncio.get_running_loop()
    start = loop.time()
    result = await agent.run("hi", backend=backend)
    return result.text, loop.time() - start, len(backend.calls["a"])


def timed(agent: Agent[Any], *answers: Any) -> tuple[str, float, int]:
    """The answer, the seconds waited for it, and how often the model was asked."""
    return still(_timed(agent, list(answers)))


@pytest.mark.parametrize("error", [ConnectionError("lost"), TimeoutError("slow"), limited()])
def test_a_model_that_fails_is_really_asked_again(error: Exception) -> None:
    """Three attempts by default, with waits of one and two seconds between them."""
    text, seconds, calls = timed(A.middleware(retry(jitter=False)), error, error, "answer")
    assert (text, calls) == ("answer", 3)
    assert seconds == 3


def test_the_provider_says_when() -> None:
    """What a 429 asks to wait is waited, and no less."""
    _, seconds, calls = timed(A.middleware(retry(jitter=False)), limited(34.5), "answer")
    assert calls == 2
    assert seconds == 34.5


def test_a_provider_that_asks_for_too_much_is_not_waited_for() -> None:
    """When the provider wants an hour, the error is raised at once."""
    with pytest.raises(RunError, match="429"):
        timed(A.middleware(retry()), limited(3600), "answer")


def test_the_last_error_is_raised() -> None:
    """After the last attempt the error of the model is what the run ends with."""
    backend = mock_backend({"a": ConnectionError("down")})
    with pytest.raises(ModelError, match="ConnectionError: down"):
        asyncio.run(A.middleware(retry(4, backoff_base=0)).run("hi", backend=backend))
    assert len(backend.calls["a"]) == 4


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyError("x")])
async def test_what_would_fail_again_is_not_tried(error: Exception) -> None:
    """A mistake is raised at once, unless `on` says that it is worth a try."""
    backend = script({"a": [error, "answer"]})
    with raises_from(type(error)):
        await A.middleware(retry(backoff_base=0)).run("hi", backend=backend)
    assert len(backend.calls["a"]) == 1
    kinds: list[Any] = [type(error), (OSError, type(error)), lambda raised: raised is error]  # pyright: ignore[reportUnknownLambdaType]  # of any error
    for on in kinds:
        result = await play(A.middleware(retry(backoff_base=0, on=on)), {"a": [error, "answer"]})
        assert result.text == "answer"


async def test_a_response_that_reports_a_passing_failure_is_asked_for_again() -> None:
    """An error that the model reports in a response counts like one that it raises, if it may pass."""
    malformed = failing("MALFORMED_FUNCTION_CALL", "no such call")
    result = await play(A.middleware(retry(backoff_base=0)), {"a": [malformed, "answer"]})
    assert result.text == "answer"
    backend = script({"a": [failing("SAFETY"), "answer"]})
    with pytest.raises(RunError, match="SAFETY"):
        await A.middleware(retry(backoff_base=0)).run("hi", backend=backend)
    assert len(backend.calls["a"]) == 1


async def breaks_off(request: LlmRequest) -> AsyncGenerator[str, None]:
    """A stream that breaks after its first piece."""
    yield "The first "
    raise ConnectionError("lost")


async def fails_first(request: LlmRequest) -> AsyncGenerator[str, None]:
    """A stream that breaks before its first piece."""
    raise ConnectionError("lost")
    yield ""


async def streamed(agent: Agent[Any], *answers: Any) -> list[str]:
    """The pieces that a user reads."""
    backend = mock_backend({"a": list(answers)})
    async with aclosing(agent.stream("hi", backend=backend)) as events:
        return [event.content or "" async for event in events if event.is_partial]


async def test_a_stream_is_repeated_before_its_first_piece() -> None:
    """A stream that fails before it has said anything is asked for again."""

    async def whole(request: LlmRequest) -> AsyncGenerator[str, None]:
        yield "One "
        yield "two."

    assert await streamed(A.middleware(retry(backoff_base=0)), fails_first, whole) == ["One ", "two."]


async def test_a_stream_that_has_said_something_is_not_repeated() -> None:
    """Nobody reads the beginning twice: what breaks off after its first piece stays broken."""
    backend = mock_backend({"a": [breaks_off, "again"]})
    pieces: list[str] = []
    with pytest.raises(ModelError, match="lost"):  # noqa: PT012  # the pieces before it count as well
        async with aclosing(A.middleware(retry(backoff_base=0)).stream("hi", backend=backend)) as events:
            async for event in events:
                pieces += [event.content] if event.content else []
    assert pieces == ["The first "]
    assert len(backend.calls["a"]) == 1


async def test_the_event_tells_of_the_attempts() -> None:
    """The event of an answer that took several attempts lists what failed and how long was waited."""
    result = await play(A.middleware(retry(backoff_base=0)), {"a": [ConnectionError("lost"), "answer"]})
    (event,) = result.by("a")
    assert event.metadata["adk_fluent.attempts"] == [{"error": "ConnectionError: lost", "waited": 0.0}]
    quiet = await play(A.middleware(retry()), {"a": "answer"})
    assert "adk_fluent.attempts" not in quiet.by("a")[0].metadata


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Where the spans of the test go."""
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


async def test_the_trace_tells_of_the_attempts(spans: InMemorySpanExporter) -> None:
    """Each failed attempt is an event of the span that is on."""
    await play(A.middleware(retry(backoff_base=0)), {"a": [ConnectionError("lost"), "answer"]})
    finished: tuple[ReadableSpan, ...] = spans.get_finished_spans()
    (event,) = [event for span in finished for event in span.events if event.name == "adk_fluent.retry"]
    assert dict(event.attributes or {}) | {"error": ""} == {"agent": "a", "error": "", "waited": 0.0}
    assert str((event.attributes or {})["error"]).startswith("ConnectionError at ")


async def test_cancelling_ends_the_wait() -> None:
    """A run that is cancelled while it waits for the next attempt ends at once and asks no more."""
    backend = mock_backend({"a": ConnectionError("down")})
    run = asyncio.ensure_future(A.middleware(retry(backoff_base=1000)).run("hi", backend=backend))
    while not backend.calls.get("a"):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(backend.calls["a"]) == 1


# --- tools ----------------------------------------------------------------------------------------


class Flaky:
    """A tool that fails so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.calls = times, 0

    def look_up(self, word: str) -> str:
        """Look a word up."""
        self.calls += 1
        if self.calls <= self.times:
            raise ConnectionError("no line")
        return f"{word} found"


USES: list[Any] = [call_tool("look_up", word="x"), "done"]


async def test_tools_are_repeated_only_when_asked() -> None:
    """By default a tool that fails is not called again; with `tools=True` it is."""
    flaky = Flaky(1)
    with pytest.raises(RunError):
        await play(A.tool(flaky.look_up).middleware(retry(backoff_base=0)), {"a": USES})
    assert flaky.calls == 1
    flaky = Flaky(2)
    result = await play(A.tool(flaky.look_up).middleware(retry(backoff_base=0, tools=True)), {"a": USES})
    assert (result.text, flaky.calls) == ("done", 3)


async def test_tools_that_must_not_be_repeated_are_not() -> None:
    """A tool that says it is not idempotent is called once, whatever happens."""
    calls: list[float] = []

    @declares(idempotent=False)
    def pay(amount: float) -> str:
        """Pay."""
        calls.append(amount)
        raise ConnectionError("no line")

    agent = A.tool(pay).middleware(retry(backoff_base=0, tools=True, on=Exception))
    with pytest.raises(RunError):
        await play(agent, {"a": [call_tool("pay", amount=3.0), "done"]})
    assert calls == [3.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_attempts": 0}, "retry(max_attempts=) is a whole number, at least 1, not 0."),
        ({"max_attempts": True}, "retry(max_attempts=) is a whole number, at least 1, not True."),
        ({"backoff_base": -1}, "retry(backoff_base=) is a number, 0 or more, not -1."),
        ({"backoff_base": float("nan")}, "retry(backoff_base=) is a number, 0 or more, not nan."),
        (
            {"on": "429"},
            "retry(on=) is an exception class, a tuple of them, or a function of the error, not '429'.",
        ),
        (
            {"on": int},
            "retry(on=) is an exception class, a tuple of them, or a function of the error, not <class",
        ),
        (
            {"on": ()},
            "retry(on=) is an exception class, a tuple of them, or a function of the error, not ().",
        ),
        ({"tools": 1}, "retry(tools=) is True or False, not 1."),
        ({"jitter": "no"}, "retry(jitter=) is True or False, not 'no'."),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    """Each wrong argument is one clear line."""
    with pytest.raises(ArgumentError) as caught:
        retry(**wrong)
    assert str(caught.value).startswith(message)


def test_function_responses_are_types() -> None:
    """Answers may be whole responses of ADK's."""
    answer = reply("x", finish_reason=types.FinishReason.STOP)
    assert timed(A.middleware(retry()), answer)[0] == "x"


@pytest.mark.parametrize("again", [True, False])
async def test_an_async_function_says_what_is_tried_again(again: bool) -> None:
    """`on` may be async: it is awaited, and what it says decides, of models and of tools."""
    calls = list[int]()

    async def passing(error: Exception) -> bool:
        await asyncio.sleep(0)
        return again

    def flaky() -> str:
        """Fail at first."""
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")
        return "fine"

    agent = A.tool(flaky).middleware(retry(backoff_base=0, on=passing, tools=True))
    tool = mock_backend({"a": [call_tool("flaky"), "done"]})
    model = mock_backend({"a": [ValueError("once"), "answer"]})
    if again:
        assert (await agent.run("hi", backend=tool)).text == "done"
        assert (await agent.run("hi", backend=model)).text == "answer"
        return
    for backend in (tool, model):
        with pytest.raises(RunError, match="once"):
            await agent.run("hi", backend=backend)
    assert (len(calls), len(model.calls["a"])) == (1, 1)
