"""Change texts that other texts and files hold encoded: as base64, in a `data:` URI, with escapes, as bytes.

Each function takes a `Change`, which maps a plain text to its new text. The function decodes the inner text,
applies the change, and encodes the result in the same way. Redaction uses this to find secrets in files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

Change = Callable[[str], str]

_LINE: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?!(?:adk-)?[0-9a-f-]+(?![A-Za-z0-9+/_=-]))[A-Za-z0-9+/_-]{12,}={0,2}"  # not an id
)
_LINES: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}+(?:\r?\n[A-Za-z0-9+/_-]{2,}+={0,2}+(?![^\r\n]))++"
)
_PART: Final = re.compile(r"[A-Za-z0-9+]{12,}={0,2}")
"""Patterns of text that may be base64: in one line, in several lines, or as part of a path."""

_HEX: Final = re.compile(r"(?<![0-9A-Za-z-])(?:(?:[0-9a-f]{2}){12,}+|(?:[0-9A-F]{2}){12,}+)(?![0-9A-Za-z-])")

_BREAKS: Final = re.compile(r"\r?\n")
_URI: Final = re.compile(r"(?<![\w-])data:(?P<type>[\w.+/;=-]{0,200}),(?P<data>[^\s\"'<>]+)", re.IGNORECASE)
_ESCAPES: Final = re.compile(
    r"(?<!\\)\\++(?:u(?P<code>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2})|(?P<slash>/))"
)
_WORD: Final = re.compile(r"[^\s\"'<>]+")
_ROW: Final = re.compile(r"[^\r\n]+")
_CONTROLS: Final = re.compile(rb"[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no text holds. A text may hold tabs, line breaks and the escape of a color."""

_WORDS: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){6,}")
"""A run of six or more characters, in ASCII or UTF-8, among other bytes."""

_TEXT: Final = re.compile(
    rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){10,}[\xc2-\xf4]?[\x80-\xbf]{0,2}"
)
"""Ten or more characters of text; a character at the end may be incomplete."""

SHORTEST_ENCODED: Final = 12
"""Shortest text, in characters, that may hold an encoded one."""

_LONGEST_START: Final = 4096
"""Most bytes to decompress when `_is_deflated` tests whether data are compressed."""

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

_PACKED: Final = re.compile(
    rb"(?P<zip>PK(?:\x03\x04|\x05\x06|\x07\x08))|(?P<gzip>\x1f\x8b\x08)|(?P<bzip2>BZh[1-9]1AY&SY)"
    rb"|(?P<xz>\xfd7zXZ\0)|(?P<lzma>\x5d\0\0)|(?P<lzip>LZIP[\0\x01])|(?P<zstd>\x28\xb5\x2f\xfd)"
    rb"|(?P<lz4>\x04\x22\x4d\x18)|(?P<snappy>\xff\x06\0\0sNaPpY)|(?P<sevenzip>7z\xbc\xaf\x27\x1c)"
    rb"|(?P<rar>Rar!\x1a\x07)|(?P<cab>MSCF\0\0\0\0)|(?P<pdf>%PDF-)|(?P<tar>.{257}ustar)"
    rb"|(?P<office>\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1)"  # Word and Excel until 2003
    rb"|(?P<png>\x89PNG.*?(?:zTXt|iTXt[^\0]{1,79}\0\x01))",  # with a text that is compressed
    re.DOTALL,
)
"""First bytes of files whose content is compressed or packed."""

_ZIP_END: Final = b"PK\x05\x06"
"""Start of the record that ends a ZIP file; such a file may start with other data, such as a program."""

_SEEN_OR_HEARD: Final = ("image/", "audio/", "video/")
"""Starts of MIME types whose files hold little text: pictures, sounds and videos."""

_LEFT_OUT: Final = re.compile(r"\[left out: [^\[\]]+, \d+ bytes, sha256 ([0-9a-f]{64})\]")


