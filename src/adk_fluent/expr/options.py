"""The options of `run` and the other terminals: their types, their texts in `help()`, and their checks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, cast

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

AnyMiddleware: TypeAlias = "Middleware | BasePlugin | Sequence[Middleware | BasePlugin]"
F = TypeVar("F", bound=Callable[..., object])


class ServiceOptions(TypedDict, total=False):
    """The services of ADK that store things for a run; by default, all store in this process's memory."""

    session_service: BaseSessionService
    artifact_service: BaseArtifactService
    memory_service: BaseMemoryService
    credential_service: BaseCredentialService


class RunOptions(ServiceOptions, total=False):
    """The keyword arguments of `run`, `ask` and other methods that start a run."""

    app_name: str
    user_id: str
    session_id: str
    state: Mapping[str, Any]
    backend: Backend
    config: ExecutionConfig
    middleware: AnyMiddleware


class ResumeOptions(ServiceOptions, total=False):
    """The keyword arguments of `resume` and `rewind`, which continue a stored session."""

    app_name: str
    user_id: str
    backend: SessionBackend
    config: ExecutionConfig
    middleware: AnyMiddleware


_MEANINGS: Final[Mapping[str, str]] = {
    "session_service": "stores sessions; in the memory of this process by default.",
    "artifact_service": "stores artifacts; in the memory of this process by default.",
    "memory_service": "ADK's long-term memory; in the memory of this process by default.",
    "credential_service": "stores credentials of tools; in the memory of this process by default.",
    "app_name": "the ADK app's name; overrides that of `config`.",
    "user_id": "the user who owns the session; `user` by default.",
    "session_id": "the session to continue; it is created if it does not exist. By default a new session.",
    "state": "values that are written to the session's state before the run.",
    "backend": "runs the expression; ADK by default. Without sessions, it takes no `session_id` or service.",
    "config": "an `ExecutionConfig`: limits, streaming, resumability, compaction.",
    "middleware": "middleware around this run, outside that of the expression; one object, or a list.",
}
"""The text on each option, for `help()` and the reference."""


def listing_options(options: type) -> Callable[[F], F]:
    """Decorate a method whose `**options` are a `TypedDict`: show each option in its signature and docstring.

    The list replaces the line `options: ...` or `services: ...` of the docstring. The signature shows `None`
    as each default, because an option that is `None` counts as not given.
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
    """Decorate a function: hide parameters from `help()` that exist only for an error message."""

    def leave_out(function: F) -> F:
        shown: Any = function
        signature = inspect.signature(function)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        shown.__signature__ = signature.replace(parameters=kept)
        return function

    return leave_out


_TEXTS = {"app_name": "the name of an app", "user_id": "a user's id", "session_id": "a session's id"}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options and return those that are not `None`.

    The services are checked later, by the ADK backend, because their classes are ADK's.

    Raises:
        ArgumentError: an option has the wrong type; the message names it.
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
    "app_name": "Set it in the configuration: to_runner(ExecutionConfig(app_name=...)).",
    "backend": "The runner is ADK's own. To use another backend, write run(prompt, backend=...).",
    **dict.fromkeys(
        ("user_id", "session_id", "state", "state_delta"),
        "Set it in the run: runner.run_async(user_id=..., session_id=..., state_delta=..., new_message=...).",
    ),
}


def only_services(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that `to_runner` got services only; the ADK backend checks their classes.

    Raises:
        ArgumentError: an option is not a service; the message says where it belongs.
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
    hint = ""
    missing = [name for name in ("compile", "run", "stream") if not hasattr(value, name)]
    if isinstance(value, Mapping):
        hint = " Give scripted answers as backend=mock_backend({...})."
    elif isinstance(value, type):
        hint = f" Create one: {value.__name__}(...)." if isinstance(value, Backend) else ""
    elif 0 < len(missing) < 3:
        hint = f" It has no {' and no '.join(missing)}()."
    shown = describe(cast(object, value))
    raise ArgumentError(f"backend= takes a backend, such as ADKBackend(), not {shown}.{hint}")
