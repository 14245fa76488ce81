"""ROUGE-1 between two texts: how many words they share.

As ADK's `response_match_score` counts it since it takes words of any script, so that the metric can be had
without the package `rouge-score` that it needs. Words are compared by their stems:
`refunded` and `refunds` have the same.

Sources: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004; M. F. Porter, "An
algorithm for suffix stripping", Program 14 (3), 1980, pp. 130-137, with the changes that NLTK's
implementation makes by default, since scores are compared with those that rest on it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

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


# --- stems ------------------------------------------------------------------------------------------

Rule = tuple[str, str]
Condition = Callable[[str], bool]

_IRREGULAR: Final = {
    **{"skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news"},
    **{"innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing"},
    **{"cannings": "canning", "canning": "canning", "howe": "howe"},
    **{"proceed": "proceed", "exceed": "exceed", "succeed": "succeed"},
}

_PLURALS: Final[Sequence[Rule]] = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))

_DOUBLE: Final[Sequence[Rule]] = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ("fulli", "ful"),
)

_SINGLE: Final[Sequence[Rule]] = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")),
    ("ness", ""),
)

_BARE: Final = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism"),
    *("ate", "iti", "ous", "ive", "ize"),
)


def stem(word: str) -> str:
    """The stem of a word in lower case.

    >>> [stem(word) for word in ("refunded", "refunds", "relational", "happy", "sky")]
    ['refund', 'refund', 'relat', 'happi', 'sky']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _final_y, _doubled, _single, _bare, _final_e, _final_l):
        word = step(word)
    return word


# --- what a word is made of -----------------------------------------------------------------------


def _consonants(word: str) -> list[bool]:
    flags: list[bool] = []
    for letter in word:  # y is a consonant at the start and after a vowel
        flags.append(letter not in "aeiou" and (letter != "y" or not flags or not flags[-1]))
    return flags


def _measure(word: str) -> int:
    """How often consonants follow vowels."""
    flags = _consonants(word)
    return sum(not before and after for before, after in pairwise(flags))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _ends_short(word: str) -> bool:
    """Whether it ends as a short syllable does: consonant, vowel, consonant."""
    flags = _consonants(word)
    if len(word) == 2:
        return flags == [False, True]
    return flags[-3:] == [True, False, True] and word[-1] not in "wxy"


def _change(word: str, rules: Sequence[Rule], condition: Condition) -> str:
    """Apply the first rule whose ending fits, if what stays meets the condition."""
    for ending, instead in rules:
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            return rest + instead if condition(rest) else word
    return word


def _is_syllable(word: str) -> bool:
    return _measure(word) > 0


# --- the steps ------------------------------------------------------------------------------------


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return _change(word, _PLURALS, lambda rest: True)


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _is_syllable(word[:-3]) else word
    rest = next((word.removesuffix(end) for end in ("ed", "ing") if word.endswith(end)), "")
    if not rest or not _has_vowel(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if len(rest) >= 2 and rest[-1] == rest[-2] and _consonants(rest)[-1]:
        return rest if rest[-1] in "lsz" else rest[:-1]
    return f"{rest}e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _final_y(word: str) -> str:
    return _change(word, (("y", "i"),), lambda rest: len(rest) > 1 and _consonants(rest)[-1])


def _doubled(word: str) -> str:
    if word.endswith("alli") and _is_syllable(word[:-4]):
        return _doubled(word[:-2])
    if word.endswith("logi") and not any(word.endswith(ending) for ending, _ in _DOUBLE):
        return word[:-1] if _is_syllable(word[:-3]) else word
    return _change(word, _DOUBLE, _is_syllable)


def _single(word: str) -> str:
    return _change(word, _SINGLE, _is_syllable)


def _bare(word: str) -> str:
    for ending in _BARE:
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            goes = _measure(rest) > 1 and (ending != "ion" or rest[-1] in "st")
            return rest if goes else word
    return word


def _final_e(word: str) -> str:
    rest = word.removesuffix("e")
    if rest == word:
        return word
    return rest if (size := _measure(rest)) > 1 or (size == 1 and not _ends_short(rest)) else word


def _final_l(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
