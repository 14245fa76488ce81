"""The branches of a route or the delegates of an agent: what they are called, and how likely each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.matching import Match


def branch_names(step: Step) -> list[tuple[Step, set[str]]]:
    """The branches of a route, or the delegates of an agent, each with the names it goes by."""
    runs = step.node.runs
    found = [(child, {child.name, child.origin, *_first(child)}) for child in step.children]
    if isinstance(runs, FirstMatch):
        for place, (_, names) in enumerate(found):
            if (label := runs.label(place)) is not None:
                names.add(label)
    return found


def _first(step: Step) -> Iterable[str]:
    """The first agent in a branch stands for the branch."""
    while step.children and not step.node.speaks:
        step = step.children[0]
    return (step.name, step.origin)


def branch_probabilities(step: Step, traffic: TrafficAssumptions) -> tuple[dict[Step, float], float]:
    """The branches of which it was said how likely they are, and what is left for the others.

    Raises:
        ArgumentError: they add up to more than 1, or, where there are no others, to less.
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


def labels_of(tree: Plan, traffic: TrafficAssumptions) -> Mapping[str, float]:
    """State key → tokens of the labels that routes compare it with."""
    found: dict[str, list[float]] = {}
    for step in tree.steps:
        if isinstance(step.node.runs, FirstMatch):
            for test in step.node.runs.tests:
                if isinstance(test, Match) and test.op == "eq" and isinstance(test.value, str):
                    length = len(test.value) / traffic.characters_per_token + 1
                    found.setdefault(test.key, []).append(length)
    return {key: sum(lengths) / len(lengths) for key, lengths in found.items()}
