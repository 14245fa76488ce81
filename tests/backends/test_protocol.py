"""What a backend is told, what may be one, and what it is told when it does wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from google.genai import types

from adk_fluent import Agent, S
from adk_fluent.backends import (
    AgentEvent,
    Pending,
    ToolCallInfo,
    ToolResponseInfo,
    VizBackend,
)
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import (
    AnswerError,
    ArgumentError,
    BackendError,
    RunError,
)
from adk_fluent.ir import Node
from tests.backends.every_backend import BLOCKED, Says, Toy, read
from tests.backends.support import said
from tests.limits import LIMIT

A, B = Agent("a"), Agent("b")


class Noting(Toy):
    """A toy that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[ExecutionConfig | None] = []
        self.told: list[dict[str, Any]] = []

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
        self.compiled.append(config)
        return super().compile(node, config)

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        self.told.append(options)
        async with aclosing(super().stream(compiled, prompt, **options)) as events:
            async for event in events:
                yield event


class Giving(Toy):
    """A toy that gives these events."""

    def __init__(self, *events: AgentEvent) -> None:
        super().__init__()
        self.events = list(events)

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        return self.events


async def test_a_backend_is_told_how_to_run() -> None:
    """`compile` gets the configuration; `run` and `stream` whose run it is, the state, and the history."""
    backend, config = Noting(), ExecutionConfig(max_llm_calls=3)
    await A.run("hi", backend=backend, config=config, app_name="shop", user_id="ann", state={"x": 1})
    await read(A.stream("hi", backend=backend))
    assert backend.compiled == [replace(config, app_name="shop"), ExecutionConfig()]
    first, second = backend.told
    assert first.pop("session_id") != second.pop("session_id")
    assert first == {"user_id": "ann", "state": {"x": 1}, "history": (), "streaming": False}
    assert second == {"user_id": "user", "state": {}, "history": (), "streaming": True}


async def test_history_is_what_everybody_said() -> None:
    """The history of a turn is the turns before it: the user's words and parts, and the events."""
    backend = Noting()
    png = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    async with S.counter("n").session(backend=backend) as chat:
        for prompt in ("hi", ["look ", "here", png], types.Content(parts=[types.Part(text="and")]), "so?"):
            await chat.send(prompt)
        history = backend.told[-1]["history"]
    assert {told["session_id"] for told in backend.told} == {chat.session_id}
    assert [(event.author, event.content, event.parts) for event in history if event.author == "user"] == [
        ("user", "hi", ()),
        ("user", "look here", (png,)),
        ("user", "and", ()),
    ]
    assert [event.state_delta for event in history if event.author != "user"] == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]


async def test_a_turn_that_failed_is_no_history() -> None:
    """After a turn that raised, the conversation goes on from before it."""
    backend = Noting()
    says: Says = {"a": lambda heard: BLOCKED if heard.endswith("bad") else "fine"}
    backend.says = says
    async with (S.counter("n") >> A).session(backend=backend) as chat:
        await chat.send("good")
        with pytest.raises(RunError, match="SAFETY"):
            await chat.send("bad")
        assert (await chat.send("good again")).state == {"n": 2}
    assert [event.content for event in backend.told[-1]["history"] if event.author == "user"] == ["good"]


async def test_an_expression_is_compiled_once() -> None:
    """A backend compiles an expression once for all terminals; one that can keep nothing, once per call."""
    backend = Noting()
    await A.run("hi", backend=backend)
    assert await A.map(["x", "y"], backend=backend) == ["x", "y"]
    async with A.session(backend=backend) as chat:
        await chat.send("hi")
        await chat.send("hi")
    assert len(backend.compiled) == 1

    class Slotted:
        __slots__ = ("inner",)

        def __init__(self) -> None:
            self.inner = Noting()

        def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
            return self.inner.compile(node, config)

        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return await self.inner.run(compiled, prompt, **options)

        def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncIterator[AgentEvent]:
            return self.inner.stream(compiled, prompt, **options)

    slotted = Slotted()
    await A.ask_async("hi", backend=slotted)
    assert len(slotted.inner.compiled) == 1


async def test_what_a_backend_says_of_its_events_counts() -> None:
    """An event that its backend marked, and one whose author is not in the tree, stay as they are."""

    marked = AgentEvent("b", "for agents", is_final=True, visibility="internal")
    backend = Giving(marked, AgentEvent("somebody", "for you", is_final=True))
    result = await (A >> B).run("hi", backend=backend)
    assert [(event.content, event.visibility) for event in result] == [
        ("for agents", "internal"),
        ("for you", "user"),
    ]
    assert result.text == "for you"


async def test_pieces_write_nothing() -> None:
    """What a piece of an answer writes is no state; the whole answer writes it."""
    piece = AgentEvent("a", "he", {"x": "he", "y": 1}, is_partial=True)
    result = await A.run("hi", backend=Giving(piece, AgentEvent("a", "hello", {"x": "hello"}, is_final=True)))
    assert (result.state, result.text) == ({"x": "hello"}, "hello")


