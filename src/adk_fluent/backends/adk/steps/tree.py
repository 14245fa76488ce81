"""Finding one's way in a tree of native agents."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm

from adk_fluent.cost.prices import name_of
from adk_fluent.inspection import presentation

logger: logging.Logger = logging.getLogger("adk_fluent.models")


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


def default_model() -> str | BaseLlm:
    """The model of an agent that names none, as ADK has it now."""
    return cast("str | BaseLlm", presentation.default_model())


def tell_default_model(agents: Iterable[BaseAgent]) -> None:
    """Log which model answers for the agents that name none; once for the same agents."""
    unnamed = [agent.name for agent in agents if isinstance(agent, LlmAgent) and model_of(agent) is None]
    if unnamed:
        _tell(tuple(unnamed), name_of(default_model()))


@cache
def _tell(agents: tuple[str, ...], model: str) -> None:
    more = f" and {len(agents) - 5} more" if len(agents) > 5 else ""
    verb = "names" if len(agents) == 1 else "name"
    logger.info(
        "%s%s %s no model, so ADK's default is asked: %s. To choose one, write Agent(%r, model).",
        ", ".join(map(repr, agents[:5])),
        more,
        verb,
        model,
        next(iter(agents)),
    )
