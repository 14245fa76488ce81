"""What crosses a boundary, as bytes: JSON, protobuf and Arrow; versioned, and open to newer fields."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Literal, Protocol, cast

from adk_fluent.distributed.crossing import Crossing
from adk_fluent.errors import ArgumentError, SerializationError

Serialization = Literal["json", "protobuf", "arrow"]

VERSION: Final = 1
"""The version that is written."""

CONTENT_TYPES: Final = {
    "json": "application/vnd.adk-fluent.crossing+json",
    "protobuf": "application/vnd.adk-fluent.crossing+protobuf",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""What a transport says of the bytes."""


class Format(Protocol):
    """One way to write a crossing."""

    def dump(self, crossing: Crossing) -> bytes:
        """The crossing as bytes."""
        ...

    def load(self, data: bytes) -> Crossing:
        """The crossing of bytes that `dump` gave, of this version or a newer one."""
        ...


def format_of(serialization: Serialization) -> Format:
    """The module that writes and reads a serialization.

    Raises:
        ArgumentError: there is none of that name.
    """
    if serialization not in CONTENT_TYPES:
        raise ArgumentError(f"A crossing is written as json, protobuf or arrow, not {serialization!r:.40}.")
    return cast("Format", import_module(f"{__name__}.{serialization}"))


def to_bytes(crossing: Crossing, serialization: Serialization = "json") -> bytes:
    """What crosses, as bytes.

    Args:
        serialization: as what; a boundary says.

    Raises:
        ArgumentError: there is no such serialization.
        MissingExtraError: `arrow` without the extra `arrow`.

    Example:
        >>> crossing = Crossing(segment="heavy", state={"task": "sum", "limits": (1, 2.5), "file": b"x"})
        >>> from_bytes(to_bytes(crossing)) == crossing
        True
    """
    return format_of(serialization).dump(crossing)


def from_bytes(data: bytes, serialization: Serialization = "json") -> Crossing:
    """What crossed; no code runs, whatever the bytes are.

    Raises:
        SerializationError: the bytes are no crossing, or one of a version that this one cannot read.
    """
    try:
        return format_of(serialization).load(data)
    except SerializationError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SerializationError(
            f"These {len(data)} bytes are not what crosses an execution boundary as {serialization}: "
            f"{type(error).__name__}: {error!s:.120}"
        ) from error


def check_version(needs: object) -> None:
    """Refuse what only a newer version can read.

    Args:
        needs: the least version that a reader must have; a writer that only adds fields leaves it as it was.

    Raises:
        SerializationError: it is newer than this one.
    """
    if not isinstance(needs, int) or needs > VERSION:
        raise SerializationError(
            f"What crossed needs version {needs!r:.20} of the format, and this side reads version {VERSION}. "
            "Upgrade adk-fluent here first, then where it was written."
        )
