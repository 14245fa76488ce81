"""The options of `run` and its relatives: their types, what `help()` says of them, and their checks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import describe
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.fidelity import given_state

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService
    from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
    from google.adk.memory import BaseMemoryService
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.sessions import BaseSessionService

    from adk_fluent.backends.protocol import Backend, SessionBackend
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.middleware.protocol import Middleware

    AnyMiddleware = Middleware | BasePlugin | Sequence[Middleware | BasePlugin]

F = TypeVar("F", bound=Callable[..., object])


class ServiceOptions(TypedDict, total=False):
    """Where a run keeps things; each defaults to the memory of this process."""

    session_service: BaseSessionService
    artifact_service: BaseArtifactService
    memory_service: BaseMemoryService
    credential_service: BaseCredentialService


class RunOptions(ServiceOptions, total=False):
    """How and where an expression is run."""

    app_name: str
    user_id: str
    session_id: str
    state: Mapping[str, Any]
    backend: Backend
    config: ExecutionConfig
    middleware: AnyMiddleware


class ResumeOptions(ServiceOptions, total=False):
    """Where the session to go back to is kept."""

    app_name: str
    user_id: str
    backend: SessionBackend
    config: ExecutionConfig
    middleware: AnyMiddleware


_MEANINGS: Final[Mapping[str, str]] = {
    "session_service": "where sessions are kept; in the memory of this process by default.",
    "artifact_service": "where artifacts are kept; in the memory of this process by default.",
    "memory_service": "ADK's long-term memory; in the memory of this process by default.",
    "credential_service": "where credentials of tools are kept; in the memory of this process by default.",
    "app_name": "the ADK app's name; overrides that of `config`.",
    "user_id": "whose session it is; `user` by default.",
    "session_id": "the session to go on in; it is created when missing. A new one by default.",
    "state": "written to the session before the run.",
    "backend": "what runs it; ADK by default. Without sessions it takes no `session_id` and no services.",
    "config": "an `ExecutionConfig`: limits, streaming, resumability, compaction.",
    "middleware": "what acts on this run, around the middleware of the expression; one, or a list.",
}
"""Option -> what it means, as `help()` and the reference say it."""


def listing_options(options: type) -> Callable[[F], F]:
    """Show each option of a `TypedDict` in the signature and docstring of a method that takes it as keywords.

    The docstring says `options: ...` or `services: ...` where the list goes. An option that is `None` was not
    given, so that is the default which the signature shows.
    """

    def list_them(method: F) -> F:
        shown: Any = method
        signature = inspect.signature(method)
        *before, last = signature.parameters.values()
        kinds: Mapping[str, Any] = options.__annotations__
        form = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY, default=None)
        keywords = [form(name, annotation=f"{kind.__forward_arg__} | None") for name, kind in kinds.items()]
        shown.__signature__ = signature.replace(parameters=[*before, *keywords])
        listed = "\n".join(f"{name}: {_MEANINGS[name]}" for name in kinds)
        entry = re.compile(rf"^( +){last.name}: .*?\.$", re.MULTILINE)
        shown.__doc__ = entry.sub(lambda found: indent(listed, found[1]), method.__doc__ or "")
        return method

    return list_them


def leaving_out(*names: str) -> Callable[[F], F]:
    """Keep parameters that only exist for an error message out of the signature that `help()` shows."""

    def leave_out(function: F) -> F:
        shown: Any = function
        signature = inspect.signature(function)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        shown.__signature__ = signature.replace(parameters=kept)
        return function

    return leave_out


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
