"""Finding one's way in a tree of native agents."""

from __future__ import annotations

from collections.abc import Iterator

from google.adk.agents.base_agent import BaseAgent


def below(agent: BaseAgent) -> Iterator[BaseAgent]:
    """`agent` and all agents below it."""
    pending = [agent]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(current.sub_agents)


def encloses(outer: BaseAgent, inner: BaseAgent) -> bool:
    """Whether `outer` is above `inner` in the tree."""
    above = inner.parent_agent
    while above is not None and above is not outer:
        above = above.parent_agent
    return above is outer
