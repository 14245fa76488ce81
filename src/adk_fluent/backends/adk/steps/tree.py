"""Finding one's way in a tree of native agents."""

from __future__ import annotations

from collections.abc import Iterator

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm

DEFAULT_MODEL: str = LlmAgent.DEFAULT_MODEL
"""The model of an agent that names none, as ADK has it."""


def below(agent: BaseAgent) -> Iterator[BaseAgent]:
    """`agent` and all agents below it."""
    pending = [agent]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(current.sub_agents)


def ancestors(agent: BaseAgent) -> Iterator[BaseAgent]:
    """The agents above `agent`, the nearest first."""
    above = agent.parent_agent
    while above is not None:
        yield above
        above = above.parent_agent


def encloses(outer: BaseAgent, inner: BaseAgent) -> bool:
    """Whether `outer` is above `inner` in the tree."""
    return any(above is outer for above in ancestors(inner))


def model_of(agent: BaseAgent | None) -> str | BaseLlm | None:
    """The model that an agent has: its own, or that of an agent above; `None` where there is neither."""
    while agent is not None:
        if isinstance(agent, LlmAgent) and agent.model:
            return agent.model
        agent = agent.parent_agent
    return None