async def test_who_asks_a_person_is_heard() -> None:
    """What asks a person is for the user, whoever it is from and whatever the policy hides."""
    asks = AgentEvent("a", "May I?", pending=(Pending("1", "a", "May I?"),))
    result = await (A >> B).filtered().run("hi", backend=Giving(asks))
    assert [(event.content, event.visibility) for event in result] == [("May I?", "user")]
    assert [pending.id for pending in result.pending] == ["1"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (AgentEvent("a", tool_calls=[ToolCallInfo("book", {}, "1")]), "call of the tool 'book'"),
        (AgentEvent("a", tool_responses=[ToolResponseInfo("book", {}, "1")]), "the tool 'book' gave"),
        (AgentEvent("a", parts=(types.Part(text="x"),)), "something that is not text"),
        (AgentEvent("a", ""), "its answer was empty"),
        (AgentEvent("a", state_delta={"x": 1}), "its model said nothing"),
    ],
)
async def test_why_there_is_no_answer_is_read_from_events(event: AgentEvent, reason: str) -> None:
    """A typed answer that is missing is explained by the last that its agent did, without ADK's events."""
    with pytest.raises(AnswerError, match=reason):
        await (A @ int).ask_async("hi", backend=Giving(event))


async def test_what_is_no_event_is_named() -> None:
    """A backend that gives something else than events is named, with what it should give."""

    class Talking(Toy):
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> Any:
            return ["hello"]

        async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[Any, None]:
            yield "hello"

    for call in (A.run("hi", backend=Talking()), read(A.stream("hi", backend=Talking()))):
        with pytest.raises(BackendError, match=r"^Talking returned str 'hello' as an event .*AgentEvent\("):
            await call


async def test_a_stream_need_not_be_a_generator() -> None:
    """`stream` may give any async iterator, which has nothing to close."""

    class Once:
        def __init__(self) -> None:
            self.left = [AgentEvent("a", "hello", is_final=True)]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> AgentEvent:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Iterating(Toy):
        def stream(self, compiled: Any, prompt: Any, **options: Any) -> Any:
            return Once()

    assert said(await read(A.stream("hi", backend=Iterating()))) == [("a", "hello")]


async def test_what_is_no_backend_is_refused() -> None:
    """An object without one of the three methods is refused with the name of that method; so is a class."""

    class Half:
        def compile(self, node: Node, config: ExecutionConfig | None = None) -> Node:
            return node

        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return []

    for wrong, hint in ((Half(), r"It has no stream\(\)\.$"), (Toy, r"Create one: Toy\(\.\.\.\)\.$")):
        options: dict[str, Any] = {"backend": wrong}
        with pytest.raises(ArgumentError, match=hint):
            await A.run("hi", **options)


@pytest.mark.parametrize(("format", "start"), [("mermaid", "flowchart TD"), ("svg", "<svg"), ("html", "<!")])
def test_viz_compiles_to_the_picture(format: Any, start: str) -> None:
    """What `VizBackend` compiles an expression to is the picture that `visualize` draws."""
    expression = A.writes("x") >> Agent("b").instruct("Use {x}.")
    picture = VizBackend(format).compile(expression.node)
    assert isinstance(picture, str)
    assert picture.startswith(start)
    assert picture == expression.visualize(format)


def test_viz_names_its_formats() -> None:
    """A format that is none is refused with those that are."""
    wrong: Any = "gif"
    with pytest.raises(ArgumentError, match=r"format='gif'.*mermaid, svg, html, png\.$"):
        VizBackend(wrong)


WITHOUT_ADK = """
import asyncio, sys
import adk_fluent.backends
from adk_fluent import Agent
from adk_fluent.backends import AgentEvent, VizBackend

class Echo:
    def compile(self, node, config=None):
        return node

    async def run(self, compiled, prompt, **options):
        return [AgentEvent(compiled.name, prompt, is_final=True)]

    async def stream(self, compiled, prompt, **options):
        yield AgentEvent(compiled.name, prompt, is_final=True)

async def main():
    a = Agent("a")
    assert VizBackend().compile(a.node)
    assert (await a.run("hi", backend=Echo())).text == "hi"
    assert await a.map(["x", "y"], backend=Echo()) == ["x", "y"]
    assert [event.content async for event in a.stream("hi", backend=Echo())] == ["hi"]
    async with a.session(backend=Echo()) as chat:
        assert (await chat.send("hi")).state == {}

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("google.adk", "google.genai"))])
"""


def test_a_backend_of_its_own_needs_no_adk() -> None:
    """Neither importing the backends nor running on one that does not use ADK imports any of ADK."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_ADK], capture_output=True, text=True, timeout=LIMIT
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
