"""`around_model` and `around_tool`: to call again, later, somebody else, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ModelError, RunError, ToolError
from adk_fluent.middleware import CallModel, CallTool, Context, Middleware
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang

a, b = Agent("a"), Agent("b")


class Again(Middleware):
    """Calls again, up to three times."""

    def __init__(self, times: int = 3) -> None:
        self.times, self.failed = times, 0

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        for attempt in range(self.times):
            try:
                async for response in call(request):
                    yield response
                return
            except ValueError:
                self.failed += 1
                if attempt == self.times - 1:
                    raise

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        for attempt in range(self.times):
            try:
                return await call(args)
            except ValueError:
                self.failed += 1
                if attempt == self.times - 1:
                    raise
        return None


async def test_a_model_is_really_asked_again() -> None:
    """A call that fails twice and then answers gives the answer, and nobody else sees a failure."""
    again = Again()
    backend = mock_backend({"a": [ValueError("1"), ValueError("2"), "at last"]})
    assert await a.middleware(again).ask_async("hi", backend=backend) == "at last"
    assert (again.failed, len(backend.calls["a"])) == (2, 3)


async def test_the_last_failure_is_told_as_the_models() -> None:
    """What a middleware lets through is the model's error, with the model's name, not the middleware's."""
    backend = mock_backend({"a": [ValueError("1"), ValueError("2"), ValueError("3"), "never"]})
    with pytest.raises(ModelError, match=r"Agent 'a' got no answer from its model .*ValueError: 3"):
        await a.middleware(Again()).run("hi", backend=backend)


async def test_calls_of_middleware_count_towards_the_limit() -> None:
    """`max_llm_calls` bounds what middleware calls again, too."""
    backend = mock_backend({"a": [ValueError(str(n)) for n in range(9)]})
    with pytest.raises(RunError, match="Max number of llm calls limit of `2` exceeded"):
        await a.middleware(Again(9)).run("hi", backend=backend, config=ExecutionConfig(max_llm_calls=2))
    assert len(backend.calls["a"]) == 2


async def test_a_tool_is_really_called_again() -> None:
    """A tool that fails twice and then works gives its result."""
    failures = [ValueError("1"), ValueError("2")]

    def flaky(n: int) -> int:
        """Works at last."""
        if failures:
            raise failures.pop()
        return n

    again = Again()
    backend = mock_backend({"a": [call_tool("flaky", n=5), "done"]})
    result = await a.tool(flaky).middleware(again).run("hi", backend=backend)
    assert [r.result for event in result for r in event.tool_responses] == [{"result": 5}]
    assert again.failed == 2


async def test_the_last_failure_is_told_as_the_tools() -> None:
    """What a middleware lets through is the tool's error."""

    def broken(n: int) -> int:
        """Never works."""
        raise ValueError("no")

    backend = mock_backend({"a": call_tool("broken", n=5)})
    with pytest.raises(ToolError, match="Agent 'a': its tool 'broken' raised ValueError: no"):
        await a.tool(broken).middleware(Again()).run("hi", backend=backend)


