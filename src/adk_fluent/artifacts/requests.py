"""Requests to the artifact service, and the names and MIME types of artifacts.

An operation yields requests as values, and the backend sends the answers back. A name may have placeholders,
which the state fills. The MIME types are those of the IANA registry. Python's own table is not used, since it
differs between machines.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from adk_fluent.errors import ArtifactError, MissingKeyError
from adk_fluent.ir.keys import ANY_FILE, USER_SCOPE, ArtifactUse, KeyRead, KeyReads, Level, Use
from adk_fluent.ir.predicates import StateView, lost
from adk_fluent.ir.template import Placeholder, placeholders, render
from adk_fluent.spelling import Namespace


@dataclass(frozen=True, slots=True)
class File:
    """The content of an artifact.

    Attributes:
        data: its bytes; `None` if the artifact is only a link to a file elsewhere.
        mime: its MIME type.
    """

    data: bytes | None
    mime: str


@dataclass(frozen=True, slots=True)
class SaveFile:
    """Save a new version; the answer is its number. The first version has number 0."""

    filename: str
    file: File
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LoadFile:
    """Load a version, the latest by default; the answer is the `File`. A missing artifact is an error."""

    filename: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class ListFiles:
    """List the artifacts of the session and of the user; the answer is their names, sorted."""


@dataclass(frozen=True, slots=True)
class LatestVersion:
    """Find the latest version; the answer is its number. A missing artifact is an error."""

    filename: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete every version of an artifact; a missing artifact is no error."""

    filename: str


Request = SaveFile | LoadFile | ListFiles | LatestVersion | DeleteFile
Work = Generator[Request, Any, Mapping[str, Any]]
"""A running operation: it yields requests, receives their answers and returns its changes of the state."""


# --- names ----------------------------------------------------------------------------------------


def stem(filename: str) -> str:
    """The name of a file without its scope, folders and ending.

    >>> stem("user:reports/draft.md"), stem("notes")
    ('draft', 'notes')
    """
    last = filename.removeprefix(USER_SCOPE).rpartition("/")[2]
    return last.rpartition(".")[0] or last


def fault_of(filename: str) -> str:
    """The fault of an artifact's name, as the end of a sentence; empty if the name is valid.

    >>> fault_of("user:"), fault_of("../secrets"), fault_of("a/b.md")
    ('is empty', 'leads out of its folder', '')
    """
    bare = filename.removeprefix(USER_SCOPE)
    if not bare.strip():
        return "is empty"
    if not bare.isprintable():
        return "has a character that cannot be printed"
    parts = bare.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "":
        return "leads out of its folder"
    return ""


def resolved_name(filename: str, state: StateView, subject: str) -> str:
    """The name of an artifact, with its placeholders filled from the state.

    Args:
        subject: the step and operation that need it, the start of each message.

    Raises:
        MissingKeyError: a key that the name needs is not set.
        ArtifactError: the filled name is not a valid name of an artifact.
    """
    if "{" not in filename:
        return filename

    def value(placeholder: Placeholder) -> str:
        found = state.get(placeholder.key)
        if found is None and not placeholder.optional:
            raise MissingKeyError(
                f"{subject} needs state key {placeholder.key!r} for the name {filename!r}, and it is not set."
                + (lost(state, placeholder.key) or " Write it before.")
            )
        return "" if found is None else str(found)

    made = render(filename, value)
    if fault := fault_of(made):
        raise ArtifactError(f"{subject}: {filename!r} became {made!r:.80}, which {fault}.")
    return made


def name_reads(*filenames: str) -> KeyReads:
    """The state keys that the placeholders in names read."""
    for filename in filenames:
        for placeholder in placeholders(filename) if "{" in filename else ():
            yield KeyRead(placeholder.key, "artifact", "optional" if placeholder.optional else "required")


def use_of(how: Use, filename: str, level: Level = "required") -> ArtifactUse:
    """The use of an artifact; of any artifact if its name has placeholders, so that only a run shows it."""
    return ArtifactUse(how, ANY_FILE if "{" in filename and placeholders(filename) else filename, level)


# --- MIME types -----------------------------------------------------------------------------------


class Mime(metaclass=Namespace):
    """Constants for common MIME types: `A.mime`.

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
"""The constants of `Mime`: name → MIME type."""

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
    """The MIME type for the ending of a filename; `None` if the ending is unknown.

    >>> mime_of("user:Report.MD"), mime_of("notes")
    ('text/markdown', None)
    """
    _, dot, suffix = filename.rpartition(".")
    return _BY_SUFFIX.get(suffix.lower()) if dot else None


def is_mime(text: str) -> bool:
    """True if a text has the form of a MIME type and starts with a registered kind, such as `text/`.

    >>> is_mime("text/plain; charset=utf-8"), is_mime("markdown"), is_mime("txt/plain")
    (True, False, False)
    """
    return _FORM.fullmatch(text) is not None


def kind_of(mime: str) -> str:
    """A MIME type without its parameters, in lower case.

    >>> kind_of("Text/Plain; charset=utf-8")
    'text/plain'
    """
    return mime.partition(";")[0].strip().lower()


def is_text(mime: str) -> bool:
    """True if files of a MIME type are text.

    >>> is_text("application/json"), is_text("image/svg+xml"), is_text("image/png")
    (True, True, False)
    """
    kind = kind_of(mime)
    return kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "csv", "javascript"))
