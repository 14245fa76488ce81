"""The provenance of a value in state: the authors whose words may be in it, and its last writers.

Both are found by following the sources that the walk noted in each `Fact`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import (
    ANYBODY,
    PRESENT,
    UNKNOWN,
    Fact,
    Gathered,
    InitialValue,
    Sources,
    SpokenIn,
    WrittenIn,
    capture_sources,
)
from adk_fluent.analysis.values.key_effects import StepKeys
from adk_fluent.ir.nodes import CaptureNode


@dataclass(slots=True)
class Authors:
    """The authors whose words may be in some values.

    Attributes:
        steps: agents and remote agents.
        user: true if the user may be an author.
        anybody: true if any agent of the tree may be an author.
        before: keys whose value may be from before the run.
    """

    steps: dict[Step, None] = field(default_factory=dict["Step", None])
    user: bool = False
    anybody: bool = False
    before: dict[str, None] = field(default_factory=dict[str, None])


def authors_of(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> Authors:
    """The authors whose words may be in the values of these facts.

    Args:
        steps: all steps of the plan.
        keys: the effects of the steps on state keys.
    """
    found = Authors()
    pending: list[object] = list(facts)
    seen: set[int] = set()
    while pending:
        source = pending.pop()
        if id(source) in seen:
            continue
        seen.add(id(source))
        if isinstance(source, Fact):
            pending += source.of
        elif isinstance(source, Step):
            found.steps[source] = None
        elif isinstance(source, Gathered):
            pending += source.facts
        elif isinstance(source, InitialValue):
            found.before[source.key] = None
        elif isinstance(source, WrittenIn):
            pending += writers_in(source, steps, keys)
        elif isinstance(source, SpokenIn):
            pending += _speakers_in(source.step, steps)
        else:
            found.user = True
            found.anybody = found.anybody or source is ANYBODY
    return found


def writers_in(place: WrittenIn, steps: list[Step], keys: StepKeys) -> Sources:
    """The sources of the values that steps inside may write to a key."""
    found: list[object] = []
    for inner in place.inside(steps):
        if place.key in keys.writes(inner):
            found += _own_words(inner, place.key)
        if inner.target is not None or keys.effects(inner).unknown is inner:
            found.append(ANYBODY)
    return tuple(found)


def _own_words(step: Step, key: str) -> Sources:
    """The sources of the value that a step writes to a key, without the facts at that step."""
    if step.is_model and step.node.output_key == key:
        return (step,)
    # Only a capture copies what others said without a change.
    return capture_sources(step.node) if isinstance(step.node, CaptureNode) else (ANYBODY,)


def _speakers_in(step: Step, steps: list[Step]) -> Sources:
    inside = list(step.walk(steps))
    return (ANYBODY,) if any(s.target for s in inside) else tuple(s for s in inside if s.is_model)


def last_writers(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> list[Step]:
    """The steps that may have written the values of these facts, in order.

    Args:
        steps: all steps of the plan.
        keys: the effects of the steps on state keys.
    """
    found: set[Step] = set()
    pending: list[object] = list(facts)
    seen: set[object] = set()
    while pending:
        source = pending.pop()
        if isinstance(source, Fact) and source.by is not None:
            if source.mask & (PRESENT | UNKNOWN):
                found.add(source.by)
        elif isinstance(source, Fact | Gathered | WrittenIn) and source not in seen:
            seen.add(source)
            if isinstance(source, WrittenIn):
                inside = list(source.inside(steps))
                found.update(step for step in inside if source.key in keys.writes(step))
                pending += [WrittenIn(step.target, source.key) for step in inside if step.target]
            elif isinstance(source, Gathered):
                pending += source.facts
            elif source.mask & (PRESENT | UNKNOWN):
                pending += source.of
    return sorted(found, key=lambda step: step.index)
