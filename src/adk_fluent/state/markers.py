"""What stands in `Annotated` beside the type of a state field."""

from __future__ import annotations

from typing import Final

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.scopes import Scope


@frozen
class ScopeMarker(Frozen):
    """Puts a field into a scope; one of `SessionScoped`, `UserScoped`, `AppScoped` and `Temp`."""

    scope: Scope


SessionScoped: Final = ScopeMarker("session")
"""Kept with the session, under the plain name: what a field without a marker is."""

UserScoped: Final = ScopeMarker("user")
"""Kept for the user in all their sessions: the key is `user:` and the name."""

AppScoped: Final = ScopeMarker("app")
"""Shared by all users of the app: the key is `app:` and the name."""

Temp: Final = ScopeMarker("temp")
"""Gone when the run ends, never stored: the key is `temp:` and the name."""


@frozen
class CapturedBy(Frozen):
    """Says what writes a field, when it is not an agent; for readers and checks, without effect on a run.

    Args:
        by: the factory or step, such as `S.capture`.
    """

    by: object
