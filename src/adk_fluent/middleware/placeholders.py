"""Placeholders for personal data: the same for the same value, and turned back, also piece by piece."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, cast

from adk_fluent.errors import MiddlewareError
from adk_fluent.middleware.detecting import Detector, Span
from adk_fluent.middleware.quoting import JsonPosition, escaped_strings, is_plain

_PLACEHOLDER: Final = re.compile(r"\[[A-Z][A-Z0-9_]{0,40}_[0-9]{1,9}\]")
_BEGUN: Final = re.compile(r"(?:\[[A-Z0-9_]{0,51}|`{1,3}\w{0,11})\Z")
"""What may become a placeholder, or the beginning of a program, when more text follows."""
LONGEST: Final = 128
"""How much of a stream waits for what follows: longer data may pass in pieces."""

_KIND: Final = re.compile(r"[A-Z][A-Z0-9_]{0,40}")


class Vault:
    """Which placeholder stands for which value.

    A placeholder is `[KIND_n]`: the same value always gets the same one, so that a model can tell two people
    apart and may speak of them. One that stands in a text already is never given to another value.

    Args:
        detector: finds what is to be replaced.

    Attributes:
        is_plain: whether all values are written alike in prose and in JSON.

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
        self.is_plain: bool = True

    def __len__(self) -> int:
        return len(self._values)

    def hide(self, text: str) -> str:
        """The text with placeholders."""
        self.note(text)
        text = _within_strings(text, self.hide)
        return _replaced(text, _apart(_checked(self._detector(text), text)), self._placeholder)

    def note(self, text: str) -> str:
        """The text as it is; the placeholders that it has already are given to no value from now on."""
        if "[" in text:
            self._foreign |= {match[0] for match in _PLACEHOLDER.finditer(text)} - self._values.keys()
        return text

    def restore(self, text: str) -> str:
        """The text with the values again; in JSON that it holds they are written as JSON strings are."""
        if "[" not in text or not self._values:
            return text
        stream = Restoring(self)
        return stream.feed(text) + stream.flush()

    def restore_code(self, text: str) -> str:
        """A program with the values again that mean nothing to it; of others the placeholders stay."""
        return _PLACEHOLDER.sub(lambda match: self._plain(match[0]), text)

    def value(self, placeholder: str) -> str | None:
        """The value that a placeholder stands for, if any."""
        return self._values.get(placeholder)

    def _plain(self, placeholder: str) -> str:
        value = self._values.get(placeholder, placeholder)
        return value if is_plain(value) else placeholder

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
            self.is_plain = self.is_plain and is_plain(value)
        return self._placeholders[kind, value]


class PIIRedactor:
    """Takes personal data out for good: `[KIND]` stands where it was.

    Example:
        >>> from adk_fluent.middleware.detecting import find_personal_data
        >>> PIIRedactor(find_personal_data).hide("From ann@example.org")
        'From [EMAIL]'
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def spans(self, text: str) -> list[Span]:
        """What is to be taken out, in order, each apart from the next."""
        return _apart(_checked(self._detector(text), text))

    def hide(self, text: str) -> str:
        """The text without personal data."""
        text = _within_strings(text, self.hide)
        return _replaced(text, self.spans(text), lambda kind, value: f"[{_named(kind)}]")

    def stream(self) -> Hiding:
        """What takes it out of a text that comes in pieces."""
        return Hiding(self)


class Hiding:
    """Takes personal data out of a text that comes in pieces; the last 128 characters wait for more."""

    def __init__(self, redactor: PIIRedactor) -> None:
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
        # Where all values are plain, the place makes no difference.
        self._place = None if vault.is_plain else JsonPosition()

    def feed(self, piece: str) -> str:
        """What can be said after one more piece."""
        text = self._held + piece
        begun = _BEGUN.search(text, max(0, len(text) - 53))
        cut = begun.start() if begun else len(text)
        self._held = text[cut:]
        return self._restored(text[:cut])

    def flush(self) -> str:
        """The rest, when no more comes."""
        held, self._held = self._held, ""
        return self._restored(held)

    def _restored(self, text: str) -> str:
        place = self._place
        if place is None:
            return self._vault.restore_code(text)
        at = 0
        pieces: list[str] = []
        for match in _PLACEHOLDER.finditer(text):
            value = self._vault.value(match[0])
            if value is not None:
                place.read(text[at : match.start()])
                quoted = place.quoted(value)
                pieces += text[at : match.start()], match[0] if quoted is None else quoted
                place.read("_")
                at = match.end()
        place.read(text[at:])
        return "".join([*pieces, text[at:]])


def _within_strings(text: str, hide: Callable[[str], str]) -> str:
    """The text with what `hide` makes of its JSON strings that have escapes: it is to see what they say."""
    pieces: list[str] = []
    at = 0
    for start, end in escaped_strings(text):
        try:
            said = json.loads(text[start:end], strict=False)
        except ValueError:
            continue
        if (hidden := hide(said)) != said:
            pieces += text[at:start], json.dumps(hidden, ensure_ascii=text[start:end].isascii())
            at = end
    return "".join([*pieces, text[at:]])


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
