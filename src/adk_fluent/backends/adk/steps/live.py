"""Live conversations, those of ADK's `Runner.run_live`: how a sequence hands over from agent to agent.

A live connection is one stream without an end, so that only the agent itself can tell when it is done. Like
ADK's `SequentialAgent`, a sequence gives its agents a function `task_completed` to call then; ADK closes the
agent's connection after that call, and the next agent opens one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import (
    ArtifactNode,
    CaptureNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransformNode,
    agent_of,
)
from adk_fluent.ir.passage import passages
from adk_fluent.ir.tools import confirms, tool_name

Events = AsyncGenerator[Event, None]

QUIET: Final = (TransformNode, TapNode, CaptureNode, ArtifactNode)
"""Steps that need no conversation; in a live one they do what they always do."""


def run_live(agent: BaseAgent, node: Node, ctx: InvocationContext, quietly: Callable[..., Events]) -> Events:
    """What the agent of a node that is no model does in a live conversation.

    Args:
        quietly: what it does in any other run.

    Raises:
        UnsupportedNodeError: it holds something that cannot run live; raised before anybody speaks.
    """
    _refuse(node)
    return _in_order(agent, ctx) if isinstance(node, SequenceNode) else quietly(ctx)


def refuse_live(root: Node) -> None:
    """Refuse a tree in which something cannot run live, wherever an agent may hand over to it.

    Raises:
        UnsupportedNodeError: it names that.
    """
    _refuse(root)
    for node in walk(root):
        refuse_asking(node)
        for child in node.children if agent_of(node) else ():
            _refuse(child)


def refuse_asking(node: Node) -> None:
    """Refuse what stops for a person before a tool is called: nobody could answer while the model waits.

    Raises:
        UnsupportedNodeError: it names the agent and the tool, or what has the middleware.
    """
    tools = agent.tools if (agent := agent_of(node)) else ()
    asking = next((tool_name(tool) or "a tool" for tool in tools if confirms(tool)), None)
    if asking is None and any(getattr(each, "may_pause", False) for each in node.annotations.middleware):
        asking = "tool_approval"
    if asking is not None:
        raise UnsupportedNodeError(
            f"{node.name!r} asks a person before a call ({asking}), which cannot be answered in a live "
            "conversation. Let the model ask in its own words, or use run() or stream()."
        )


def _refuse(node: Node) -> None:
    for step in _beside_agents(node):
        if isinstance(step, SequenceNode):
            if passages(step.children):
                raise UnsupportedNodeError(
                    f"{step.name!r} passes an answer on in pieces, which a live conversation cannot: there "
                    "an agent hands over when it is done. Leave out .stream_to(...), or use run() or "
                    "stream()."
                )
        elif not isinstance(step, QUIET):
            raise UnsupportedNodeError(
                f"{step.name!r} ({step.kind}) cannot run in a live conversation; agents can, and sequences "
                f"of agents, transforms, taps, captures and artifact operations. {_remedy(step)}"
            )


def _beside_agents(node: Node) -> Iterator[Node]:
    """A node and what it runs in order, beside agents."""
    if isinstance(node, SequenceNode):
        yield node
        for child in node.children:
            yield from _beside_agents(child)
    elif not agent_of(node):
        yield node


def _remedy(node: Node) -> str:
    if isinstance(node, TimeoutNode):
        return "Leave out .timeout(seconds), or ExecutionConfig(timeout_seconds=)."
    return "Use run() or stream(), or let an agent call it as a tool: T.agent(expression)."


async def _in_order(sequence: BaseAgent, ctx: InvocationContext) -> Events:
    for child in _handing_over(sequence).sub_agents:
        async with aclosing(child.run_live(ctx)) as events:
            async for event in events:
                yield event


def _handing_over(sequence: BaseAgent) -> BaseAgent:
    """A copy of a sequence whose agents can say that they are done; other runs must not see that function."""
    copied = sequence.clone()
    copied.parent_agent = sequence.parent_agent
    pending = [copied]
    while pending:
        agent = pending.pop()
        pending += agent.sub_agents
        for child in agent.sub_agents if isinstance(getattr(agent, "ir", None), SequenceNode) else ():
            tools = cast("list[object]", getattr(child, "tools", []))
            if isinstance(child, LlmAgent) and not any(map(_is_hand_over, tools)):
                tools.append(HandOverTool())
    return copied


def _is_hand_over(tool: object) -> bool:
    """Whether a tool has the name by which ADK knows that an agent is done."""
    named = cast(Any, tool)
    return getattr(named, "name", getattr(named, "__name__", "")) == task_completed.__name__


def task_completed() -> str:
    """Signals that the agent has successfully completed the user's question or task."""
    return "Task completion signaled."


class HandOverTool(FunctionTool):
    """The function by which an agent hands over, with the instruction to call it."""

    def __init__(self) -> None:
        super().__init__(task_completed)

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Add both to a request."""
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions(
            [
                "When you have finished the user's request according to its description, call the function "
                f"{self.name}, so that the next agent can take over. Generate no text beside that call."
            ]
        )
