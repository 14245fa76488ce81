"""State keys and their scopes: which sessions share a value, and how long it is kept.

The prefix of a key is its scope, as in ADK: `user:tier`, `app:prices`, `temp:draft`. A key without a prefix
belongs to the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Scope = Literal["session", "user", "app", "temp"]
"""The sessions that share a state value, and how long it is kept."""

PREFIXES: Final[Mapping[Scope, str]] = {"session": "", "user": "user:", "app": "app:", "temp": "temp:"}
"""The prefix that ADK gives the keys of each scope."""

SCOPES: Final = ("user", "app", "temp")
"""The scopes that have a prefix."""

_PREFIXED: Final = tuple(f"{scope}:" for scope in SCOPES)
_SHARED: Final = (PREFIXES["user"], PREFIXES["app"])
_TEMPORARY: Final = PREFIXES["temp"]


def is_key(name: str) -> bool:
    """True if ADK accepts `name` as a state key in a template.

    >>> is_key("user:tier"), is_key("a.b")
    (True, False)
    """
    scope, colon, bare = name.rpartition(":")
    return bare.isidentifier() and (not colon or scope in SCOPES)


def is_session_scoped(key: str) -> bool:
    """True if a key belongs to the session; only such keys are removed from state."""
    return not key.startswith(_PREFIXED)


def is_shared(key: str) -> bool:
    """True if other sessions may read and write the key: a key of the user or the app."""
    return key.startswith(_SHARED)


def is_temporary(key: str) -> bool:
    """True if the key exists for one run only."""
    return key.startswith(_TEMPORARY)
