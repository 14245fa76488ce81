"""Expressions whose steps write down what they do, and wait while they are told to; for worker processes.

The folder in `FOLDER` holds `log`, a line for each thing that begins or ends, and, for each step that is to
wait, a file `hold-NAME`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent, C, FanOut, Loop, RemoteAgent, Route, S, T, gate, map_over, race
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import cache, fallback_model, retry
from tests.limits import LIMIT

FOLDER = "ADK_FLUENT_TEST_FOLDER"


def folder() -> Path:
    """Where this process writes what it does."""
    return Path(os.environ[FOLDER])


def write(line: str) -> None:
    """Write a line to the log, and who writes it."""
    with (folder() / "log").open("a") as log:
        log.write(f"{line} in {os.getpid()}\n")


async def step(name: str) -> None:
    """Begin, wait while `hold-NAME` is there, die if `die-NAME` is there, and end."""
    write(f"{name} begins")
    if (folder() / f"die-{name}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while (folder() / f"hold-{name}").exists():
        await asyncio.sleep(0.02)
    write(f"{name} ends")


CALLS = {"caller": "look", "shouter": "shout"}
"""Model → the tool that it calls first."""


class Noting(BaseLlm):
    """Answers with its name, in two pieces when streaming; those of `CALLS` call a tool first."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer."""
        parts = [part for content in llm_request.contents for part in content.parts or []]
        if self.model in CALLS and not any(part.function_response for part in parts):
            call = types.FunctionCall(name=CALLS[self.model], args={"request": "Go.", "text": "hi"})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
            return
        if stream:
            yield _said("I am ", partial=True)
        await step(self.model)
        if stream:
            yield _said(f"{self.model}.", partial=True)
        yield _said(f"I am {self.model}.")


def _said(text: str, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)


async def look() -> str:
    """Look around."""
    await step("look")
    return "nothing"


async def compute(state: object) -> dict[str, str]:
    """A step with an effect."""
    await step("compute")
    return {"computed": "yes"}


def agent(name: str) -> Agent[str]:
    """An agent that answers with its name."""
    return Agent(name, Noting(model=name)).writes(f"said_{name}")


cut = agent("first") >> agent("second").execution_boundary() >> agent("last").execution_boundary()
"""Three segments."""

poisoned = agent("first") >> agent("poison")

pipeline = agent("first") >> compute >> agent("caller").tool(look) >> agent("last")
"""A model call, a function, a tool between two model calls, a model call."""

rounds = Loop(agent("first"), max_iterations=10) >> agent("last")
"""A model call, ten times, and another one."""


def always(state: object) -> bool:
    """Ask."""
    return True


gated = agent("first") >> gate(always, message="Go on?") >> agent("last")
"""Waits for a person between two model calls."""


def remote() -> Expr[str]:
    """A remote agent, whose address is in the file `endpoint`, between two model calls."""
    far = RemoteAgent("far", endpoint=(folder() / "endpoint").read_text())
    return agent("first") >> far >> agent("last")


def remote_tool() -> Expr[str]:
    """The same remote agent as a tool."""
    far = T.a2a((folder() / "endpoint").read_text(), name="look")
    return agent("first") >> agent("caller").tools(far) >> agent("last")


def shouting() -> Expr[str]:
    """A tool of an MCP server over stdin and stdout, between two model calls."""
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from google.adk.tools.mcp_tool.mcp_toolset import McpToolset

    server = Path(__file__).parents[1] / "mcp_server.py"
    parameters: Any = import_module("mcp").StdioServerParameters(
        command=sys.executable, args=[str(server), str(folder() / "mcp")]
    )
    tools = McpToolset(connection_params=StdioConnectionParams(server_params=parameters, timeout=LIMIT))
    return agent("first") >> agent("shouter").tools(tools) >> agent("last")


class Broken(BaseLlm):
    """Never answers."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Fail."""
        raise ConnectionError("down")
        yield


helped = (
    agent("first")
    >> agent("last").context(C.summarize(model=Noting(model="helper")))
    >> Agent("broken", Broken(model="broken")).middleware(fallback_model(Noting(model="other")))
)
"""Asks models that are not those of its agents: a context's, and one in place of another."""


def sharing() -> Expr[str]:
    """Two model calls, whose answers all workers keep in a folder."""
    return (agent("first") >> agent("last")).middleware(cache(folder() / "answers"), retry())


def blocks(state: object) -> bool:
    """Takes longer than a decision may: for ever."""
    write("blocks begins")
    threading.Event().wait()
    return True


blocked = Route("x").when(blocks, agent("first")).otherwise(agent("last"))
"""Decides by a predicate that blocks."""

blocked_later = agent("caller").tool(look) >> blocked
"""A model call before it."""


everything = (
    S.set(items=["a", "b"])
    >> FanOut(agent("left"), agent("right"))
    >> Loop(agent("again"), max_iterations=2)
    >> Route("said_left").contains("left", agent("routed"))
    >> map_over("items", agent("each"), concurrency=1)
    >> race(agent("quick"), agent("late"))
    >> (Agent("broken", Broken(model="broken")) // agent("spare"))
    >> agent("timed").timeout(300)
    >> Agent("boss", Noting(model="caller")).tools(T.agent(Agent("look", Noting(model="inner"))))
    >> agent("last")
)
"""A model call in each composite, and in a tool."""