class Pieces(Middleware):
    """Notes the pieces that pass, and says them louder."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool]] = []

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        async for response in call(request):
            text = ((response.content and response.content.parts) or [types.Part()])[0].text or ""
            self.heard.append((text, bool(response.partial)))
            content = types.Content(role="model", parts=[types.Part(text=text.upper())])
            yield response.model_copy(update={"content": content})


async def test_it_acts_on_streams_piece_by_piece() -> None:
    """Each piece passes as it comes, and the whole answer last."""
    pieces = Pieces()
    events: list[tuple[str | None, bool]] = []
    async with aclosing(a.middleware(pieces).stream("hi", backend=mock_backend({"a": "one two"}))) as stream:
        events = [(event.content, event.is_partial) async for event in stream if event.content]
    assert pieces.heard == [("one ", True), ("two", True), ("one two", False)]
    assert events == [("ONE ", True), ("TWO", True), ("ONE TWO", False)]


async def test_a_piece_passes_before_the_next_is_made() -> None:
    """Nothing is held back: the first piece is out while the model still thinks."""
    hang = Hang("first ")
    async with aclosing(a.middleware(Pieces()).stream("hi", backend=mock_backend({"a": hang}))) as stream:
        first = await anext(stream)
    assert (first.content, first.is_partial) == ("FIRST ", True)
    assert hang.ended


class Other(Middleware):
    """Asks another model."""

    def __init__(self, model: str | BaseLlm) -> None:
        self.model = model

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        async for response in call(request, model=self.model):
            yield response


class Says(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        text = f"{self.model} was sent {llm_request.model}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def test_another_model_can_be_asked() -> None:
    """`call(request, model=)` asks that one, and the request names it; the agent's own is untouched."""
    agent = Agent("a", Says(model="mine"))
    assert agent.middleware(Other(Says(model="other"))).ask("hi") == "other was sent other"
    assert agent.ask("hi") == "mine was sent mine"


def test_what_a_middleware_further_in_does_keeps_the_other_model() -> None:
    """A retry inside a fallback repeats the fallback's model."""
    agent = Agent("a", Says(model="mine")).middleware(Other(Says(model="other")), Again())
    assert agent.ask("hi") == "other was sent other"
    inner = Agent("a", Says(model="mine")).middleware(Other(Says(model="other")), Other(Says(model="inner")))
    assert inner.ask("hi") == "inner was sent inner"


async def test_another_model_is_scripted_on_a_mock_backend() -> None:
    """By its name, or else it answers what the agent's own would; no real model is asked."""
    agent = a.middleware(Other("gemini-2.5-pro"))
    backend = mock_backend({"a": "mine", "gemini-2.5-pro": "the other's"})
    assert await agent.ask_async("hi", backend=backend) == "the other's"
    assert list(backend.calls) == ["gemini-2.5-pro"]
    assert await agent.ask_async("hi", backend=mock_backend({"a": "mine"})) == "mine"


class Canned(Middleware):
    """Answers itself."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="canned")]))


async def test_the_model_need_not_be_asked() -> None:
    """What is further in is not asked either."""
    pieces, backend = Pieces(), mock_backend({"a": "never"})
    assert await a.middleware(Canned(), pieces).ask_async("hi", backend=backend) == "canned"
    assert pieces.heard == []
    assert not backend.calls


class Limit(Middleware):
    """Lets one call at a time through."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(1)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        async with self.slots:
            async for response in call(request):
                yield response


@pytest.mark.parametrize("streaming", [False, True])
async def test_what_it_holds_is_given_back_before_the_tools_run(streaming: bool) -> None:
    """A tool that asks the same limited model does not wait for the call that asked for the tool."""
    limit = Limit()
    inner = b.middleware(limit)
    backend = mock_backend({"a": [call_tool("ask", n=1), "done"], "b": "x"})

    async def ask(n: int) -> str:
        """Asks b."""
        return await inner.ask_async("hi", backend=backend)

    outer = a.tool(ask).middleware(limit)
    if streaming:
        async with aclosing(outer.stream("hi", backend=backend)) as events:
            said = [event.content async for event in events if event.is_final]
    else:
        said = [await outer.ask_async("hi", backend=backend)]
    assert said == ["done"]


