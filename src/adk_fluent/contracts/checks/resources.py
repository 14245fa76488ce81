"""Check that every injected resource exists and is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts.issues import UnusedResource
from adk_fluent.contracts.providing import functions_of, unprovided
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.resources import wanted
from adk_fluent.ir.tools import agents_inside, innermost


@check(place=195)
def check_resources(root: object) -> list[ContractIssue]:
    """Check that every function gets the resources it needs, and that some function uses each resource."""
    facts = analyse(root)
    if facts.is_too_deep:
        return []
    names = (step.name for step in facts.steps)
    found = [refusal.finding() for refusal in unprovided(facts.root, names)]
    return [*found, *_unused(facts)]


def _unused(facts: Facts) -> Iterator[ContractIssue]:
    for step in facts.steps:
        names = [name for name, _ in step.node.annotations.resources]
        taken = _taken(step.node, names) if names else set[str]()
        for name in names:
            if name not in taken:
                yield UnusedResource(
                    severity=Severity.INFO,
                    agent=step.name,
                    message=f"{step.name} injects {name!r}, and no function in it takes that",
                    hint=f"A parameter that is called {name} is filled with it.",
                )


def _taken(root: Node, names: list[str]) -> set[str]:
    """The names of resources for which some function in a tree has a parameter."""
    taken = set[str]()
    for node in walk(root):
        for call in node.calls():
            taken.update(wanted(call.function, names) if call.injected else ())
        if (agent := node.agent) is not None and "tools" in agent.given:
            for function in (*functions_of(agent.tools), *_confirming(agent.tools)):
                taken.update(wanted(function, names))
            for tree in agents_inside(agent.tools):
                taken |= _taken(tree, names)
    return taken


def _confirming(tools: Iterable[object]) -> Iterator[object]:
    """The functions and values that decide whether a person must confirm a call of a tool."""
    for tool in tools:
        for part in innermost(tool):
            yield getattr(part, "require_confirmation", getattr(part, "_require_confirmation", None))
            yield getattr(part, "when", None)
