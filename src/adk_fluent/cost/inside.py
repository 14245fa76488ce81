"""The agents that an agent has as tools: trees of their own, each run with one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from adk_fluent.analysis.plan import Plan, Step, plan
from adk_fluent.cost.branching import labels_of
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.tools import ToolSpec, innermost

Place = tuple[int, ...]
"""Where a step stands: its index, behind the places of the agents whose tools it is in."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolAgents:
    """The agents in one tool.

    Attributes:
        plan: their tree.
        labels: state key → tokens of the labels that a route in it compares it with.
    """

    plan: Plan
    labels: Mapping[str, float]


def trees_in_tools(node: AgentNode) -> Iterator[Plan]:
    """The trees of the agents that an agent has as tools, as expressions or built of some."""
    for tool in node.tools:
        for part in innermost(tool):
            if isinstance(part, ToolSpec):
                if part.agents is not None:
                    yield plan(part.agents)
            elif isinstance(tree := getattr(_agent_of(part), "ir", None), Node):
                yield plan(tree, resolved=True)


def foreign_agents(node: AgentNode) -> Iterator[str]:
    """The names of the agents written by hand that an agent has as tools; their models nobody here knows."""
    agents = (_agent_of(part) for tool in node.tools for part in innermost(tool))
    return (str(getattr(each, "name", "")) for each in agents if each is not None and not hasattr(each, "ir"))


def _agent_of(tool: object) -> object | None:
    return None if isinstance(tool, ToolSpec) else getattr(tool, "agent", None)


def agents_in_tools(step: Step, traffic: TrafficAssumptions) -> Mapping[ToolAgents, float]:
    """These, each with how likely a call of a tool of this agent is a call of it.

    What `branch_probabilities` does not say is shared by all its other tools.
    """
    given, tools = traffic.branch_probabilities, [one for tool in step.node.tools for one in _flat(tool)]
    trees = [ToolAgents(tree, labels_of(tree, traffic)) for tree in trees_in_tools(step.node)]
    said = {tree: share for tree in trees if (share := _said(tree, given)) is not None}
    left = max(0.0, 1 - sum(said.values())) / max(1, len(tools) - len(said))
    return {tree: said.get(tree, left) for tree in trees}


def _said(tree: ToolAgents, given: Mapping[str, float]) -> float | None:
    root = tree.plan.root
    return given.get(root.name, given.get(root.origin))


def _flat(tool: object) -> Iterator[object]:
    """The tools that a model is told of."""
    if isinstance(tool, ToolSpec) and tool.called is None and tool.held:  # several in one
        for one in tool.held:
            yield from _flat(one)
    else:
        yield tool
