"""Check that branches which run at the same time write different keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import PRESENT
from adk_fluent.contracts.issues import ParallelWriters
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.execution import InParallel, PerItem
from adk_fluent.ir.nodes import TransformNode


@check(place=170)
def check_parallel_writers(root: object) -> list[ContractIssue]:
    """Report each key that two branches write at the same time, unless only one branch's answer is kept.

    Report also each operation in a map that changes a key from its earlier value: the items do not see each
    other's changes.
    """
    facts = analyse(root)
    found: list[ContractIssue] = []
    told: set[tuple[Step, str]] = set()
    for step in facts.steps:
        if not facts.reaches(step):
            continue
        runs = step.node.runs
        if isinstance(runs, InParallel) and runs.waits:
            found += _clashes(step, facts)
        elif isinstance(runs, PerItem):
            found += _restarts(step, facts, told)
    return found


def _clashes(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    first: dict[str, Step] = {}
    told: set[str] = set()
    for child in step.children:
        for key, writer in facts.effects_of(child).writes.items():
            other = first.setdefault(key, writer)
            if other is not writer and key not in told:
                told.add(key)
                yield ParallelWriters(
                    agent=writer.name,
                    key=key,
                    message=f'{other.name} and {writer.name} both write "{key}" at the same time',
                    hint=f"They are branches of {step.name}: the slower one overwrites the other.\n"
                    "Give each branch its own key, and join them with S.merge(..., into=...).",
                )


def _restarts(step: Step, facts: Facts, told: set[tuple[Step, str]]) -> Iterator[ContractIssue]:
    """Report operations in a map that change a key from its value before the map, for each item again."""
    inside = tuple(step.walk(facts.steps))
    runs: PerItem = step.node.runs
    answers = runs.output_key
    for writer in inside:
        # Only the operations of a transform show from which keys a value is made.
        if not isinstance(writer.node, TransformNode) or not facts.reaches(writer):
            continue
        for key in sorted(_changed(writer, inside, facts) - {runs.item_key}):
            if (writer, key) in told:
                continue
            told.add((writer, key))
            yield ParallelWriters(
                agent=writer.name,
                key=key,
                message=f'{writer.name} changes "{key}" in each item of {step.name}, from what it was before',
                hint="Items do not see each other's changes, so one change is left, not one for each item.\n"
                f'Let each item answer, and work on the list "{answers}" after the map, such as '
                f'S.compute({key.rpartition(":")[2]}=lambda s: len(s["{answers}"])). Or use a Loop.',
            )


def _changed(writer: Step, inside: Sequence[Step], facts: Facts) -> set[str]:
    """The keys whose new value depends on their old one, unless the same item wrote the old one."""
    own = facts.effects_of(writer).writes.keys()
    earlier = {key for each in inside if each.index < writer.index for key in facts.writes_of(each)}
    kept = {read.key for read in getattr(writer.node.fn, "reads", ()) if read.via == "own"} - earlier
    found = {
        read.key
        for read in facts.reads_of(writer)
        if read.mask != PRESENT or not all({*fact.writers} <= {*inside} for fact in read.facts)
    }
    return (kept | found) & own