class Leaves(Middleware):
    """Takes the first piece and goes."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        async for response in call(request):
            yield response.model_copy(update={"partial": None})
            return


async def test_a_call_that_is_left_is_ended() -> None:
    """A middleware that stops listening ends the call of the model."""
    hang = Hang("enough")
    async with aclosing(a.middleware(Leaves()).stream("hi", backend=mock_backend({"a": hang}))) as events:
        said = [event.content async for event in events if event.content]
    assert said == ["enough"]
    assert hang.ended == ["GeneratorExit"]


@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_a_best_effort_hook_that_fails_loses_nothing(when: str) -> None:
    """Whenever it fails, the answer comes, once, and the model is asked once."""

    class Fails(Middleware):
        best_effort = True

        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            if when == "before":
                raise KeyError("early")
            async for response in call(request):
                if when == "during":
                    raise KeyError("with an answer in hand")
                yield response
            raise KeyError("late")

        async def around_tool(
            self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool
        ) -> Any:
            if when == "before":
                raise KeyError("early")
            await call(args)
            raise KeyError("late")

    called: list[int] = []

    def count(n: int) -> int:
        """Counts."""
        called.append(n)
        return n

    backend = mock_backend({"a": [call_tool("count", n=5), "done"]})
    result = await a.tool(count).middleware(Fails()).run("hi", backend=backend)
    assert [event.content for event in result if event.is_final] == ["done"]
    assert [r.result for event in result for r in event.tool_responses] == [{"result": 5}]
    assert (called, len(backend.calls["a"])) == ([5], 2)


@pytest.mark.parametrize("at", [1, 3, 4])
async def test_a_best_effort_hook_that_fails_in_a_stream_loses_nothing(at: int) -> None:
    """The rest of the answer comes also where the hook closes the call as it should."""

    class Fails(Middleware):
        best_effort = True

        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            async with aclosing(call(request)) as responses:
                got = 0
                async for response in responses:
                    got += 1
                    if got == at:
                        raise KeyError("in the middle")
                    yield response

    async def pieces() -> AsyncIterator[str]:
        for piece in ("one ", "two ", "three"):
            yield piece

    backend = mock_backend({"a": pieces()})
    async with aclosing(a.middleware(Fails()).stream("hi", backend=backend)) as events:
        said = [event.content async for event in events]
    assert said == ["one ", "two ", "three", "one two three"]
    assert len(backend.calls["a"]) == 1


async def test_a_best_effort_hook_does_not_hide_what_failed() -> None:
    """A hook that trips over a failure of a model, or of a tool, leaves that as it is, and calls it once."""

    class Trips(Middleware):
        best_effort = True

        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            try:
                async for response in call(request):
                    yield response
            except ConnectionError:
                raise KeyError("tripped") from None

        async def around_tool(
            self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool
        ) -> Any:
            try:
                return await call(args)
            except OSError:
                raise KeyError("tripped") from None

    called: list[int] = []

    def count(n: int) -> int:
        """Counts."""
        called.append(n)
        raise OSError("disk full")

    backend = mock_backend({"a": ConnectionError("down")})
    with pytest.raises(ModelError, match="ConnectionError: down"):
        await a.middleware(Trips()).run("hi", backend=backend)
    assert len(backend.calls["a"]) == 1
    backend = mock_backend({"a": call_tool("count", n=5)})
    with pytest.raises(ToolError, match="'count' raised OSError: disk full"):
        await a.tool(count).middleware(Trips()).run("hi", backend=backend)
    assert called == [5]


async def test_what_adk_looks_for_in_a_tool_stays() -> None:
    """A wrapped tool is still of its class, shares what it holds, and keeps its own methods."""
    from google.adk.tools.function_tool import FunctionTool

    from adk_fluent.backends.adk.middleware.calls import with_middleware

    def look(n: int) -> int:
        """Looks."""
        return n

    tool = FunctionTool(look)
    made = with_middleware(tool)
    assert isinstance(made, FunctionTool)
    assert made.name == "look"
    assert made.func is look
    tool.is_long_running = True
    assert made.is_long_running
    assert with_middleware(made) is made


async def test_an_error_of_the_hook_is_not_the_models() -> None:
    """What the hook itself raises names the hook, also where it passes as a model's failure."""

    class Fails(Middleware):
        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncIterator[LlmResponse]:
            async for response in call(request):
                yield response
                raise KeyError("mine")

    with pytest.raises(RunError, match=r"'a': Fails\.around_model\(\) raised KeyError: 'mine'"):
        await a.middleware(Fails()).run("hi", backend=mock_backend({"a": "x"}))
