"""Where middleware does not act, the log says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent
from adk_fluent.middleware import retry, timeout
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Client, PlainLlm, called, reply

pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")


async def calls_a(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
    """Call the agent `a` as a tool, then be done."""
    call = types.Part.from_function_call(name="a", args={"request": "go"})
    yield reply("done") if called(request) else LlmResponse(content=types.Content(role="model", parts=[call]))


async def says_yes(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
    """Agree."""
    yield reply("yes")


A, B = Agent("a", PlainLlm.of(says_yes)), Agent("b", PlainLlm.of(says_yes))
CURE = "Give ADK the app of to_app(), or take to_runner()."
ADVICE = f"does not act, since what build() gives has no plugins. {CURE}"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about middleware."""
    return [record.getMessage() for record in caplog.records if record.name == "adk_fluent.middleware"]


async def test_a_built_agent_says_once_that_its_middleware_does_not_act(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each part of a tree that has middleware of its own says so in the first run, and never again."""
    runner = InMemoryRunner(agent=(A.middleware(retry()) >> B >> B).middleware(timeout(9)).build())
    for _ in range(2):
        await runner.run_debug("hi", quiet=True)
    assert lines(caplog) == [
        f"'sequence': its middleware (Timeout) {ADVICE}",
        f"'a': its middleware (Timeout, Retry) {ADVICE}",
    ]


async def test_so_does_one_in_a_tool_of_a_native_agent(caplog: pytest.LogCaptureFixture) -> None:
    """ADK's own agent brings no plugin of ours to the agents in its tools."""
    boss = LlmAgent(name="boss", model=PlainLlm.of(calls_a), tools=[AgentTool(A.middleware(retry()).build())])
    await InMemoryRunner(agent=boss).run_debug("hi", quiet=True)
    assert lines(caplog) == [f"'a': its middleware (Retry) {ADVICE}"]


async def test_where_it_acts_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """In a run, on ADK's runner with the app, and in a tool of an expression it acts."""
    backend = mock_backend({"a": "yes", "boss": [call_tool("a", request="go"), "done"]})
    await A.middleware(retry()).run("hi", backend=backend)
    await Client.of(A.middleware(retry()), backend).say("hi")
    await Agent("boss").tool(AgentTool(A.middleware(retry()).build())).run("hi", backend=backend)
    await InMemoryRunner(agent=A.build()).run_debug("hi", quiet=True)
    assert lines(caplog) == []
