"""Placeholders for personal data: the same for the same value, and turned back, also piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from adk_fluent.errors import MiddlewareError
from adk_fluent.middleware.detecting import Detector, Span

_PLACEHOLDER: Final = re.compile(r"\[[A-Z][A-Z0-9_]{0,40}_[0-9]{1,9}\]")
_BEGUN: Final = re.compile(r"\[[A-Z0-9_]{0,51}\Z")
LONGEST: Final = 128
"""How much of a stream waits for what follows: longer data may pass in pieces."""

_KIND: Final = re.compile(r"[A-Z][A-Z0-9_]{0,40}")


class Vault:
    """Which placeholder stands for which value.

    A placeholder is `[KIND_n]`: the same value always gets the same one, so that a model can tell two people
    apart and may speak of them. One that stands in a text already is never given to another value.

    Args:
        detector: finds what is to be replaced.

    Example:
        >>> from adk_fluent.middleware.detecting import find_personal_data
        >>> vault = Vault(find_personal_data)
        >>> vault.hide("From ann@example.org to bob@example.org, cc ann@example.org")
        'From [EMAIL_1] to [EMAIL_2], cc [EMAIL_1]'
        >>> vault.restore("Dear [EMAIL_2]!")
        'Dear bob@example.org!'
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._placeholders: dict[tuple[str, str], str] = {}
        self._values: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._foreign: set[str] = set()

    def __len__(self) -> int:
        return len(self._values)

    def hide(self, text: str) -> str:
        """The text with placeholders."""
        if "[" in text:
            self._foreign |= {match[0] for match in _PLACEHOLDER.finditer(text)} - self._values.keys()
        return _replaced(text, _apart(_checked(self._detector(text), text)), self._placeholder)

    def restore(self, text: str) -> str:
        """The text with the values again."""
        if "[" not in text or not self._values:
            return text
        return _PLACEHOLDER.sub(lambda match: self._values.get(match[0], match[0]), text)

    def hide_in(self, value: Any) -> Any:
        """A JSON value with placeholders in all its texts; a number that is personal data becomes text."""
        return _in_texts(value, self.hide, numbers=True)

    def restore_in(self, value: Any) -> Any:
        """A JSON value with the values again in all its texts."""
        return _in_texts(value, self.restore)

    def stream(self) -> Restoring:
        """What restores a text that comes in pieces."""
        return Restoring(self)

    def _placeholder(self, kind: str, value: str) -> str:
        kind = _named(kind)
        if (kind, value) not in self._placeholders:
            while True:
                self._counts[kind] += 1
                made = f"[{kind}_{self._counts[kind]}]"
                if made not in self._foreign:
                    break
            self._placeholders[kind, value] = made
            self._values[made] = value
        return self._placeholders[kind, value]


class Redactor:
    """Takes personal data out for good: `[KIND]` stands where it was.

    Example:
        >>> from adk_fluent.middleware.detecting import find_personal_data
        >>> Redactor(find_personal_data).hide("From ann@example.org")
        'From [EMAIL]'
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def spans(self, text: str) -> list[Span]:
        """What is to be taken out, in order, each apart from the next."""
        return _apart(_checked(self._detector(text), text))

    def hide(self, text: str) -> str:
        """The text without personal data."""
        return _replaced(text, self.spans(text), lambda kind, value: f"[{_named(kind)}]")

    def hide_in(self, value: Any) -> Any:
        """A JSON value without personal data in its texts; a number that is some becomes text."""
        return _in_texts(value, self.hide, numbers=True)

    def stream(self) -> Hiding:
        """What takes it out of a text that comes in pieces."""
        return Hiding(self)


class Hiding:
    """Takes personal data out of a text that comes in pieces; the last 128 characters wait for more."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be said after one more piece."""
        text = self._held + piece
        cut = max(0, len(text) - LONGEST)
        if cut:
            crossing = [start for start, end, _ in self._redactor.spans(text) if start < cut < end]
            cut = crossing[0] if crossing else cut
        self._held = text[cut:]
        return self._redactor.hide(text[:cut])

    def flush(self) -> str:
        """The rest, when no more comes."""
        held, self._held = self._held, ""
        return self._redactor.hide(held)


class Restoring:
    """Restores a text that comes in pieces; what may be the beginning of a placeholder waits for the rest.

    Example:
        >>> from adk_fluent.middleware.detecting import find_personal_data
        >>> vault = Vault(find_personal_data)
        >>> hidden = vault.hide("ann@example.org")
        >>> pieces = vault.stream()
        >>> [pieces.feed("Dear [EMA"), pieces.feed("IL_1], see [1"), pieces.flush()]
        ['Dear ', 'ann@example.org, see ', '[1']
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be said after one more piece."""
        text = self._held + piece
        begun = _BEGUN.search(text, max(0, len(text) - 53))
        cut = begun.start() if begun else len(text)
        self._held = text[cut:]
        return self._vault.restore(text[:cut])

    def flush(self) -> str:
        """The rest, when no more comes."""
        held, self._held = self._held, ""
        return self._vault.restore(held)


def _checked(spans: object, text: str) -> Iterable[Span]:
    """What a detector found, if that is what a detector should find."""
    for span in cast("Iterable[object]", spans) if isinstance(spans, Iterable) else [spans]:
        match span:
            case (int(start), int(end), str()) if 0 <= start <= end <= len(text):
                yield cast(Span, span)
            case _:
                raise MiddlewareError(
                    f"The detector of pii_filter gave {span!r:.60}; it gives (start, end, kind) with "
                    f"0 <= start <= end <= {len(text)}, the length of the text."
                )


def _replaced(text: str, spans: Iterable[Span], by: Callable[[str, str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end, kind in spans:
        pieces += text[at:start], by(kind, text[start:end])
        at = end
    return "".join([*pieces, text[at:]]) if pieces else text


def _named(kind: str) -> str:
    """A kind as it stands in a placeholder."""
    name = "".join(char if char.isascii() and char.isalnum() else "_" for char in kind).upper()
    return name if _KIND.fullmatch(name) else "PII"


def _apart(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; where two overlap, one that covers both, of the kind of the first."""
    joined: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= end:
            continue
        if joined and start < joined[-1][1]:
            first, last, known = joined[-1]
            joined[-1] = (first, max(last, end), known)
        else:
            joined.append((start, end, kind))
    return joined


def _in_texts(value: Any, change: Any, *, numbers: bool = False) -> Any:
    """A JSON value with a function applied to its texts; the same object where nothing changed."""
    if isinstance(value, str):
        return change(value)
    if numbers and isinstance(value, int) and abs(value) >= 10_000_000:
        text = str(value)
        changed = change(text)
        return value if changed == text else changed
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        items = {key: _in_texts(item, change, numbers=numbers) for key, item in given.items()}
        return given if all(items[key] is item for key, item in given.items()) else items
    if isinstance(value, list | tuple):
        listed = cast("list[Any] | tuple[Any, ...]", value)
        parts = [_in_texts(item, change, numbers=numbers) for item in listed]
        return listed if all(new is old for new, old in zip(parts, listed, strict=True)) else parts
    return value
