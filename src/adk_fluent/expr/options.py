"""The options of `run` and its relatives, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import describe
from adk_fluent.state.given import given_state

_TEXTS = {"app_name": "the name of an app", "user_id": "a user's id", "session_id": "a session's id"}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; one that is `None` was not.

    The services are checked where they are put together, since only ADK knows what they are.

    Raises:
        ArgumentError: one is of the wrong kind; the message names it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name, what in _TEXTS.items():
        value = given.get(name, "-")
        if not isinstance(value, str) or not value.strip():
            raise ArgumentError(f"{name}= takes {what} as text, not {describe(value)}.")
    given_state(given.get("state"))
    if "backend" in given:
        _check_backend(given["backend"])
    return given


def _check_backend(value: object) -> None:
    from adk_fluent.backends.protocol import Backend

    if isinstance(value, Backend) and not isinstance(value, type):
        return
    shown = describe(cast(object, value))
    raise ArgumentError(f"backend= takes a backend, such as ADKBackend(), not {shown}.{_hint(value)}")


def _hint(value: object) -> str:
    from adk_fluent.backends.protocol import Backend

    if isinstance(value, Mapping):
        return " Scripted answers go into one: backend=mock_backend({...})."
    if isinstance(value, type):
        return f" Make one of it: {value.__name__}(...)." if isinstance(value, Backend) else ""
    missing = [name for name in ("compile", "run", "stream") if not hasattr(value, name)]
    return f" It has no {' and no '.join(missing)}()." if 0 < len(missing) < 3 else ""
