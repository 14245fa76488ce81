"""Requests of operations to the artifact service, as values; the backend sends the answers back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any


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
