"""Change texts that other texts and files hold encoded: as base64, in a `data:` URI, with escapes, as bytes.

Each function takes a `Change`, which maps a plain text to its new text. The function decodes the inner text,
applies the change, and encodes the result in the same way. Redaction uses this to find secrets in files.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

Change = Callable[[str], str]

_LINE: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?!(?:adk-)?[0-9a-f-]+(?![A-Za-z0-9+/_=-]))[A-Za-z0-9+/_-]{12,}={0,2}"  # not an id
)
_LINES: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}+(?:\r?\n[A-Za-z0-9+/_-]{2,}+={0,2}+(?![^\r\n]))++"
)
_PART: Final = re.compile(r"[A-Za-z0-9+]{12,}={0,2}")
"""Patterns of text that may be base64: in one line, in several lines, or as part of a path."""

_BREAKS: Final = re.compile(r"\r?\n")
_URI: Final = re.compile(r"(?<![\w-])data:(?P<type>[\w.+/;=-]{0,200}),(?P<data>[^\s\"'<>]+)", re.IGNORECASE)
_ESCAPES: Final = re.compile(
    r"(?<!\\)\\++(?:u(?P<code>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2})|(?P<slash>/))"
)
_CONTROLS: Final = re.compile(rb"[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no text holds. A text may hold tabs, line breaks and the escape of a color."""

_WORDS: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){6,}")
"""A run of six or more characters, in ASCII or UTF-8, among other bytes."""

SHORTEST_ENCODED: Final = 12
"""Shortest text, in characters, that may hold an encoded one."""

FILE: Final = 192
"""Smallest binary file, in bytes; fewer bytes that are not text are an id or a word."""

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
"""Byte order marks, and the encodings that they announce."""


def in_text(text: str, change: Change) -> str:
    """Change all texts that `text` holds in base64, in `data:` URIs or with escapes.

    >>> in_text("a data:,secret%21 and c2VjcmV0IHdvcmRz", lambda text: text.replace("secret", "***"))
    'a data:,%2A%2A%2A%21 and KioqIHdvcmRz'
    """
    if "data:" in text or "DATA:" in text:
        text = _URI.sub(lambda found: _uri(found, change), text)
    if "\n" in text:
        text = _LINES.sub(lambda found: _run(found.group(), change), text)
    text = _LINE.sub(lambda found: _in_line(found.group(), change), text)
    if "\\" not in text or (plain := _ESCAPES.sub(_unescaped, text)) == text:
        return text
    return text if (changed := change(plain)) == plain else changed


def in_file(data: str, change: Change) -> str:
    """Change the text of a file that is given in base64; see `in_bytes`.

    >>> in_file("cHc6IHNlY3JldA==", lambda text: text.replace("secret", "***"))
    'cHc6ICoqKg=='
    """
    held = _decoded(data)
    return data if held is None or (changed := in_bytes(held, change)) == held else _encoded(changed, data)


def in_bytes(data: bytes, change: Change, instead: bytes = b"[redacted]") -> bytes:
    r"""Change a text file; return `instead` for a binary file that holds text which the change would affect.

    A text may be in UTF-8, UTF-16 or UTF-32, or in an encoding of one byte for each character.

    >>> in_bytes("pass".encode("utf-16"), lambda text: text.replace("pass", "***")).decode("utf-16")
    '***'
    >>> picture = b"\x89PNG\x00\x01" * 99 + b"password"
    >>> in_bytes(picture, lambda text: text.replace("password", "***"))
    b'[redacted]'
    """
    if (known := _text(data)) is not None:
        mark, text, encoding = known
        changed = change(text)
        return data if changed == text else mark + changed.encode(encoding, "surrogatepass")
    if len(data) < FILE and _text(data.replace(b"\0", b"")) is None:
        return data
    # A binary file may hold text, but its format is unknown, so the text cannot be replaced in place.
    inside = [
        b"\n".join(_WORDS.findall(each)).decode("utf-8", "replace") for each in _with_and_without_nulls(data)
    ]
    return instead if any(change(text) != text for text in inside) else data


def _with_and_without_nulls(data: bytes) -> tuple[bytes, ...]:
    return (data, data.replace(b"\0", b"")) if b"\0" in data else (data,)


def text_of(data: str) -> str | None:
    """Decode a text file that is given in base64; `None` if it is not text, or `data` is not base64.

    >>> text_of("c2VjcmV0"), text_of("no base64")
    ('secret', None)
    """
    held = _decoded(data)
    known = None if held is None else _text(held)
    return None if known is None else known[1]


def _text(data: bytes) -> tuple[bytes, str, str] | None:
    """Decode bytes as text: the byte order mark, the text, and its encoding; `None` for a binary file."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return mark, data[len(mark) :].decode(encoding), encoding
            except UnicodeDecodeError:
                continue
    if b"\0" not in data:
        if _CONTROLS.search(data) is not None:
            return None
        try:
            return b"", data.decode(), "utf-8"
        except UnicodeDecodeError:
            return b"", data.decode("latin-1"), "latin-1"
    for encoding, width in (("utf-16-le", 2), ("utf-16-be", 2), ("utf-32-le", 4), ("utf-32-be", 4)):
        # Most texts hold ASCII spaces and line breaks, whose upper bytes are 0; the lower bytes are never 0.
        low = data[0 if encoding.endswith("le") else width - 1 :: width]
        if len(data) % width or b"\0" in low or _CONTROLS.search(low) is not None:
            continue
        try:
            return b"", data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return None


# --- base64 ---------------------------------------------------------------------------------------


def _in_line(run: str, change: Change) -> str:
    if run.islower() and run.replace("_", "").replace("-", "").isalpha():  # a word, or a name
        return run
    changed = _run(run, change)
    if changed == run and "/" in run:
        return _PART.sub(lambda found: _run(found.group(), change), run)
    return changed


def _run(run: str, change: Change) -> str:
    held = _decoded(run)
    if held is None or (len(held) < FILE and _text(held) is None):
        return run
    changed = in_bytes(held, change)
    return run if changed == held else _encoded(changed, run)


def _decoded(text: str) -> bytes | None:
    """Decode base64 of either alphabet, with or without padding; `None` if `text` is not base64."""
    if "\n" in text:
        text = _BREAKS.sub("", text)
    text = text.rstrip("=")
    if len(text) % 4 == 1:
        return None
    others = b"-_" if "-" in text or "_" in text else None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), others, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encoded(data: bytes, like: str) -> str:
    """Encode bytes in base64, in the alphabet of the text `like` that they replace."""
    made = base64.urlsafe_b64encode(data) if "-" in like or "_" in like else base64.b64encode(data)
    return made.decode()


# --- URIs and escapes -----------------------------------------------------------------------------


def _uri(found: re.Match[str], change: Change) -> str:
    head, data = found["type"], found["data"]
    start = found.group()[: found.start("data") - found.start()]
    plain = unquote(data)
    if head.lower().endswith(";base64"):
        changed = in_file(plain, change)
        return found.group() if changed == plain else start + changed
    changed = change(plain)
    return found.group() if changed == plain else start + quote(changed)


def _unescaped(found: re.Match[str]) -> str:
    if found["slash"]:
        return "/"
    return chr(int(found["code"] or found["byte"], 16))
