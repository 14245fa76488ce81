"""Data flow between steps, by state keys and artifacts: the dashed lines of a picture."""

from __future__ import annotations

from dataclasses import dataclass

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step


@dataclass(frozen=True, slots=True)
class DataEdge:
    """State keys or artifacts that one node writes and another one reads.

    Attributes:
        keys: the state keys, sorted.
        files: the filenames of the artifacts, sorted.
    """

    source: str
    target: str
    keys: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def carries(self) -> tuple[str, ...]:
        """The keys and filenames for the label of the line."""
        return (*self.keys, *(name for name in self.files if name not in self.keys))


def writers(facts: Facts) -> dict[tuple[Step, str], list[Step]]:
    """For each step and key that it reads: the last writers in order; in a loop, the step may be one itself.

    The result leaves out writers whose value is overwritten or removed before the read, and functions that do
    not declare their writes. A step that removes a key without reading it is not a reader.
    """
    found: dict[tuple[Step, str], list[Step]] = {}
    for read in sorted(facts.reads, key=lambda read: (read.step.index, read.key)):
        if read.via != "removal":
            known = found.setdefault((read.step, read.key), [])
            known += [writer for writer in facts.flow.writers(read) if writer not in known]
    return found


def data_edges(facts: Facts) -> tuple[DataEdge, ...]:
    """All pairs of a writer and a step that may read its value, in the running order of the readers."""
    keys: dict[tuple[str, str], list[str]] = {}
    files: dict[tuple[str, str], set[str]] = {}
    for (reader, key), sources in writers(facts).items():
        for writer in sources:
            if writer is not reader:
                keys.setdefault((writer.name, reader.name), []).append(key)
    for read in facts.artifacts.reads:
        for saver in facts.artifacts.sources(read):
            files.setdefault((saver.name, read.step.name), set()).add(read.use.filename)
    pairs = dict.fromkeys((*keys, *files))
    return tuple(
        DataEdge(*pair, tuple(keys.get(pair, ())), tuple(sorted(files.get(pair, ())))) for pair in pairs
    )
