"""State keys and their scopes: who shares a value, and how long it is kept.

The prefix of a key says its scope, as in ADK: `user:tier`, `app:prices`, `temp:draft`; a key without one
lives with the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Scope = Literal["session", "user", "app", "temp"]
"""Who shares a state value, and how long it is kept."""

PREFIXES: Final[Mapping[Scope, str]] = {"session": "", "user": "user:", "app": "app:", "temp": "temp:"}
"""The prefix that ADK gives the keys of each scope."""

SCOPES: Final = ("user", "app", "temp")
"""What may stand before the colon of a key."""

_PREFIXED: Final = tuple(f"{scope}:" for scope in SCOPES)
_SHARED: Final = (PREFIXES["user"], PREFIXES["app"])
_TEMPORARY: Final = PREFIXES["temp"]


def is_key(name: str) -> bool:
    """Whether ADK would accept `name` as a state key inside a template.

    >>> is_key("user:tier"), is_key("a.b")
    (True, False)
    """
    scope, colon, bare = name.rpartition(":")
    return bare.isidentifier() and (not colon or scope in SCOPES)


def is_session_scoped(key: str) -> bool:
    """Whether a key lives with the session; only such keys are ever dropped."""
    return not key.startswith(_PREFIXED)


def is_shared(key: str) -> bool:
    """Whether other sessions may read and write the key: one of the user or the app."""
    return key.startswith(_SHARED)


def is_temporary(key: str) -> bool:
    """Whether the key lives for one run."""
    return key.startswith(_TEMPORARY)
