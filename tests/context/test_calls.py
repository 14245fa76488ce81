from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent, C, map_over
from adk_fluent.backends.adk.context.calls import PerContext
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.testing import MockBackend
from tests.context.talk import ask, contents, everything, system

Provider = Callable[[ReadonlyContext], Awaitable[str]]


def meeting(count: int) -> Provider:
    """An instruction that is given only when this many calls wait for theirs."""
    barrier = asyncio.Barrier(count)

    async def instruct(ctx: ReadonlyContext) -> str:
        await barrier.wait()
        return "Go."

    return instruct


def under_way(agent: Any) -> PerContext[Any]:
    """The calls in flight of a native agent's runs."""
    gc.collect()
    return agent.delivering.calls


def scripted(agent: Any, *answers: Any) -> MockBackend:
    """Let a native agent be asked by a script."""
    backend = MockBackend({"me": list(answers)}, session_service=InMemorySessionService())
    agent.model = backend.model_for(AgentNode(name="me"), "me")
    return backend


async def native(agent: Any, prompt: str = "GO") -> list[Event]:
    """One run of a native agent on ADK's own runner."""
    sessions = InMemorySessionService()
    runner = Runner(app_name="app", agent=agent, session_service=sessions)
    session = await sessions.create_session(app_name="app", user_id="u")
    message = types.UserContent(parts=[types.Part(text=prompt)])
    return [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message=message)]


@pytest.fixture
def unlogged() -> Iterator[None]:
    """Keeps errors out of the log, which pytest would keep with all their frames."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_items_of_a_map_are_not_mixed_up() -> None:
    """Items whose instructions are all prepared before any request is made get each their own context."""

    def write(request: LlmRequest) -> str:
        return "ABOUT " + system(request)[-2]

    items = ["x", "y", "z"]
    spec = C.from_agents("writer").as_contents() + C.from_state("_item")
    me = Agent("me").instruct(meeting(3)).context(spec)
    body = Agent("writer").instruct("Write about {_item}.") >> me
    says: dict[str, Any] = {"writer": write, "me": "M"}
    backend = await ask(map_over("items", body), responses=says, state={"items": items})
    requests = backend.calls["me"]
    shown = {item: [r for r in requests if f"[_item]: {item}\n" in system(r)] for item in items}
    for item, (request,) in shown.items():
        assert contents(request)[1:] == [("user", f"[writer] said: ABOUT {item}")]


async def test_calls_of_an_agent_as_a_tool_are_not_mixed_up() -> None:
    """Parallel calls of an agent as a tool each see their own request."""
    me: Any = Agent("me").instruct(meeting(2)).context(C.user_only() + C.from_state("k")).build()
    backend = scripted(me, "M-TEXT", "M-TEXT")
    calls = [types.FunctionCall(name="me", args={"request": text}) for text in ("ONE", "TWO")]
    both = types.Content(role="model", parts=[types.Part(function_call=call) for call in calls])
    desk = Agent("desk").tool(AgentTool(me, include_plugins=False))
    await ask(desk, responses={"desk": [both, "done"]}, state={"k": "v"})
    assert sorted(contents(request)[0][1] for request in backend.calls["me"]) == ["ONE", "TWO"]
    assert all("[k]: v" in everything(request) for request in backend.calls["me"])
    assert len(under_way(me)) == 0


async def test_a_run_leaves_nothing_behind() -> None:
    """After a run, with what helper models cost reported, nothing of it is kept."""
    me: Any = Agent("me").context(C.window(2) + C.from_state("k")).build()
    scripted(me, "M")
    assert [event.author for event in await native(me)] == ["me"]
    assert len(under_way(me)) == 0


@pytest.mark.usefixtures("unlogged")
async def test_an_instruction_that_raises_leaves_nothing_behind() -> None:
    """If the instruction raises after the context was prepared, nothing is kept of the call."""

    async def fail(ctx: ReadonlyContext) -> str:
        raise ValueError("no instruction")

    me: Any = Agent("me").instruct(fail).context(C.window(2)).build()
    scripted(me, "M")
    with pytest.raises(ValueError, match="no instruction"):
        await native(me)
    assert len(under_way(me)) == 0


@pytest.mark.usefixtures("unlogged")
async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    """A run that is cancelled between the context and the request is forgotten."""
    reached = asyncio.Event()

    async def wait(ctx: ReadonlyContext) -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    me: Any = Agent("me").instruct(wait).context(C.window(2)).build()
    scripted(me, "M")
    task = asyncio.create_task(native(me))
    await reached.wait()
    assert len(under_way(me)) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await asyncio.get_running_loop().shutdown_asyncgens()  # older ADKs leave them to the loop
    assert len(under_way(me)) == 0


async def test_an_instruction_asked_for_outside_a_run_is_not_kept() -> None:
    """A request for an agent's instruction leaves nothing that a later run could take."""
    me: Any = Agent("me").context(C.window(2) + C.from_state("k")).build()
    ctx = context_of(me, {"k": "v"})
    text, _ = await me.canonical_instruction(ReadonlyContext(ctx))
    assert "[k]: v" in text
    assert len(under_way(me)) == 1
    del ctx
    assert len(under_way(me)) == 0


def context_of(agent: Any, state: dict[str, Any]) -> InvocationContext:
    """A context of an agent, as ADK makes one for a run."""
    return InvocationContext(
        session_service=InMemorySessionService(),
        invocation_id="i",
        agent=agent,
        session=Session(id="s", app_name="app", user_id="u", state=state),
    )


def test_a_value_belongs_to_one_context() -> None:
    """Equal contexts have values of their own, and one in the place of another has a new one."""
    agent: Any = Agent("me").build()
    values: PerContext[list[int]] = PerContext(list[int])
    one, other = context_of(agent, {}), context_of(agent, {})
    values.of(one).append(1)
    assert values.of(one) == [1]
    assert values.of(other) == []
    for number in range(50):  # contexts made one after another often stand at the same place in memory
        made = context_of(agent, {"n": number})
        assert values.of(made) == []
        values.of(made).append(number)
        del made
    gc.collect()
    assert len(values) == 2