def in_text(text: str, change: Change) -> str:
    """Change all texts that `text` holds in base64, in hexadecimal digits or in `data:` URIs.

    >>> in_text("a data:,secret%21 and c2VjcmV0IHdvcmRz", lambda text: text.replace("secret", "***"))
    'a data:,%2A%2A%2A%21 and KioqIHdvcmRz'
    """
    if "data:" in text or "DATA:" in text:
        text = _URI.sub(lambda found: _uri(found, change), text)
    if "\n" in text:
        text = _LINES.sub(lambda found: _run(found.group(), change), text)
    text = _LINE.sub(lambda found: _in_line(found.group(), change), text)
    return _HEX.sub(lambda found: _in_hex(found.group(), change), text)


def in_escapes(text: str, change: Change, direct: Change) -> str:
    r"""Change the texts that `text` holds with escapes: those of JSON and Python, of URLs, and of HTML.

    A text that changes loses its escapes, unless `direct` changes it in the same way.

    Args:
        text: the text.
        change: returns the changed text, for a text without its escapes.
        direct: returns the changed text, for a text with its escapes.

    >>> hide = lambda text: text.replace("s=1", "***")
    >>> in_escapes(r"s\u003d1", hide, hide), in_escapes("s%3D1&b=%20 s=1&b=%20", hide, hide)
    ('***', '***&b=  ***&b=%20')
    """
    if "\\" in text:
        text = _in_escaped(text, _without_backslashes, change, direct)
    if "%" in text:
        text = _WORD.sub(lambda found: _in_escaped(found.group(), unquote, change, direct), text)
    if "&" in text:
        from html import unescape  # its table of entities takes as long to load as three of our modules

        text = _ROW.sub(lambda found: _in_escaped(found.group(), unescape, change, direct), text)
    return text


def _in_escaped(text: str, plain_of: Change, change: Change, direct: Change) -> str:
    plain = plain_of(text)
    if plain == text or (changed := change(plain)) == plain:
        return text
    made = direct(text)
    return made if plain_of(made) == changed else changed


def _without_backslashes(text: str) -> str:
    return _ESCAPES.sub(_unescaped, text)


def in_file(data: str, change: Change, mime_type: str = "") -> str:
    """Change the text of a file that is given in base64; see `in_bytes`.

    >>> in_file("cHc6IHNlY3JldA==", lambda text: text.replace("secret", "***"), "text/plain")
    'cHc6ICoqKg=='
    """
    held = _decoded(data)
    if held is None:
        return data
    is_whole = len(data) % 4 == 0  # as all encoders write it; else it may be a word
    changed = in_bytes(held, change, mime_type if is_whole else None)
    return data if changed == held else _encoded(changed, data)


def in_bytes(data: bytes, change: Change, mime_type: str | None = None) -> bytes:
    r"""Change the text that the bytes of a file hold.

    A text may be in UTF-8, UTF-16 or UTF-32, or in an encoding with ASCII and one byte for each character,
    such as Latin-1. A text inside
    a binary file, such as a picture, cannot be replaced: if the change affects it, the result is
    `[redacted]`. For a file that cannot be read, the result is a note with its size and hash. That is each
    compressed or packed file, and, if `mime_type` is known, each binary file that is no picture, sound or
    video.

    Args:
        data: the bytes of the file.
        change: returns the changed text.
        mime_type: the type of the file; empty if it is a file of unknown type, `None` if `data` may be
            anything.

    >>> in_bytes("pass".encode("utf-16"), lambda text: text.replace("pass", "***")).decode("utf-16")
    '***'
    >>> picture = b"\x89PNG\x00\x01" * 99 + b"password"
    >>> in_bytes(picture, lambda text: text.replace("password", "***"))
    b'[redacted]'
    >>> in_bytes(b"PK\x03\x04", lambda text: text)[:30]
    b'[left out: zip, 4 bytes, sha25'
    """
    if (packed := _packing(data)) is not None:
        return _note(data, mime_type or packed)
    if (known := _text(data)) is not None:
        mark, text, encoding = known
        changed = change(text)
        return data if changed == text else mark + changed.encode(encoding, "surrogatepass")
    if mime_type is not None and _is_unreadable(data, mime_type.lower()):
        return _note(data, mime_type or "bytes")
    if mime_type is None and len(data) < FILE and _text(data.replace(b"\0", b"")) is None:
        return data
    # A binary file may hold text, but its format is unknown, so the text cannot be replaced in place.
    inside = [
        b"\n".join(_WORDS.findall(each)).decode("utf-8", "replace") for each in _with_and_without_nulls(data)
    ]
    return b"[redacted]" if any(change(text) != text for text in inside) else data


