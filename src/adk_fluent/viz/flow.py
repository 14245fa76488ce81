"""Which step reads what another step wrote, in the state or as an artifact: the dashed lines of a picture."""

from __future__ import annotations

from dataclasses import dataclass

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step


@dataclass(frozen=True, slots=True)
class DataEdge:
    """State, or artifacts, go from the node that writes them to one that reads them.

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
        """What stands on the line."""
        return (*self.keys, *(name for name in self.files if name not in self.keys))


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
