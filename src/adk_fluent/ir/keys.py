"""The state keys and artifacts that a node uses: the place of each read, and the effect of a missing one.

An artifact is a file that ADK stores beside the state. If its name starts with `user:`, it belongs to the
user, and all sessions of the user share it. Any other artifact belongs to the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.state_keys import Level, Sighting
from adk_fluent.ir.template import placeholders

Via = Literal[
    "template", "message", "prompt", "context", "callback", "tool", "route", "until", "predicate", "list",
    "operation", "removal", "function", "remote", "artifact", "budget", "quality", "own", "ending",
]  # fmt: skip
"""The channel through which a node reads a key. `removal` names a key without reading its value; `own` reads
a value that the operation itself wrote earlier; `ending` is a callback that runs after the answer."""


class KeyRead(NamedTuple):
    """One key that a node reads.

    Attributes:
        key: the state key, scope prefix included.
        via: the channel of the read.
        level: the effect of a missing key.
        type: the type that the reader expects; `None` for any type.
        where: file and line, if the source of a function shows the read; else empty.
    """

    key: str
    via: Via
    level: Level = "required"
    type: object = None
    where: str = ""


KeyReads = Iterator[KeyRead]


def in_templates(texts: Iterable[str], via: Via, level: Level = "required") -> KeyReads:
    """The keys of the placeholders in templates; a placeholder with `?` is always optional."""
    for text in texts:
        for placeholder in placeholders(text):
            if not placeholder.artifact:
                yield KeyRead(placeholder.key, via, "optional" if placeholder.optional else level)


def declared(
    functions: Iterable[object], via: Via, level: Level = "required", shown: Level | None = None
) -> KeyReads:
    """The keys that functions read: those they declare, or their source shows, or a comparison names.

    Args:
        functions: the functions; `None` counts as no function.
        via: the channel of the reads.
        level: the effect of a missing key that every call reads.
        shown: this effect for keys that only the source shows; by default `level`.
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
    """The place in a function's source for each key that it reads: the one with the strictest level."""
    found: dict[str, Sighting] = {}
    for one in shown_by(function).reads:
        if one.key not in found or _WEIGHT[one.level] < _WEIGHT[found[one.key].level]:
            found[one.key] = one
    return found


_WEIGHT: Final[Mapping[Level, int]] = {"required": 0, "tolerant": 1, "lenient": 2, "optional": 3}


def silent(functions: Iterable[object]) -> list[object]:
    """The functions that may read keys which they do not declare."""
    return [fn for fn in functions if fn is not None and not access(fn).reads_known]


def given_keys(*keys: str | None) -> tuple[str, ...]:
    """The keys that are not empty or `None`."""
    return tuple(key for key in keys if key)


Use = Literal["reads", "saves", "deletes"]

ANY_FILE: Final = ""
"""The name for a file whose real name is known only in a run."""

USER_SCOPE: Final = "user:"
"""The prefix in the names of a user's artifacts, as in ADK."""


class ArtifactUse(NamedTuple):
    """One use of an artifact by a node.

    Attributes:
        how: `reads`, `saves` or `deletes`.
        filename: the artifact's name in ADK, `user:` included; `ANY_FILE` if it is known only in a run.
        level: for a read, the effect of a missing artifact.
        certain: True if the node uses it whenever it runs.
    """

    how: Use
    filename: str
    level: Level = "required"
    certain: bool = True


def uses_in(texts: Iterable[str]) -> Iterator[ArtifactUse]:
    """The artifacts that placeholders in templates read.

    >>> list(uses_in(["Read {artifact.cv.md?}."]))
    [ArtifactUse(how='reads', filename='cv.md', level='optional', certain=True)]
    """
    for text in texts:
        for found in placeholders(text) if "artifact." in text else ():
            if found.artifact:
                yield ArtifactUse("reads", found.key, "optional" if found.optional else "required")
