"""The pieces of an answer, each given once, though the answer may be begun again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from adk_fluent.backends.adk.durable.steps import Json


class Pieces:
    """What was heard of one answer.

    An answer that is begun again, since its worker died, goes on where the one before ended, as long as it
    says the same; of one that says something else nothing more is given, for its whole text follows.

    Attributes:
        waiting: the pieces that nobody has taken yet.
    """

    def __init__(self) -> None:
        self.waiting: list[Json] = []
        self._attempt, self._given, self._again, self._heard = 0, "", "", 0

    def hear(self, attempt: int, pieces: Sequence[Json], first: int | None = None) -> None:
        """Take pieces of an attempt, counted from 1; those of an earlier one that are late count no more.

        Args:
            first: the number of the first of them in the attempt; those that were heard before are left out.
        """
        if attempt < self._attempt:
            return
        if attempt > self._attempt:
            self._attempt, self._again, self._heard = attempt, "", 0
        fresh = pieces if first is None else pieces[max(self._heard - first, 0) :]
        self._heard += len(fresh)
        for piece in fresh:
            self._again += _text(piece)
            if self._again == (whole := self._given + _text(piece)):
                self.waiting.append(piece)
                self._given = whole
            elif self._again.startswith(self._given) and len(self._again) > len(self._given):
                self.waiting.append(_saying(piece, self._again[len(self._given) :]))
                self._given = self._again

    def take(self) -> list[Json]:
        """The pieces that wait; they wait no more."""
        taken, self.waiting = self.waiting, []
        return taken


def _parts(piece: Json) -> list[dict[str, Any]]:
    content: Mapping[str, Any] = cast("Mapping[str, Any]", piece).get("content") or {}
    found: list[dict[str, Any]] = content.get("parts") or []
    return found


def _text(piece: Json) -> str:
    return "".join(part.get("text") or "" for part in _parts(piece))


def _saying(piece: Json, text: str) -> Json:
    """The piece with other text."""
    first = {**_parts(piece)[0], "text": text}
    return {**piece, "content": {**piece["content"], "parts": [first]}}
