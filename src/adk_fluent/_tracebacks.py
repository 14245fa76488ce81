"""Short tracebacks: an `ADKFluentError` shows the user's lines, not those of this library and of ADK.

An error of a run passes through a hundred frames of tasks and generators, none of which the user wrote.
Every public function that runs something does so inside `brief()`. It removes those frames from the error,
from its causes and from the errors of groups. The user's frames stay, such as those of a tool that raised.
Set the environment variable `ADK_FLUENT_FULL_TRACEBACK=1` to keep all frames.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from types import CoroutineType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar, cast

from adk_fluent.errors import ADKFluentError

P = ParamSpec("P")
T = TypeVar("T")

FULL: Final = "ADK_FLUENT_FULL_TRACEBACK"
"""Environment variable that keeps every frame."""

_OWN: Final = ("adk_fluent", "google.adk")
_CARRIERS: Final = (
    *_OWN,
    *("asyncio", "concurrent", "threading", "contextlib", "contextvars", "functools", "inspect"),
    *("google", "grpc", "httpx", "httpcore", "aiohttp", "anyio", "requests", "urllib3", "tenacity"),
    *("a2a", "anthropic", "litellm", "mcp", "openai", "opentelemetry", "pydantic", "temporalio"),
)
"""Packages whose frames lie between a terminal, the user's function and a provider's client."""


class brief:  # written like contextlib's `suppress`
    """Shorten the tracebacks of an `ADKFluentError` that leaves this block, and of its causes."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, ADKFluentError) and os.environ.get(FULL, "") in ("", "0"):
            for each in _with_causes(error):
                each.__traceback__ = _shortened(each.__traceback__)
                if each.__cause__ is None and not _is_of_caller(each.__context__):
                    each.__suppress_context__ = True


def briefly(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, CoroutineType[Any, Any, T]]:
    """Put `brief()` around each call of a coroutine function."""

    @wraps(call)
    async def shortened(*args: P.args, **kwargs: P.kwargs) -> T:
        with brief():
            return await call(*args, **kwargs)

    return shortened


def in_logs(error: BaseException) -> str:
    """Name an error for a log or a span: its class, its status, and where it was raised.

    The result leaves out the message, because the message may quote a secret, a user, a model or a tool.

    >>> in_logs(ValueError("The password is wrong: hunter2")), in_logs(FileNotFoundError(2, "secret.txt"))
    ('ValueError', 'FileNotFoundError: No such file or directory')
    """
    cause = error.__cause__
    while isinstance(error, ADKFluentError) and cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    behind = f" ({in_logs(cause)})" if isinstance(error, ADKFluentError) and cause is not None else ""
    told = type(error).__name__.lstrip("_")
    if isinstance(error, OSError) and isinstance(error.errno, int):
        told = f"{told}: {os.strerror(error.errno)}"
    codes = (getattr(error, name, None) for name in ("status_code", "code"))
    if status := next((code for code in codes if isinstance(code, int) and 100 <= code < 600), None):
        told = f"{told} {status:d}"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if behind or frame is None:
        return told + behind
    return f"{told} at {os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}"


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and all errors that its printed traceback includes."""
    found, waiting = set[int](), [error]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            found.add(id(each))
            yield each
            waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
            if isinstance(each, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", each).exceptions


def _shortened(traceback: TracebackType | None) -> TracebackType | None:
    """The frames from the user's first one on, without those of this library and of ADK."""
    frames = list(_frames(traceback))
    first = next((number for number, frame in enumerate(frames) if not _in(frame, _CARRIERS)), len(frames))
    shown: TracebackType | None = None
    for frame in reversed(frames[first:]):
        if not _in(frame, _OWN):
            shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shown


def _is_of_caller(error: BaseException | None) -> bool:
    return error is not None and any(not _in(frame, _CARRIERS) for frame in _frames(error.__traceback__))


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _in(frame: TracebackType, packages: tuple[str, ...]) -> bool:
    """True if a frame's module is in one of these packages; a frame without a module is the user's."""
    name = str(frame.tb_frame.f_globals.get("__name__", ""))
    return name.startswith(tuple(f"{package}." for package in packages)) or name in packages
