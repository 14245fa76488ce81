"""State keys: their scopes, references to the fields of a `StateSchema`, and their uses in source.

The prefix of a key is its scope, as in ADK: `user:tier`, `app:prices`, `temp:draft`. A key without a prefix
belongs to the session. The scope tells which sessions share a value, and how long it is kept.
`adk_fluent.state.StateSchema` makes the references; the graph needs only their key, type and scope.
`Sightings` are the keys that the source of a function shows; `source` reads it and never runs it. The source
shows all keys if the function uses its context, or the state, only in accesses with constant keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.frozen import Frozen, frozen

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


_Class: TypeAlias = type[Any]


@frozen
class StateFieldRef(Frozen):
    """One field of a `StateSchema`; at run time `BillingState.intent` is one.

    Attributes:
        name: the field's name, without a prefix.
        type: its type, without `Annotated`.
        scope: `session`, `user`, `app` or `temp`.
        schema: the class that declares it.
        constraints: the metadata of `Annotated` without scope and writer, such as `pydantic.Field(ge=0)`.
        captured_by: the writer that `CapturedBy` names, or `None`.
    """

    name: str
    type: Any
    scope: Scope = "session"
    schema: _Class | None = None
    constraints: tuple[Any, ...] = ()
    captured_by: object = None

    @property
    def key(self) -> str:
        """The state key, scope prefix included: `user:tier`."""
        return PREFIXES[self.scope] + self.name

    @property
    def annotation(self) -> Any:
        """The type with its constraints, as pydantic takes it."""
        return Annotated[(self.type, *self.constraints)] if self.constraints else self.type

    @property
    def is_text(self) -> bool:
        """True if any text is valid: the type is `str` or `str | None`, without constraints."""
        return not self.constraints and self.type in (str, str | None)

    @property
    def allows_none(self) -> bool:
        """True if the value may be `None`, which in state means absent."""
        return takes_none(self.type)

    def __str__(self) -> str:
        return self.key


def takes_none(kind: Any) -> bool:
    """True if a value of the type may be `None`.

    >>> takes_none(str | None), takes_none(str)
    (True, False)
    """
    return type(None) in get_args(kind) or kind in (None, type(None), Any, object)


def state_key(key: str | StateFieldRef, where: str = "This") -> str:
    """The state key that a user gives, as text or as a field of a schema.

    >>> state_key(StateFieldRef("tier", str, "user"))
    'user:tier'

    Args:
        where: the method or operator that takes it, for the message.

    Raises:
        ArgumentError: `key` is neither a text nor a field, or it is empty.
    """
    if isinstance(key, StateFieldRef):
        return key.key
    if not isinstance(key, str) or not key.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        raise ArgumentError(f"{where} takes a state key as text, not {type(key).__name__} {key!r:.40}.")
    return key


Level = Literal["required", "tolerant", "lenient", "optional"]
"""The effect of a missing key: `required`: an error; `tolerant`: the value is left out; `lenient`: no effect;
`optional`: the reader expects that it may be missing."""


@frozen
class Sighting(Frozen):
    """One place in source where a function reads or writes a key.

    Attributes:
        key: the state key, scope prefix included.
        where: file and line.
        level: for reads, the effect of a missing key. `required`: every call reads it; `lenient`: only some
            calls do; `optional`: the function expects that it may be missing.
        always: for writes, True if the key is set after every call that returns; for removals, True if the
            key is gone then.
    """

    key: str
    where: str
    level: Level = "optional"
    always: bool = False

    @property
    def softened(self) -> Level:
        """The level for code that may never run, or that may find keys in the state which the tree lacks."""
        return "lenient" if self.level == "required" else self.level


@frozen
class Sightings(Frozen):
    """All uses of state that the source of a function shows.

    Attributes:
        reads: the places where it reads keys.
        writes: the places where it writes keys of the state.
        returns: the keys of the dicts that it returns.
        whole: True if the source shows every use of the context or state that the function receives.
        gives: True if the source shows every change of the state by its results, which may be events.
        returns_known: True if the source shows the keys of every dict that it returns.
        by_state: True if its result depends on the state alone.
        removes: the places where it removes keys of the state.
    """

    reads: tuple[Sighting, ...] = ()
    writes: tuple[Sighting, ...] = ()
    returns: tuple[Sighting, ...] = ()
    whole: bool = False
    gives: bool = False
    returns_known: bool = False
    by_state: bool = False
    removes: tuple[Sighting, ...] = ()


NO_SIGHTINGS: Final = Sightings()
