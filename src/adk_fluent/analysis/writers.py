"""Which steps have put values into the state: found by following what each value was made of."""

from __future__ import annotations

from collections.abc import Iterable

from adk_fluent.analysis.keys.effects import StepKeys
from adk_fluent.analysis.origins import Gathered, WrittenIn
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import PRESENT, UNKNOWN, Fact


def put_by(facts: Iterable[Fact], steps: list[Step], keys: StepKeys) -> list[Step]:
    """The steps that have put there what the values may be that these facts are about, in order.

    Args:
        steps: all steps of the plan.
        keys: what they do with state keys.
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
