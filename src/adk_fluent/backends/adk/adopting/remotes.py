"""ADK's agents for remote ones, as far as nothing about them is lost."""

from __future__ import annotations

from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent

from adk_fluent.backends.adk.compat import private
from adk_fluent.ir.nodes import RemoteAgentNode


def read_remote(agent: BaseAgent) -> RemoteAgentNode | str:
    """The node of a `RemoteA2aAgent`, or why it must stay what it is."""
    endpoint, seconds, more = private.made_with(agent)
    if endpoint is None or not endpoint.startswith(("http://", "https://")):
        return "its card is no URL"
    more += tuple(name for name in ("sub_agents", "mode", *_CALLBACKS) if getattr(agent, name, None))
    if more:
        return f"it has more than a URL: {', '.join(more)}"
    said: dict[str, Any] = {"description": agent.description} if agent.description else {}
    said["raises"] = False  # ADK tells of a failure by an event, too
    if endpoint.startswith("http://"):
        from adk_fluent.a2a.protocol.cards import is_loopback  # which the others do not need

        said |= {} if is_loopback(endpoint) else {"allow_http": True}
    return RemoteAgentNode(name=agent.name, endpoint=endpoint, timeout_seconds=seconds, **said)


_CALLBACKS: Final = ("before_agent_callback", "after_agent_callback")
