"""References to typed state fields, as expressions and nodes hold them.

`adk_fluent.state.StateSchema` makes them; the graph only needs their key, type and scope.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, get_args

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.scopes import PREFIXES, Scope

_Class: TypeAlias = type[Any]


@frozen
class StateFieldRef(Frozen):
    """One field of a `StateSchema`: what `BillingState.intent` is at run time.

    Attributes:
        name: the field's name, without a prefix.
        type: its type, without `Annotated`.
        scope: `session`, `user`, `app` or `temp`.
        schema: the class that declares it.
        constraints: what `Annotated` says beside scope and producer, such as `pydantic.Field(ge=0)`.
        captured_by: what `CapturedBy` names, or `None`.
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
        """Whether any text fits: the type is `str` or `str | None`, without constraints."""
        return not self.constraints and self.type in (str, str | None)

    @property
    def allows_none(self) -> bool:
        """Whether the value may be `None`, which in state means that it is absent."""
        return takes_none(self.type)

    def __str__(self) -> str:
        return self.key


def takes_none(kind: Any) -> bool:
    """Whether a value of the type may be `None`.

    >>> takes_none(str | None), takes_none(str)
    (True, False)
    """
    return type(None) in get_args(kind) or kind in (None, type(None), Any, object)


def state_key(key: str | StateFieldRef, where: str = "This") -> str:
    """The state key that a user names, as text or as a field of a schema.

    >>> state_key(StateFieldRef("tier", str, "user"))
    'user:tier'

    Args:
        where: the method or operator it was given to, for the message.

    Raises:
        ArgumentError: it is neither, or empty.
    """
    if isinstance(key, StateFieldRef):
        return key.key
    if not isinstance(key, str) or not key.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        raise ArgumentError(f"{where} takes a state key as text, not {type(key).__name__} {key!r:.40}.")
    return key