def _packing(data: bytes) -> str | None:
    """The format of a compressed or packed file, such as `zip`; `None` for other files."""
    if (found := _PACKED.match(data)) is not None:
        return found.lastgroup
    if _ZIP_END in data[-0x10016:] and _text(data) is None:
        return "zip"
    return "deflate" if len(data) > 2 and _is_deflated(data) else None


def _is_deflated(data: bytes) -> bool:
    """True if bytes are compressed with `deflate`, with or without the header of `zlib`."""
    headed = data[0] & 0x0F == 8 and data[0] < 0x80 and int.from_bytes(data[:2], "big") % 31 == 0
    reader = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
    try:
        start = reader.decompress(data, _LONGEST_START)
    except zlib.error:
        return False
    # Other bytes may start like compressed ones by chance, but they rarely decompress to a long text.
    if headed:
        return reader.eof or len(start) > SHORTEST_ENCODED * 4
    is_end = reader.eof and not reader.unused_data
    return (is_end or len(start) == _LONGEST_START) and _TEXT.fullmatch(start) is not None


def _is_unreadable(data: bytes, mime_type: str) -> bool:
    """True if a binary file may hold text that cannot be found; a short file declared as text is kept."""
    if mime_type.startswith(_SEEN_OR_HEARD):
        return False
    return len(data) >= FILE or not mime_type.startswith("text/")


def _note(data: bytes, kind: str) -> bytes:
    """The note that replaces a file that is left out."""
    kind = re.sub(r"[^\w.+/;= -]", "", kind)[:100]
    return f"[left out: {kind}, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]".encode()


def note_of(data: str) -> str | None:
    """The note in `data` if it replaces a file that was left out, else `None`; see `in_bytes`.

    >>> note_of("c2VjcmV0") is None
    True
    """
    text = text_of(data) or ""
    return text if _LEFT_OUT.fullmatch(text) else None


def is_left_out(note: str, data: str) -> bool:
    """True if a note in base64 replaced exactly this file in base64; the hashes are compared."""
    found, held = _LEFT_OUT.fullmatch(text_of(note) or ""), _decoded(data)
    return found is not None and held is not None and hashlib.sha256(held).hexdigest() == found[1]


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
    if held is None or (len(held) < FILE and _text(held) is None and _packing(held) is None):
        return run
    changed = in_bytes(held, change)
    return run if changed == held else _encoded(changed, run)


def _in_hex(run: str, change: Change) -> str:
    held = bytes.fromhex(run)
    if len(held) < FILE and _text(held) is None and _packing(held) is None:
        return run
    changed = in_bytes(held, change)
    return run if changed == held else changed.hex()


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
    mime_type = head.partition(";")[0] or "text/plain"
    if head.lower().endswith(";base64"):
        plain = unquote(data)
        changed = in_file(plain, change, mime_type)
        return found.group() if changed == plain else start + changed
    held = unquote_to_bytes(data)
    made = in_bytes(held, change, mime_type)
    return found.group() if made == held else start + quote(made)


def _unescaped(found: re.Match[str]) -> str:
    if found["slash"]:
        return "/"
    return chr(int(found["code"] or found["byte"], 16))
