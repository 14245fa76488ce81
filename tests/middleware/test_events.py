"""What `on_event` makes of events: for the caller, in the stored session, and with its marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types

from adk_fluent import Agent, FanOut, S, T, map_over, race
from adk_fluent.backends.adk.compat.private import stores_what_plugins_give
from adk_fluent.backends.events import AgentEvent
from adk_fluent.errors import MiddlewareError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import Context, Middleware
from adk_fluent.testing import call_tool, mock_backend

a, b = Agent("a"), Agent("b")
MARK = "adk_fluent.visibility"


class Louder(Middleware):
    """Says what one agent says in capitals."""

    async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent | None:
        if event.content is None:
            return None
        metadata = {**event.metadata, "by": ctx.agent_name}
        return replace(event, content=event.content.upper(), metadata=metadata)


class Natively(Middleware):
    """Does the same with a native event that says nothing else."""

    async def on_event(self, ctx: Context, event: AgentEvent) -> Event | None:
        if event.content is None:
            return None
        content = types.Content(role="model", parts=[types.Part(text=event.content.upper())])
        return Event(author=event.author, content=content, custom_metadata={"by": ctx.agent_name})


class Plugin(BasePlugin):
    """Does the same as one of ADK's plugins."""

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        text = "".join(part.text or "" for part in (event.content and event.content.parts) or [])
        content = types.Content(role="model", parts=[types.Part(text=text.upper())])
        return (
            Event(author=event.author, content=content, custom_metadata={"by": event.author})
            if text
            else None
        )


KINDS: dict[str, Any] = {"ours": Louder(), "native event": Natively(), "plugin": Plugin(name="louder")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["run", "native runner"])
async def test_an_event_can_be_replaced(kind: str, way: str) -> None:
    """The caller gets the new words, the identity of the event and its marks stay."""
    pipeline = (a.writes("k") >> b).middleware(KINDS[kind])
    backend = mock_backend({"a": "one", "b": "two"})
    if way == "run":
        result = await pipeline.run("hi", backend=backend)
        said = [event.raw for event in result if event.content]
        assert result.text == "TWO"
    else:
        runner = InMemoryRunner(app=backend.compile(pipeline.node).published())
        await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
        message = types.Content(role="user", parts=[types.Part(text="hi")])
        run = runner.run_async(user_id="u", session_id="s", new_message=message)
        said = [event async for event in run if event.content]
    words = [[part.text for part in (event.content and event.content.parts) or []] for event in said if event]
    assert words == [["ONE"], ["TWO"]]
    metadata = [event.custom_metadata or {} for event in said if event]
    assert [found.get(MARK) for found in metadata] == ["internal", "user"]
    assert [found.get("by") for found in metadata] == ["a", "b"]
    assert all(event.id and event.invocation_id for event in said if event)


async def test_what_is_stored_is_what_adk_stores() -> None:
    """From ADK 1.31 on the stored session has the new words, before that the old ones; state is stored."""
    backend = mock_backend({"a": "one", "b": "two"})
    async with (a.writes("k") >> b).middleware(Louder()).session(backend=backend) as chat:
        result = await chat.send("hi")
        await chat.send("again")
    told = str(backend.calls["b"][1].contents)
    assert ("TWO" in told, "two" in told) == ((True, False) if stores_what_plugins_give() else (False, True))
    assert result.state == {"k": "one"}


async def test_only_the_words_are_replaced() -> None:
    """What else an event holds, such as a tool's call, stays beside the new words."""

    class Adds(Middleware):
        async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent:
            return replace(event, content="words")

    def look(n: int) -> int:
        """Looks."""
        return n

    backend = mock_backend({"a": [call_tool("look", n=5), "done"]})
    result = await a.tool(look).middleware(Adds()).run("hi", backend=backend)
    assert [event.content for event in result] == ["words"] * 3
    assert result[0].tool_calls[0].args == {"n": 5}
    assert result[1].tool_responses[0].result == {"result": 5}
    assert len(backend.calls["a"]) == 2


