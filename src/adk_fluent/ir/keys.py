"""The state keys that a node reads: where each stands, and how much a missing one matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.sighting import Level, Sighting
from adk_fluent.ir.template import placeholders

Via = Literal[
    "template", "message", "prompt", "context", "callback", "tool", "route", "until", "predicate", "list",
    "operation", "removal", "function", "remote", "artifact", "budget", "quality", "own",
]  # fmt: skip
"""The channel a key is read through. A removal names it without looking at its value; its `own` is what an
operation itself keeps there."""


class KeyRead(NamedTuple):
    """One key that a node reads.

    Attributes:
        key: the state key, scope prefix included.
        via: through what.
        level: what it means when the key is missing.
        type: the type that the reader expects, `None` if any will do.
        where: file and line, where the source of a function was read to find it.
    """

    key: str
    via: Via
    level: Level = "required"
    type: object = None
    where: str = ""


KeyReads = Iterator[KeyRead]


def in_templates(texts: Iterable[str], via: Via, level: Level = "required") -> KeyReads:
    """The keys that placeholders name; one that is marked as optional may be missing in any case."""
    for text in texts:
        for placeholder in placeholders(text):
            if not placeholder.artifact:
                yield KeyRead(placeholder.key, via, "optional" if placeholder.optional else level)


def declared(
    functions: Iterable[object], via: Via, level: Level = "required", shown: Level | None = None
) -> KeyReads:
    """The keys that functions declare, or their source shows, and those of comparisons.

    Args:
        functions: `None` stands for no function.
        via: through what they are read.
        level: what a missing key means, of those that each call reads.
        shown: the same where only source shows it; by default no other.
    """
    for function in functions:
        if function is None:
            continue
        if (facts := said(function)) is not None:
            for key in sorted(facts.reads):
                yield KeyRead(key, via, level)
        elif access(function).reads:
            for key, place in sorted(_places(function).items()):
                weight = shown or level if place.level == "required" else place.level
                yield KeyRead(key, via, weight, where=place.where)


def _places(function: object) -> Mapping[str, Sighting]:
    """Where the source of a function reads each key, at the place where a missing one matters most."""
    found: dict[str, Sighting] = {}
    for one in shown_by(function).reads:
        if one.key not in found or _WEIGHT[one.level] < _WEIGHT[found[one.key].level]:
            found[one.key] = one
    return found


_WEIGHT: Final[Mapping[Level, int]] = {"required": 0, "tolerant": 1, "lenient": 2, "optional": 3}


def silent(functions: Iterable[object]) -> list[object]:
    """Those that may read keys which they do not declare."""
    return [fn for fn in functions if fn is not None and not access(fn).reads_known]


def given_keys(*keys: str | None) -> tuple[str, ...]:
    """Those of some keys that are set."""
    return tuple(key for key in keys if key)
