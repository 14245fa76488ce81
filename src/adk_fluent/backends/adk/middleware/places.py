"""What is known of the step at hand, for those who tell of runs."""

from __future__ import annotations

from typing import Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent

from adk_fluent.analysis.visibility import Outlet, outlet_of
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware.runs import root_of
from adk_fluent.backends.recent import Recent
from adk_fluent.ir.base import Node
from adk_fluent.middleware.enriching import Step

_outlets: Final[Recent[tuple[object, Outlet | None]]] = Recent(256)


def step_at(ctx: InvocationContext) -> Step:
    """What is known of the agent of a context.

    What an agent says inside a tool is for the agent that called it, so it is `internal`.
    """
    agent, root = ctx.agent, root_of(ctx)
    outlet = _outlet(_root(agent)) or _outlet(root)
    if private.caller(ctx) is not None:
        visibility = "internal"
    else:
        visibility = "user" if outlet is None else outlet.visibility_of(_name(agent)).visibility
    return Step(_name(root), _kind(agent), visibility)


def pipeline_at(ctx: InvocationContext) -> str:
    """The name of the expression that runs."""
    return _name(root_of(ctx))


def _root(agent: object) -> object:
    """The root above an agent; a node of ADK's graphs has none."""
    return agent.root_agent if isinstance(agent, BaseAgent) else agent


def _name(agent: object) -> str:
    return str(getattr(agent, "name", ""))


def _kind(agent: object) -> str:
    if (node := node_of(agent)) is not None:
        return node.kind
    return "agent" if isinstance(agent, LlmAgent) else type(agent).__name__


def _outlet(root: object) -> Outlet | None:
    def made() -> tuple[object, Outlet | None]:
        node = node_of(root)
        return root, None if node is None else outlet_of(node)  # kept, so that its id stays its own

    return _outlets.get((id(root),), made)[1]


def node_of(agent: object) -> Node | None:
    """The node that an agent was compiled from; `None` for one of ADK's own."""
    node = getattr(agent, "ir", None)
    return node if isinstance(node, Node) else None
