"""The artifacts that a node reads, saves and deletes: files that ADK stores beside the state.

An artifact whose name starts with `user:` belongs to the user, and all sessions of the user share it. Any
other artifact belongs to the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from adk_fluent.ir.keys import Level
from adk_fluent.ir.template import placeholders

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
