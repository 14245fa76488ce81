"""Between the content of a file and the parts of ADK's messages."""

from __future__ import annotations

from typing import Final

from google.genai import types

from adk_fluent.artifacts.requests import File, Mime, is_text, kind_of

_SHOWN: Final = ("image/", "audio/", "video/", Mime.PDF)
"""What models take as it is; the same that ADK's own tool for loading artifacts sends so."""


_EMPTY: Final = "application/x-empty"
"""The type of a file without content. ADK marks an artifact that a rewind took back as empty bytes."""


def to_part(file: File) -> types.Part:
    """The part by which ADK saves a file."""
    mime = _EMPTY if file.mime == Mime.BYTES and not file.data else file.mime
    return types.Part(inline_data=types.Blob(mime_type=mime, data=file.data))


def to_file(part: types.Part) -> File:
    """The content of a part; of a link to another place, its type alone."""
    if part.text is not None:
        return File(part.text.encode(errors="surrogatepass"), Mime.TEXT)
    if part.inline_data is not None and part.inline_data.data is not None:
        mime = part.inline_data.mime_type
        return File(part.inline_data.data, Mime.BYTES if mime == _EMPTY else mime or Mime.BYTES)
    link = part.file_data.mime_type if part.file_data else None
    return File(None, link or "unknown content")


def artifact_text(part: types.Part, name: str) -> str:
    """An artifact as text: what it says, or what it is."""
    if part.text is not None:
        return part.text
    blob = part.inline_data
    if blob is not None and blob.data is not None and is_text(blob.mime_type or ""):
        return blob.data.decode("utf-8", errors="replace")
    kind = blob.mime_type if blob else part.file_data.mime_type if part.file_data else None
    return f"[{name}: {kind or 'no content'}]"


def shown(part: types.Part, name: str) -> types.Content:
    """An artifact as a message to a model: the thing itself if models take such, else text."""
    kind = kind_of((part.inline_data.mime_type if part.inline_data else None) or "")
    whole = part.file_data is not None or kind.startswith(_SHOWN)
    content = part if whole else types.Part(text=artifact_text(part, name))
    return types.Content(role="user", parts=[types.Part(text=f"Artifact {name} is:"), content])
