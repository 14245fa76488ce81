"""Errors as JSON, so that what is raised on a worker is raised again where the step was asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

from adk_fluent._redaction import Redactor
from adk_fluent.backends.adk.durable.steps import Json
from adk_fluent.errors import RunError, what_happened
from adk_fluent.middleware.faults import retry_after, status_of

LONG: Final = 2_000
"""Characters of JSON that an attribute of an error may take; a longer one is left behind."""


def told_of(error: BaseException) -> Json:
    """The class, the message and the attributes of an error, and of those that caused it.

    Providers keep what tells whether a call may be repeated, and when, in the response, which is no JSON: its
    status and how long to wait are told as attributes. Secrets are not told.
    """
    kind = type(error)
    cause = error.__cause__
    said = {"status_code": status_of(error), "retry_after": retry_after(error)}
    known = {name: value for name, value in said.items() if value is not None} | _attributes(error)
    redacted = Redactor()
    return {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "attributes": redacted(known),
        "message": redacted(_message(error)),
        "cause": None if cause is None else told_of(cause),
    }


def _attributes(error: BaseException) -> dict[str, Json]:
    return {name: value for name, value in vars(error).items() if _is_short_json(value)}


def _is_short_json(value: object) -> bool:
    try:
        return len(json.dumps(value, allow_nan=False)) <= LONG
    except (TypeError, ValueError):
        return False


def _message(error: BaseException) -> str:
    first: object = error.args[0] if error.args else ""
    return first if len(error.args) == 1 and isinstance(first, str) else str(error)


def raised(told: Mapping[str, Json]) -> BaseException:
    """The error again; one whose class is not known here, or cannot be made like this, as a `RunError`."""
    attributes: Mapping[str, Json] = told.get("attributes", {})
    error = _made(_class(str(told["type"])), str(told["message"]), attributes)
    if error is None:
        error = _with(RunError(_named(told)), attributes)
    if isinstance(cause := told.get("cause"), Mapping):
        error.__cause__ = raised(cast("Mapping[str, Json]", cause))
    return error


def raise_again(told: Mapping[str, Json]) -> NoReturn:
    """Raise the error again, with what caused it there, and not with what carried it here."""
    error = raised(told)
    raise error from error.__cause__


def _made(
    kind: type[BaseException] | None, message: str, attributes: Mapping[str, Json]
) -> BaseException | None:
    """An error of a class, which is not initialised: that may want anything."""
    try:
        error = None if kind is None else _with(kind.__new__(kind, message), attributes)
        return error if str(error) in (message, repr(message)) else None
    except Exception:  # noqa: BLE001  # a class may do anything
        return None


def _with(error: BaseException, attributes: Mapping[str, Json]) -> BaseException:
    for name, value in attributes.items():
        with suppress(AttributeError):  # what a class computes cannot be set
            BaseException.__setattr__(error, name, value)
    return error


def _named(told: Mapping[str, Json]) -> str:
    return what_happened(type(str(told["type"]).rpartition(":")[2], (Exception,), {})(told["message"]))


def _class(path: str) -> type[BaseException] | None:
    """A class of errors, in a module that is imported already."""
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
