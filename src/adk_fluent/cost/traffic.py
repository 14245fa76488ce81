"""`TrafficAssumptions`, and the probabilities that follow: of branches, of delegates, of agents in tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Final, cast

from adk_fluent.analysis.plan import Plan, Step, plan
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.tools import ToolSpec, innermost
from adk_fluent.spelling import did_you_mean

Numbers = float | Mapping[str, float] | None
"""A number for all, numbers by name, or `None` for the default."""


@dataclass(frozen=True, kw_only=True)
class TrafficAssumptions:
    """Assumptions about the use of a pipeline; fields that you leave out have defaults, which reports list.

    Attributes:
        invocations_per_day: user messages per day.
        avg_input_tokens: tokens of a user's message.
        avg_output_tokens: tokens of an answer, including thoughts. If a route compares an agent's answer with
            labels, the answer is a label. No answer is longer than its agent's `max_output_tokens`.
        branch_probabilities: probabilities of a route's branches, of delegates, and of conditional transfers,
            by the name of an agent or by the value that a route compares with. For an agent in a tool, its
            share of the caller's tool calls. Branches that are not named share the rest.
        output_tokens: tokens of an agent's answers, by its name, if they differ from the average.
        loop_iterations: rounds of all loops, or of each loop by name; by default 2, or all rounds if nothing
            can end the loop earlier.
        map_items: items of all maps, or of each map by its name or its list's key; by default 3.
        tool_calls: tool calls per answer of an agent with tools, for all or by agent; by default 1.
        tool_result_tokens: tokens of a tool's result.
        key_tokens: tokens of a state value that no agent of the pipeline writes, for all or by key.
        fallback_rate: probability that an alternative before a `//` fails.
        wrong_answer_rate: probability that an answer does not match its type; the agent is then asked again,
            as often as its `returns(retries=)` allows.
        retries: average number of additional attempts of a model call; each costs as much as the first.
        turns_per_session: user messages per session; each request contains the earlier messages and answers.
        characters_per_token: characters per token of instructions and descriptions.
        tokens_per_message: tokens that a provider adds to each message of a request.
        quote_tokens: tokens around another agent's text; by default those of the installed ADK.

    Raises:
        ArgumentError: a number is negative, a probability is above 1, or a value is not a number.
    """

    invocations_per_day: float = 1_000
    avg_input_tokens: float = 500
    avg_output_tokens: float = 200
    branch_probabilities: Mapping[str, float] = field(default_factory=dict[str, float])
    output_tokens: Mapping[str, float] = field(default_factory=dict[str, float])
    loop_iterations: Numbers = None
    map_items: Numbers = None
    tool_calls: Numbers = None
    tool_result_tokens: float = 100
    key_tokens: float | Mapping[str, float] = 50
    fallback_rate: float = 0.05
    wrong_answer_rate: float = 0.05
    retries: float = 0
    turns_per_session: float = 1
    characters_per_token: float = 4
    tokens_per_message: float = 4
    quote_tokens: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value: object = getattr(self, one.name)
            if isinstance(value, Mapping):
                for name, number in cast("Mapping[str, object]", value).items():
                    _check(number, f"{one.name}={{{name!r}: …}}", most=_MOST.get(one.name))
            elif one.name in _BY_NAME:
                raise ArgumentError(f"{one.name}= takes numbers by name, not {value!r:.40}.")
            elif value is not None or one.default is not None:
                _check(value, f"{one.name}=", least=_LEAST.get(one.name, 0.0), most=_MOST.get(one.name))

    def check_names(self, known: Mapping[str, Iterable[str]]) -> None:
        """Refuse names that do not exist in a pipeline.

        Args:
            known: for each field, the names that it may use.

        Raises:
            ArgumentError: a name is not among them; the message has the nearest name.
        """
        for where, names in known.items():
            given: Any = getattr(self, where)
            allowed = list(names)
            for name in cast("Iterable[str]", given) if isinstance(given, Mapping) else ():
                if name not in allowed:
                    there = did_you_mean(str(name), allowed) or f" There is {', '.join(allowed) or 'none'}."
                    raise ArgumentError(
                        f"{where}= names {name!r}, and there is no such {_KINDS[where]}.{there}"
                    )


_LEAST: Final = {"turns_per_session": 1.0, "characters_per_token": 0.1}
_MOST: Final = {"branch_probabilities": 1.0, "fallback_rate": 1.0, "wrong_answer_rate": 1.0}
_BY_NAME: Final = ("branch_probabilities", "output_tokens")
_KINDS: Final = {
    "branch_probabilities": "branch",
    "output_tokens": "agent",
    "loop_iterations": "loop",
    "map_items": "map or list key",
    "tool_calls": "agent with tools",
}


def _check(value: object, where: str, *, least: float = 0.0, most: float | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ArgumentError(f"{where} takes a number, not {value!r:.40}.")
    if value < least or (most is not None and value > most):
        span = f"from {least:g} up" if most is None else f"from {least:g} to {most:g}"
        raise ArgumentError(f"{where} takes a number {span}, not {value!r}.")


# --- probabilities of branches --------------------------------------------------------------------


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
