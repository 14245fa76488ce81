"""The state keys that a node reads: where each stands, and how much a missing one matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from adk_fluent.ir.functions import NO_ACCESS, access
from adk_fluent.ir.template import placeholders

Level = Literal["required", "tolerant", "lenient", "optional"]
"""What a missing key means: something breaks; it is left out; nothing happens; it was expected."""

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


def declared(functions: Iterable[object], via: Via, level: Level = "required") -> KeyReads:
    """The keys that functions declare, and those of comparisons; `None` stands for no function."""
    for function in functions:
        for key in sorted((NO_ACCESS if function is None else access(function)).reads):
            yield KeyRead(key, via, level)


def silent(functions: Iterable[object]) -> list[object]:
    """Those that may read keys which they do not declare."""
    return [fn for fn in functions if fn is not None and not access(fn).reads_known]


def given_keys(*keys: str | None) -> tuple[str, ...]:
    """Those of some keys that are set."""
    return tuple(key for key in keys if key)
