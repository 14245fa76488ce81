"""What the tools of an agent are made within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from google.adk.agents.base_agent import BaseAgent

from adk_fluent.backends.adk.resources import Resources
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import Named


@dataclass(frozen=True, slots=True)
class Making:
    """What a tool is made within.

    Attributes:
        agent: the agent that gets it.
        compiled: the native agent for an expression that is a tool, and its tree with unique names.
        resources: what functions are given by name.
        threads: whether functions that are not async are called in threads.
        parallel: whether their calls run at the same time.
    """

    agent: str
    compiled: Callable[[Node], tuple[BaseAgent, Named]]
    threads: bool = True
    resources: Resources = field(default_factory=dict[str, object])
    parallel: bool = False
