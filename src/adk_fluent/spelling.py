"""The known name that a misspelt one was meant to be: the one place that looks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

LONGEST_SLIP: Final = 100
"""Longer words are no slips of the pen, and comparing them letter by letter takes ever longer."""
_ALIKE: Final = 0.65
"""How much of two words must be the same: `intent` is no slip of `note`, with which it shares 0.6."""
_FEW: Final = 200
"""Up to this many names are also compared letter by letter for a hint; that takes time for each of them."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest of `known`, or an empty string.

    >>> did_you_mean("instuct", ["instruct", "model"])
    " Did you mean 'instruct'?"
    >>> did_you_mean("modle", ["mode", "model"])
    " Did you mean 'model'?"
    """
    if len(word) > LONGEST_SLIP:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=3, cutoff=_ALIKE)
    # Two letters that changed places are the commonest slip, and difflib takes a missing one for less.
    near.sort(key=lambda name: sorted(name) != sorted(word))
    return f" Did you mean {near[0]!r}?" if near else ""


class Spelling:
    """Finds names that differ in one letter, in case, or by two neighbours swapped, however many there are.

    Args:
        names: the names that exist, the most likely first.

    Example:
        >>> spelling = Spelling(["draft", "feedback"])
        >>> spelling.meant("drfat"), spelling.meant("Feedbacks"), spelling.meant("topic")
        ('draft', 'feedback', None)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._forms: dict[str, list[str]] = {}
        for name in self._names:
            for form in set(_forms(name)):
                self._forms.setdefault(form, []).append(name)

    def meant(self, word: str) -> str | None:
        """The name that `word` is a slip of, if there is one."""
        for form in _forms(word):
            for name in self._forms.get(form, ()):
                if name != word and abs(len(name) - len(word)) <= 1:
                    return name
        return None

    def like(self, word: str) -> str | None:
        """The name that `word` resembles, more loosely; for hints."""
        if (meant := self.meant(word)) is not None or len(self._names) > _FEW or len(word) > LONGEST_SLIP:
            return meant
        from difflib import get_close_matches

        near = get_close_matches(word, [name for name in self._names if name != word], n=1, cutoff=_ALIKE)
        return near[0] if near else None


def _forms(word: str) -> Iterator[str]:
    """The word without regard to case: whole, and, if it is of common length, without each one letter."""
    plain = word.casefold()
    yield plain
    if 3 < len(plain) <= LONGEST_SLIP:
        for index in range(len(plain)):
            yield plain[:index] + plain[index + 1 :]
