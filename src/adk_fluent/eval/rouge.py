"""ROUGE-1 between two texts: how many words they share.

As ADK's `response_match_score` counts it since it takes words of any script, so that the metric can be had
without the package `rouge-score` that it needs. Words are compared by their stems.

Source: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

from adk_fluent.eval.stemming import stem

_PLAIN: Final = re.compile(r"[a-z0-9]+")
_SHORT: Final = 3
"""Words up to this length have no stem but themselves."""

_SPACELESS: Final = ((0x4E00, 0x9FFF), (0x3040, 0x309F), (0x30A0, 0x30FF), (0xAC00, 0xD7AF))
"""Code points of Chinese, Japanese and Korean, where each character counts as a word."""
_CLUSTERED: Final = ((0x0E00, 0x0E7F), (0x0E80, 0x0EFF), (0x1780, 0x17FF), (0x1000, 0x109F))
"""Those of Thai, Lao, Khmer and Burmese, where a letter with its marks counts as one."""


def rouge_1(response: str, reference: str) -> float:
    """The F-measure of the words that a response shares with a reference, from 0 to 1.

    >>> rouge_1("The ticket was created", "A ticket is created")
    0.5
    """
    said, wanted = Counter(words(response)), Counter(words(reference))
    if not said or not wanted:
        return 0.0
    shared = (said & wanted).total()
    precision, recall = shared / said.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall) if shared else 0.0


def words(text: str) -> list[str]:
    """The words of a text, as stems.

    >>> words("Cafés, refunded: 日本")
    ['cafés', 'refund', '日', '本']
    """
    spaced = "".join(_spaced(unicodedata.normalize("NFKC", text).lower()))
    return [found for word in spaced.split() for found in ([word] if not word.isascii() else _stems(word))]


def _stems(word: str) -> list[str]:
    return [stem(part) if len(part) > _SHORT else part for part in _PLAIN.findall(word)]


def _spaced(text: str) -> Iterator[str]:
    for char in text:
        mark = unicodedata.category(char).startswith("M")
        if _is_in(char, _SPACELESS):
            yield f" {char} "
        elif _is_in(char, _CLUSTERED):
            yield char if mark else f" {char}"
        else:
            yield char if char.isalnum() or mark else " "


def _is_in(char: str, blocks: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(char) <= last for first, last in blocks)
