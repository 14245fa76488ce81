"""Conversion of state values to the content of files, and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from adk_fluent.artifacts.filenames import Mime, is_text, kind_of, mime_of
from adk_fluent.artifacts.formats import Unfit, from_csv, from_json, from_markdown, to_csv, to_json
from adk_fluent.artifacts.requests import File


def content_of(value: object, filename: str, mime: str | None = None) -> File:
    """Convert a state value to the content of a file.

    Text is written in UTF-8, and bytes as they are. If the type of the file is not text, as for an image, a
    text value must be base64. A list of dicts in a CSV file becomes a table; everything else becomes JSON.

    Args:
        mime: the MIME type; by default the ending of the filename decides, else the class of the value.

    Raises:
        Unfit: the value cannot be written as that type.

    >>> content_of([{"a": 1}], "rows.csv")
    File(data=b'a\\n1\\n', mime='text/csv')
    >>> content_of({"a": 1}, "notes").mime, content_of("hello", "notes").mime
    ('application/json', 'text/plain')
    """
    kind = mime or mime_of(filename) or _usual(value)
    if isinstance(value, bytes):
        return File(value, kind)
    if not is_text(kind):
        return File(_decoded(value, kind), kind)
    return File(_encoded(_text(value, kind)), kind)


def _usual(value: object) -> str:
    return Mime.BYTES if isinstance(value, bytes) else Mime.TEXT if isinstance(value, str) else Mime.JSON


def _text(value: object, mime: str) -> str:
    if isinstance(value, str):
        return value
    write = to_csv if kind_of(mime) == Mime.CSV and isinstance(value, list) else to_json
    return write(cast(object, value))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Unfit(f"has a character at position {error.start} that UTF-8 cannot write") from error


def _decoded(value: object, mime: str) -> bytes:
    """Decode a base64 text to bytes."""
    if not isinstance(value, str):
        raise Unfit(f"is {type(value).__name__} {value!r:.40}, and {mime} needs bytes, or text in base64")
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unfit(f"is text, and {mime} needs bytes, or text in base64") from error


# --- and back -------------------------------------------------------------------------------------


def value_of(file: File, decode: str) -> Any:
    """Convert the content of a file to a state value.

    Args:
        decode: the form of the content, one of `DECODINGS`.

    Raises:
        Unfit: the content does not have that form, or the file is only a link.

    >>> value_of(File(b'[1]', "application/json"), "json")
    [1]
    """
    if file.data is None:
        raise Unfit(f"is a link to {file.mime} in another place, which only a model can follow")
    if decode == "base64":
        return base64.b64encode(file.data).decode()
    try:
        text = file.data.decode()
    except UnicodeDecodeError as error:
        raise Unfit(
            f"is no UTF-8 text but {len(file.data):,} bytes of {file.mime}; decode='base64' takes those"
        ) from error
    return DECODINGS[decode](text)


DECODINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": lambda text: text,
    "json": from_json,
    "csv": from_csv,
    "markdown": from_markdown,
    "base64": lambda text: text,
}
"""The decoders of file content, by the name that a user writes in `decode=`."""

KINDS: Final[Mapping[str, object]] = {"json": None, "csv": list, "markdown": dict}
"""The type of a decoder's result; text if it is not in this table, `None` if only a run shows the type."""
