"""The grammar of `{key}` placeholders in instructions, the same one ADK's injection follows.

A placeholder is `{key}`, `{key?}` (optional), `{artifact.file}` or `{artifact.file?}`; a key is an
identifier, or `app:`, `user:` or `temp:` and an identifier; spaces inside the braces do not count.
Anything else in braces (`{a.b}`, `{0}`, JSON) is plain text, and so are `\\{key}` and `${key}`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from adk_fluent.ir.frozen import Frozen, frozen

SCOPES = ("app", "user", "temp")
_BRACES = re.compile(r"(?<![\\$])\{+([^{}]*)\}+")


@frozen
class Placeholder(Frozen):
    """One placeholder: a state key, or an artifact's file name when `artifact` is true."""

    key: str
    optional: bool = False
    artifact: bool = False


@lru_cache(maxsize=4096)
def placeholders(text: str) -> tuple[Placeholder, ...]:
    """The placeholders of a template, in order of appearance.

    >>> for placeholder in placeholders("Help {name}: {user:tier?} {not a key} {artifact.cv}"):
    ...     print(placeholder)
    Placeholder(key='name')
    Placeholder(key='user:tier', optional=True)
    Placeholder(key='cv', artifact=True)
    """
    if "{" not in text:
        return ()
    return tuple(found for match in _BRACES.finditer(text) if (found := _placeholder(match[1])) is not None)


def _placeholder(inner: str) -> Placeholder | None:
    inner = inner.strip()
    optional = inner.endswith("?")
    name = inner.removesuffix("?")
    if name.startswith("artifact."):
        return Placeholder(name.removeprefix("artifact."), optional, artifact=True)
    return Placeholder(name, optional) if is_key(name) else None


def is_key(name: str) -> bool:
    """Whether ADK would accept `name` as a state key inside a template.

    >>> is_key("user:tier"), is_key("a.b")
    (True, False)
    """
    scope, colon, bare = name.rpartition(":")
    return bare.isidentifier() and (not colon or scope in SCOPES)


def required_keys(text: str) -> frozenset[str]:
    """The state keys a template cannot be rendered without."""
    return frozenset(p.key for p in placeholders(text) if not p.optional and not p.artifact)


@lru_cache(maxsize=4096)
def all_keys(text: str) -> frozenset[str]:
    """The state keys a template reads, optional ones included."""
    return frozenset(p.key for p in placeholders(text) if not p.artifact)
