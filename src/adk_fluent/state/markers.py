"""Markers for `Annotated` that set the scope of a state field, or name its writer."""

from __future__ import annotations

from typing import Final

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.scopes import Scope


@frozen
class ScopeMarker(Frozen):
    """Sets the scope of a field; one of `SessionScoped`, `UserScoped`, `AppScoped` and `Temp`."""

    scope: Scope


SessionScoped: Final = ScopeMarker("session")
"""The value belongs to the session, under the plain name. This is the default."""

UserScoped: Final = ScopeMarker("user")
"""The value belongs to the user, in all their sessions: the key is `user:` and the name."""

AppScoped: Final = ScopeMarker("app")
"""All users of the app share the value: the key is `app:` and the name."""

Temp: Final = ScopeMarker("temp")
"""The value is removed when the run ends, and never stored: the key is `temp:` and the name."""


@frozen
class CapturedBy(Frozen):
    """Names the writer of a field if it is not an agent; for readers and checks, without effect on a run.

    Args:
        by: the factory or step, such as `S.capture`.
    """

    by: object
