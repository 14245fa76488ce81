"""The message about a boundary at which a run cannot be cut, for the check and for `split()`."""

from __future__ import annotations

from adk_fluent.analysis.cuts import Obstacle


def in_the_way(problem: Obstacle) -> tuple[str, str]:
    """The problem in one line, and what to do.

    Args:
        problem: the obstacle that the analysis found.
    """
    cut, by = problem.cut.name, problem.by
    match problem.reason:
        case "construct":
            why = f"stands inside the {by.node.kind} {by.name!r}, which runs as a whole"
            can = f"Put the boundary on {by.name!r} itself, or on a step of the pipeline around it."
        case "options":
            own = ", ".join(sorted(by.node.given.keys() - {"name", "description", "children", "annotations"}))
            why = f"would cut the sequence {by.name!r}, whose {own} would then run for each part"
            can = f"Put the boundary on {by.name!r} itself, or {own} on one step."
        case "pieces":
            why = f"would cut the answer of {by.name!r}, which is streamed"
            can = f"Let {by.name!r} pass on its whole answer, without .stream_to(), or put both on one side."
        case "transfer":
            why = f"would cut between the transfer {by.name!r} and steps that it leads to, or skips"
            can = "Put the boundary before the transfer, or on what runs the transfer and these steps."
    return f"the execution boundary of {cut!r} {why}", can
