"""Probabilities of the branches of a route, the delegates of an agent, and the agents in its tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adk_fluent.analysis.plan import Plan, Step, plan
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.tools import ToolSpec, innermost


def branch_names(step: Step) -> list[tuple[Step, set[str]]]:
    """The branches of a route, or the delegates of an agent, each with the names that assumptions may use."""
    runs = step.node.runs
    found = [(child, {child.name, child.origin, *_first(child)}) for child in step.children]
    if isinstance(runs, FirstMatch):
        for place, (_, names) in enumerate(found):
            if (label := runs.label(place)) is not None:
                names.add(label)
    return found


def _first(step: Step) -> Iterable[str]:
    """The name of the first agent in a branch, which identifies the branch."""
    while step.children and not step.node.speaks:
        step = step.children[0]
    return (step.name, step.origin)


def branch_probabilities(step: Step, traffic: TrafficAssumptions) -> tuple[dict[Step, float], float]:
    """The given probabilities of branches, and the remaining probability of the others.

    Raises:
        ArgumentError: the sum is more than 1, or it is less and there are no other branches.
    """
    given = traffic.branch_probabilities
    if not given or not step.children:
        return {}, 1.0
    found: dict[Step, float] = {}
    for child, names in branch_names(step):
        shares = [given[name] for name in given if name in names]
        if shares:
            found[child] = shares[0]
    total = sum(found.values())
    runs = step.node.runs
    whole = len(found) == len(step.children) and isinstance(runs, FirstMatch) and runs.default
    short = whole and total < 0.995
    if total > 1.005 or short:
        said = ", ".join(f"{child.name} {share:g}" for child, share in found.items())
        raise ArgumentError(
            f"The probabilities of the branches of {step.name!r} add up to {total:g}, not 1: {said}."
        )
    return found, max(0.0, 1 - total)


def label_tokens(tree: Plan, traffic: TrafficAssumptions) -> Mapping[str, float]:
    """For each state key, the tokens of the labels that routes compare it with."""
    found: dict[str, list[float]] = {}
    for step in tree.steps:
        if isinstance(step.node.runs, FirstMatch):
            for test in step.node.runs.tests:
                if isinstance(test, Match) and test.op == "eq" and isinstance(test.value, str):
                    length = len(test.value) / traffic.characters_per_token + 1
                    found.setdefault(test.key, []).append(length)
    return {key: sum(lengths) / len(lengths) for key, lengths in found.items()}


# --- agents in tools ------------------------------------------------------------------------------

Place = tuple[int, ...]
"""The position of a step: the indexes of the agents whose tools contain it, then its own index."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolAgents:
    """The agents in one tool.

    Attributes:
        plan: the tree of these agents.
        labels: for each state key, the tokens of the labels that a route in the tree compares it with.
    """

    plan: Plan
    labels: Mapping[str, float]


def trees_in_tools(node: AgentNode) -> Iterator[Plan]:
    """The trees of an agent's tools that are expressions, or native agents that adk-fluent built."""
    for tool in node.tools:
        for part in innermost(tool):
            if isinstance(part, ToolSpec):
                if part.agents is not None:
                    yield plan(part.agents)
            elif isinstance(tree := getattr(_agent_of(part), "ir", None), Node):
                yield plan(tree, resolved=True)


def native_agent_names(node: AgentNode) -> Iterator[str]:
    """The names of an agent's tools that are handwritten native agents; their models are unknown."""
    agents = (_agent_of(part) for tool in node.tools for part in innermost(tool))
    return (str(getattr(each, "name", "")) for each in agents if each is not None and not hasattr(each, "ir"))


def _agent_of(tool: object) -> object | None:
    return None if isinstance(tool, ToolSpec) else getattr(tool, "agent", None)


def agents_in_tools(step: Step, traffic: TrafficAssumptions) -> Mapping[ToolAgents, float]:
    """The agents in the tools of an agent, each with its share of the agent's tool calls.

    All tools without an entry in `branch_probabilities` share the remaining calls equally.
    """
    given, tools = traffic.branch_probabilities, [one for tool in step.node.tools for one in _flat(tool)]
    trees = [ToolAgents(tree, label_tokens(tree, traffic)) for tree in trees_in_tools(step.node)]
    said = {tree: share for tree in trees if (share := _given_share(tree, given)) is not None}
    left = max(0.0, 1 - sum(said.values())) / max(1, len(tools) - len(said))
    return {tree: said.get(tree, left) for tree in trees}


def _given_share(tree: ToolAgents, given: Mapping[str, float]) -> float | None:
    root = tree.plan.root
    return given.get(root.name, given.get(root.origin))


def _flat(tool: object) -> Iterator[object]:
    """The tools that a request lists."""
    if isinstance(tool, ToolSpec) and tool.called is None and tool.held:  # a value that holds several tools
        for one in tool.held:
            yield from _flat(one)
    else:
        yield tool
