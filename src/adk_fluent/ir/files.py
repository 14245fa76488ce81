"""The artifacts that a node reads, saves and deletes: files that are kept beside the state.

A name that starts with `user:` is one of the user, shared by all sessions; any other belongs to the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from adk_fluent.ir.keys import Level
from adk_fluent.ir.template import placeholders

Use = Literal["reads", "saves", "deletes"]

ANY_FILE: Final = ""
"""Stands for a file whose name only a run tells."""

USER_SCOPE: Final = "user:"
"""What the names of a user's artifacts start with, as in ADK."""


class ArtifactUse(NamedTuple):
    """What a node does with one artifact.

    Attributes:
        how: whether it reads, saves or deletes it.
        filename: its name as ADK has it, `user:` included; `ANY_FILE` where only a run tells.
        level: of a read, what it means when there is none.
        certain: whether the node does so whenever it runs.
    """

    how: Use
    filename: str
    level: Level = "required"
    certain: bool = True


def uses_in(texts: Iterable[str]) -> Iterator[ArtifactUse]:
    """The artifacts that the placeholders of templates name.

    >>> list(uses_in(["Read {artifact.cv.md?}."]))
    [ArtifactUse(how='reads', filename='cv.md', level='optional', certain=True)]
    """
    for text in texts:
        for found in placeholders(text) if "artifact." in text else ():
            if found.artifact:
                yield ArtifactUse("reads", found.key, "optional" if found.optional else "required")
