"""MIME types: those that have a name in `A.mime`, and which type a filename stands for.

The types are those of the IANA registry. Python's own table is not used, since it differs between machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from adk_fluent.spelling import Namespace


class Mime(metaclass=Namespace):
    """The types that have a name: `A.mime`.

    Example:
        >>> from adk_fluent import A
        >>> A.mime.MARKDOWN
        'text/markdown'
    """

    _called = "A.mime"

    TEXT: Final = "text/plain"
    MARKDOWN: Final = "text/markdown"
    HTML: Final = "text/html"
    CSS: Final = "text/css"
    CSV: Final = "text/csv"
    TSV: Final = "text/tab-separated-values"
    JSON: Final = "application/json"
    XML: Final = "application/xml"
    YAML: Final = "application/yaml"
    PDF: Final = "application/pdf"
    ZIP: Final = "application/zip"
    DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    PNG: Final = "image/png"
    JPEG: Final = "image/jpeg"
    GIF: Final = "image/gif"
    WEBP: Final = "image/webp"
    SVG: Final = "image/svg+xml"
    MP3: Final = "audio/mpeg"
    WAV: Final = "audio/wav"
    OGG: Final = "audio/ogg"
    MP4: Final = "video/mp4"
    WEBM: Final = "video/webm"
    BYTES: Final = "application/octet-stream"


NAMES: Final[Mapping[str, str]] = {name: mime for name, mime in vars(Mime).items() if name.isupper()}
"""Those names, each with its type."""

_ALSO: Final = {
    "txt": Mime.TEXT,
    "log": Mime.TEXT,
    "md": Mime.MARKDOWN,
    "htm": Mime.HTML,
    "yml": Mime.YAML,
    "jpg": Mime.JPEG,
    "bin": Mime.BYTES,
}
_BY_SUFFIX: Final = {name.lower(): mime for name, mime in NAMES.items()} | _ALSO
_KINDS: Final = "application|audio|font|image|message|model|multipart|text|video"
_FORM: Final = re.compile(rf"({_KINDS})/[\w!#$&^.+-]+( *; *[\w-]+=[^;]+)*", re.IGNORECASE | re.ASCII)


def mime_of(filename: str) -> str | None:
    """The type that a filename's ending stands for; `None` for one that is not known here.

    >>> mime_of("user:Report.MD"), mime_of("notes")
    ('text/markdown', None)
    """
    _, dot, suffix = filename.rpartition(".")
    return _BY_SUFFIX.get(suffix.lower()) if dot else None


def is_mime(text: str) -> bool:
    """Whether a text has the form of a MIME type, of a kind that there is.

    >>> is_mime("text/plain; charset=utf-8"), is_mime("markdown"), is_mime("txt/plain")
    (True, False, False)
    """
    return _FORM.fullmatch(text) is not None


def kind_of(mime: str) -> str:
    """A type without its parameters, in small letters.

    >>> kind_of("Text/Plain; charset=utf-8")
    'text/plain'
    """
    return mime.partition(";")[0].strip().lower()


def is_text(mime: str) -> bool:
    """Whether content of a type is text.

    >>> is_text("application/json"), is_text("image/svg+xml"), is_text("image/png")
    (True, True, False)
    """
    kind = kind_of(mime)
    return kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "csv", "javascript"))
