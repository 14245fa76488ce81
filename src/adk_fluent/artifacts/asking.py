"""What an operation asks of the artifact service: as values, which whoever runs it answers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class File:
    """The content of an artifact.

    Attributes:
        data: its bytes; `None` where it is only a link to another place.
        mime: its type.
    """

    data: bytes | None
    mime: str


@dataclass(frozen=True, slots=True)
class Save:
    """Save a new version; the answer is its number, the first being 0."""

    filename: str
    file: File
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Load:
    """Load a version, the latest by default; the answer is the `File`. One that is not there is an error."""

    filename: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """List the artifacts of the session and the user; the answer is their names, in order."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Find the latest version; the answer is its number. A file that is not there is an error."""

    filename: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete every version of an artifact; one that is not there is none."""

    filename: str


Request = Save | Load | Names | Latest | Delete
Work = Generator[Request, Any, Mapping[str, Any]]
"""An operation at work: yields each request, is sent the answer, and gives the changes of the state."""
