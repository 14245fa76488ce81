"""Adopting what ADK alone made: a hundred agents, and the check of them."""

from __future__ import annotations

from collections.abc import Iterator

from google.adk.agents import LlmAgent
from google.adk.tools import exit_loop

from adk_fluent import Agent
from adk_fluent.adopt import adopt
from adk_fluent.contracts import check_all
from benchmarks.harness import Figure, compare

ROUNDS = 20
COUNT = 100


def save(order: str, tool_context: object) -> str:
    """Save an order."""
    return order


def native() -> LlmAgent:
    """A root with ninety-nine sub-agents, each with an instruction, a key and tools."""
    agents = [
        LlmAgent(
            name=f"a{number}",
            instruction=f"Go on from {{k{number - 1}?}}.",
            output_key=f"k{number}",
            tools=[save, exit_loop],
        )
        for number in range(1, COUNT)
    ]
    return LlmAgent(name="root", instruction="Choose.", sub_agents=list(agents))


def fluent() -> Agent[str]:
    """The same as an expression."""
    agents = [
        Agent(f"a{number}")
        .instruct(f"Go on from {{k{number - 1}?}}.")
        .writes(f"k{number}")
        .tools(save, exit_loop)
        for number in range(1, COUNT)
    ]
    return Agent("root").instruct("Choose.").delegate(*agents)


def figures() -> Iterator[Figure]:
    """How long adopting takes, and the check of what was adopted against that of the same expression."""
    made, expression = native(), fluent()
    adopted = adopt(made)
    taken = compare("adopt 100 agents", lambda: adopt(made).node, lambda: fluent().node, rounds=ROUNDS)
    yield Figure(
        what=taken.what,
        seconds=taken.seconds,
        against="writing them",
        reference=taken.reference,
        ratio=taken.ratio,
        target=0.010,
        of="seconds",
    )
    yield compare(
        "check 100 adopted agents",
        lambda: check_all(adopted.node.replace()),
        lambda: check_all(expression.node.replace()),
        rounds=ROUNDS,
        target=1.2,
        against="the same expression",
    )
