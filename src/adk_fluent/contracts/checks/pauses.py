"""Check that `temp:` keys which a step reads after a pause are written after it: a pause loses them."""

from __future__ import annotations

from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import LOST
from adk_fluent.contracts.findings.missing import taken
from adk_fluent.contracts.findings.wording import listed, who_reads
from adk_fluent.contracts.issues import PauseTempKey
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue


@check(place=220)
def check_pauses(root: object) -> list[ContractIssue]:
    """Report each read of a `temp:` key that was written before the run may have stopped for a person."""
    return [_lost(read, read.lost) for read in analyse(root).reads if read.lost is not None and taken(read)]


def _lost(read: Read, stop: Step) -> ContractIssue:
    writers = next(fact.writers for fact in read.facts if fact.mask & LOST)
    written = f"written by {listed(writers)}" if writers else "in the initial state"
    own = stop is read.step
    remedy = "Use a key" if own else f"Write it again after {stop.name}, or use a key"
    return PauseTempKey(
        agent=read.step.name,
        key=read.key,
        message=who_reads(read),
        hint=f'"{read.key}" is {written}, and temp: keys do not outlive a pause: it is gone once '
        f'{"it" if own else stop.name} asks a person.\n{remedy} without "temp:".',
    )
