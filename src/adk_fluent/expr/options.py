"""The options of `run` and its relatives, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import describe
from adk_fluent.spelling import did_you_mean
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


SERVICES: Final = ("session_service", "artifact_service", "memory_service", "credential_service")
_ELSEWHERE: Final = {
    "app_name": "Give it the configuration: to_runner(ExecutionConfig(app_name=...)).",
    "backend": "The runner is ADK's own. Another backend runs the expression: run(prompt, backend=...).",
    **dict.fromkeys(
        ("user_id", "session_id", "state", "state_delta"),
        "Give it the run: runner.run_async(user_id=..., session_id=..., state_delta=..., new_message=...).",
    ),
}


def only_services(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `to_runner` was given: services, which are checked where they are put together.

    Raises:
        ArgumentError: an option is none; the message says where it belongs.
    """
    for name in options:
        if name not in SERVICES:
            instead = _ELSEWHERE.get(name, did_you_mean(name, SERVICES).strip())
            raise ArgumentError(f"to_runner() has no option {name!r}. {instead}".rstrip())
    return options


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
