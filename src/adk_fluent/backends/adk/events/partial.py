"""The session of a segment, which holds a part of the session it works for."""

from __future__ import annotations

from collections.abc import Iterable

from google.adk.sessions import InMemorySessionService


class PartOfSession(InMemorySessionService):
    """Holds the one session of a segment, with what crossed of the session that it works for.

    Args:
        known: the keys that crossed if that session had them; `None` if all of its state did. Of any other
            key a segment cannot know whether it is there, so that it says that it is gone in any case.
    """

    def __init__(self, known: Iterable[str] | None) -> None:
        super().__init__()
        self.known: frozenset[str] | None = None if known is None else frozenset(known)
