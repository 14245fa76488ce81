"""Errors that were recorded, raised again."""

from __future__ import annotations

import builtins
from functools import cache
from typing import Final

from adk_fluent import errors
from adk_fluent.debug.values import Failure
from adk_fluent.errors import ADKFluentError, ModelError

_PLAIN: Final = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, UnicodeError | BaseExceptionGroup | StopIteration | StopAsyncIteration)
)
"""Errors of Python that are made of a message alone."""


def raised(failure: Failure) -> Exception:
    """An error like the one that was recorded: of the same name, with the same message and HTTP status.

    Errors of Python and of adk-fluent are of their own class, so that what catches them catches them again;
    any other is a `ModelError` of that name.

    >>> raised(Failure("TimeoutError", "too slow"))
    TimeoutError('too slow')
    >>> type(raised(Failure("ServerError", "busy", 503))).__name__, raised(Failure("X", status=429)).code
    ('ServerError', 429)
    """
    own = getattr(errors, failure.type, None)
    if isinstance(own, type) and issubclass(own, ADKFluentError):
        made: Exception = own(failure.message)
    elif failure.type in _PLAIN:
        made = getattr(builtins, failure.type)(failure.message)
    else:
        made = _class(failure.type)(failure.message)
    if failure.status is not None:
        made.code = failure.status  # pyright: ignore[reportAttributeAccessIssue]  # where providers put it
    return made


@cache
def _class(name: str) -> type[ModelError]:
    return type(name if name.isidentifier() else "RecordedError", (ModelError,), {})
