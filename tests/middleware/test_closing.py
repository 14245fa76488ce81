"""What a middleware holds is given back once: by ADK's runner, or by the expression, when no run needs it."""

from __future__ import annotations

import asyncio

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent
from adk_fluent.errors import MiddlewareError
from adk_fluent.middleware import Context, Middleware
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang

a, b = Agent("a"), Agent("b")


class Holds(Middleware):
    """Notes that it was closed."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.closed = 0
        self.problem = problem

    async def before_model(self, ctx: Context, request: LlmRequest) -> str | None:
        return None

    async def close(self) -> None:
        self.closed += 1
        if self.problem:
            raise self.problem


class Says(Middleware):
    async def before_model(self, ctx: Context, request: LlmRequest) -> str:
        return "x"


async def test_runs_leave_it_open_and_the_expression_closes_it() -> None:
    """It serves run after run; `aclose` and the end of `async with` close it, each object once."""
    holds = Holds()
    pipeline = (a.middleware(holds) >> b).middleware(holds)
    async with pipeline:
        await pipeline.run("hi", backend=mock_backend(default="x"))
        await pipeline.run("hi", backend=mock_backend(default="x"))
        assert holds.closed == 0
    assert holds.closed == 1
    await pipeline.aclose()
    assert holds.closed == 2


async def test_adks_runner_closes_it() -> None:
    """`runner.close()` closes the middleware of the app."""
    holds = Holds()
    runner = InMemoryRunner(app=Agent("a", "gemini-2.5-flash").middleware(holds, Says()).to_app())
    await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
        pass
    assert holds.closed == 0
    await runner.close()
    assert holds.closed == 1


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's, of its own AgentTool
async def test_an_agent_inside_a_tool_does_not_close_it() -> None:
    """The runner of an `AgentTool` ends in the middle of the run; the middleware goes on."""
    holds = Holds()
    backend = mock_backend({"a": [call_tool("expert", request="go"), "done"], "expert": "I know"})
    boss = a.tool(AgentTool(Agent("expert").build())).middleware(holds)
    assert await boss.ask_async("hi", backend=backend) == "done"
    assert holds.closed == 0


async def test_what_a_run_needs_stays_open() -> None:
    """`aclose` while another run is on leaves it open."""
    holds, hang = Holds(), Hang()
    agent = a.middleware(holds)
    task = asyncio.create_task(agent.ask_async("hi", backend=mock_backend({"a": hang})))
    await hang.started.wait()
    await agent.aclose()
    assert holds.closed == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await agent.aclose()
    assert holds.closed == 1


async def test_one_that_cannot_be_closed_is_named() -> None:
    """The error names it, and the others are closed all the same."""
    first, second = Holds(OSError("busy")), Holds()
    with pytest.raises(MiddlewareError, match=r"Holds\.close\(\) raised OSError: busy\."):
        await a.middleware(first, second).aclose()
    assert (first.closed, second.closed) == (1, 1)