async def test_each_sees_what_the_one_further_in_made() -> None:
    """The innermost is asked first."""

    class Adds(Middleware):
        def __init__(self, more: str) -> None:
            self.more = more

        async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent:
            return replace(event, content=f"{event.content}{self.more}")

    agent = a.middleware(Adds(" outer"), Adds(" inner"))
    assert await agent.ask_async("hi", backend=mock_backend({"a": "x"})) == "x inner outer"


@pytest.mark.parametrize("kind", ["ours", "native event"])
async def test_what_agents_inside_tools_say_is_heard_and_replaced(kind: str) -> None:
    """For the caller; the session still does not hold it, as ADK would show it to the agents around."""
    backend = mock_backend({"outer": [call_tool("a", request="do"), "done"], "a": "inner", "b": "next"})
    outer = Agent("outer").tools(T.agent(a.describe("Does it."))).middleware(KINDS[kind])
    result = await (outer >> b).run("hi", backend=backend)
    assert [event.content for event in result if event.content] == ["INNER", "DONE", "next"]
    assert "INNER" not in str(backend.calls["b"][0].contents)


@pytest.mark.parametrize(
    "apart", [race(a, Agent("c")), a.stream_to(buffering="chunked", chunk_size=1) >> b], ids=["race", "edge"]
)
async def test_what_runs_apart_inside_a_tool_is_heard_once(apart: Expr[Any]) -> None:
    """When the run around the tool is told of it."""
    heard: list[str] = []

    class Hears(Middleware):
        async def on_event(self, ctx: Context, event: AgentEvent) -> None:
            heard.append(event.id)

    backend = mock_backend({"outer": [call_tool("inner", request="do"), "done"]}, default="a word")
    outer = Agent("outer").tools(T.agent(apart.named("inner"))).middleware(Hears())
    result = await outer.run("hi", backend=backend)
    assert heard == [event.id for event in result]


async def test_what_cannot_be_changed_so_is_named() -> None:
    """Another author cannot be said with an `AgentEvent`; the message says with what."""

    class Renames(Middleware):
        async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent:
            return replace(event, author="somebody")

    with pytest.raises(MiddlewareError, match="it changed author of an event; return a native"):
        await a.middleware(Renames()).run("hi", backend=mock_backend({"a": "x"}))


async def test_events_of_steps_inside_are_heard_and_of_others_not() -> None:
    """An event belongs to its author: a step beside the expression is not heard."""

    class Hears(Middleware):
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_event(self, ctx: Context, event: AgentEvent) -> None:
            self.heard.append(ctx.agent_name)

    hears = Hears()
    pipeline = b >> (S.set(x=1) >> a).middleware(hears) >> Agent("c")
    await pipeline.run("hi", backend=mock_backend(default="x"))
    assert hears.heard == ["set", "a"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_an_event_said_of_itself_stays(kind: str) -> None:
    """Metadata that was on the event before, such as the model's, is not dropped by a replacement."""
    said = types.Content(role="model", parts=[types.Part(text="one")])
    backend = mock_backend({"a": LlmResponse(content=said, custom_metadata={"from": "the model"})})
    result = await a.middleware(KINDS[kind]).run("hi", backend=backend)
    assert result[0].content == "ONE"
    assert {"from": "the model", "by": "a"}.items() <= result[0].metadata.items()


NEVER = S.guard(lambda state: False, "never") >> Agent("c")
SHAPES: dict[str, Expr[Any]] = {
    "sequence": a >> b,
    "fan-out": FanOut(a, b),
    "race": race(a >> b, NEVER),
    "race in a race": race(race(a >> b, NEVER), NEVER.named("other")),
    "map": map_over("items", a >> b),
    "edge": a.stream_to(buffering="chunked") >> b,
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_hook_writes_about_an_event_is_stored(shape: str) -> None:
    """Wherever the agent stands whose event it is, also where its events are stored only when it has won."""

    class Notes(Middleware):
        async def on_event(self, ctx: Context, event: AgentEvent) -> None:
            ctx.state[f"heard_{event.author}"] = event.content

    expression = SHAPES[shape].middleware(Notes())
    backend = mock_backend(default="a word")
    result = await expression.run("hi", backend=backend, state={"items": ["x"]})
    assert result.state["heard_a"] == "a word"
    assert "heard_b" in result.state
