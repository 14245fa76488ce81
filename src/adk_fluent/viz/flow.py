"""Which step reads what another step wrote: the dashed lines of a picture."""

from __future__ import annotations

from dataclasses import dataclass

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step


@dataclass(frozen=True, slots=True)
class DataEdge:
    """State goes from the node that writes it to one that reads it.

    Attributes:
        keys: the state keys, sorted.
    """

    source: str
    target: str
    keys: tuple[str, ...]


def writers(facts: Facts) -> dict[tuple[Step, str], list[Step]]:
    """For each key that a step looks at: the steps whose value it may get, in a loop itself, too; in order.

    Nobody is named whose value is overwritten or removed before it is read, nor a function that does not say
    what it writes. A step that removes a key without looking at it reads nothing.
    """
    found: dict[tuple[Step, str], list[Step]] = {}
    for read in sorted(facts.reads, key=lambda read: (read.step.index, read.key)):
        if read.via != "removal":
            known = found.setdefault((read.step, read.key), [])
            known += [writer for writer in facts.flow.writers(read) if writer not in known]
    return found


def data_edges(facts: Facts) -> tuple[DataEdge, ...]:
    """Every pair of a step and another that may read what it wrote, in running order of the reader."""
    found: dict[tuple[str, str], list[str]] = {}
    for (reader, key), sources in writers(facts).items():
        for writer in sources:
            if writer is not reader:
                found.setdefault((writer.name, reader.name), []).append(key)
    return tuple(DataEdge(source, target, tuple(keys)) for (source, target), keys in found.items())
