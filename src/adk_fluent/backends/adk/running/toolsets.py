"""Toolsets, such as connections to MCP servers: open as long as somebody uses them, then closed.

A toolset opens by itself when it is first asked for its tools, and ADK's runner closes those of its agents
when it is closed itself. Our runners are kept and shared by runs at the same time, and one toolset may stand
in several expressions, so its users are counted here, for the whole process: the last one closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.tools.agent_tool import AgentTool as AdkAgentTool
from google.adk.tools.base_toolset import BaseToolset

from adk_fluent._tasks import run_to_end
from adk_fluent._tracebacks import in_logs
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.mcp_sessions import end_with_the_run
from adk_fluent.backends.adk.tools.around import AroundToolset
from adk_fluent.backends.adk.tools.sources import mcp_toolset
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.tools import innermost
from adk_fluent.tools.sources import AgentTool, Mcp

logger: logging.Logger = logging.getLogger("adk_fluent.tools")

PATIENCE: Final = 10.0
"""Seconds that a toolset may take to close, as in ADK."""


def toolsets_of(*parts: object) -> tuple[BaseToolset, ...]:
    """The toolsets of native agents, workflows and tools, and of the agents inside them; each once.

    Of one with something around its calls, the one inside: it is what others use, too, and alone is closed.
    """
    found = (part for part in _inside(*parts) if isinstance(part, BaseToolset))
    return tuple(part for part in found if not isinstance(part, AroundToolset))


def every_agent(*parts: object) -> Iterator[BaseAgent]:
    """The agents of native agents, workflows and tools, those inside tools included; each once."""
    return (part for part in _inside(*parts) if isinstance(part, BaseAgent))


def _inside(*parts: object) -> Iterator[object]:
    """All parts of native agents, workflows and tools, parents before children; each once."""
    seen: set[int] = set()
    pending = list(reversed(parts))
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        pending += reversed(_parts(part))


def _parts(whole: object) -> list[object]:
    """What one of them is made of."""
    if isinstance(whole, AroundToolset):
        return [whole.inner]
    if isinstance(whole, AdkAgentTool):
        return [whole.agent]
    if isinstance(whole, BaseAgent):
        return [*whole.sub_agents, *getattr(whole, "tools", ())]
    if isinstance(whole, BaseToolset):
        return []
    # ADK 2's workflows hold agents as nodes of a graph, and are held by tools as a node themselves
    nodes: list[object] = list(getattr(getattr(whole, "graph", None), "nodes", ()))
    return nodes if (node := getattr(whole, "node", None)) is None else [*nodes, node]


def agents_inside(tool: object) -> Iterator[BaseAgent]:
    """The agents that a tool runs, without those below them."""
    for part in _parts(tool):
        if isinstance(part, BaseAgent):
            yield part
        else:
            yield from agents_inside(part)


def toolsets_in(root: Node) -> tuple[BaseToolset, ...]:
    """The toolsets of the agents of a tree, and of the agents that are tools in it."""
    return toolsets_of(*_tools_in(root))


def _tools_in(root: Node) -> Iterator[object]:
    for node in walk(root):
        if (native := node.as_given) is not None:
            yield native.value
        elif (agent := agent_of(node)) is not None:
            for part in (part for tool in agent.tools for part in innermost(tool)):
                yield mcp_toolset(part, node.name) if isinstance(part, Mcp) else part
                if isinstance(part, AgentTool):
                    yield from _tools_in(part.body)


@dataclass(frozen=True, slots=True)
class OpenTools:
    """What the tools of a tree hold open, such as connections to MCP servers.

    Attributes:
        root: the tree.
    """

    root: Node

    async def take(self) -> None:
        """Keep it open from run to run; to be followed by `give_back`."""
        await take(toolsets_in(self.root))

    async def give_back(self) -> None:
        """Close it, unless another run or expression uses it."""
        await give_back(toolsets_in(self.root))

    def in_use(self) -> AbstractAsyncContextManager[None]:
        """Keep it open to the end, whatever opens it; the last user closes it."""
        return in_use(toolsets_in(self.root))


@dataclass(slots=True)
class _Use:
    """A toolset in use.

    Attributes:
        users: how many use it now.
        closing: what closes it after its last user.
    """

    toolset: BaseToolset
    users: int = 0
    closing: asyncio.Task[None] | None = None


_uses: dict[int, _Use] = {}
_lock = Lock()  # `ask` may be called in several threads, each with an event loop of its own


@asynccontextmanager
async def in_use(toolsets: tuple[BaseToolset, ...]) -> AsyncGenerator[None]:
    """Whatever opens these toolsets meanwhile, they stay open to the end; the last user closes them."""
    if not toolsets:
        yield
        return
    await take(toolsets)
    try:
        yield
    finally:
        await give_back(toolsets)


async def take(toolsets: tuple[BaseToolset, ...]) -> None:
    """Become a user of these toolsets; to be followed by `give_back`."""
    for toolset in toolsets:
        end_with_the_run(toolset)
    with _lock:
        uses = [_uses.setdefault(id(toolset), _Use(toolset)) for toolset in toolsets]
        for use in uses:
            use.users += 1
    here = asyncio.get_running_loop()
    closing = [use.closing for use in uses if use.closing is not None and use.closing.get_loop() is here]
    if closing:
        try:
            await asyncio.wait(closing)
        except asyncio.CancelledError:
            await give_back(toolsets)
            raise


async def give_back(toolsets: tuple[BaseToolset, ...]) -> None:
    """Stop being a user of these toolsets, and close those that were nobody else's."""
    idle: list[_Use] = []
    for toolset in toolsets:
        with _lock:
            use = _uses[id(toolset)]
            use.users -= 1
            if use.users == 0:
                use.closing = use.closing or asyncio.ensure_future(_close(use))
                idle.append(use)
    if idle:
        await run_to_end(asyncio.wait([use.closing for use in idle if use.closing is not None]))


async def _close(use: _Use) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await use.toolset.close()
        private.forget_tools(use.toolset)
    except Exception as error:  # noqa: BLE001  # it is somebody else's, and the answer is there already
        logger.warning("Toolset %s could not be closed: %s.", type(use.toolset).__name__, in_logs(error))
    finally:
        with _lock:
            use.closing = None
            if use.users == 0:
                del _uses[id(use.toolset)]
