"""Errors as JSON, so that what is raised on a worker is raised again where the step was asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

from adk_fluent.backends.adk.durable.steps import Json
from adk_fluent.errors import RunError, what_happened


def told_of(error: BaseException) -> Json:
    """The class and the message of an error, and of those that caused it."""
    kind = type(error)
    cause = error.__cause__
    return {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "message": _message(error),
        "cause": None if cause is None else told_of(cause),
    }


def _message(error: BaseException) -> str:
    first: object = error.args[0] if error.args else ""
    return first if len(error.args) == 1 and isinstance(first, str) else str(error)


def raised(told: Mapping[str, Json]) -> BaseException:
    """The error again; one whose class is not known here, or is made of more than a text, as a `RunError`."""
    kind, message = _class(str(told["type"])), str(told["message"])
    error: BaseException
    try:
        error = RunError(_named(told)) if kind is None else kind(message)
    except Exception:  # noqa: BLE001  # a class may want anything
        error = RunError(_named(told))
    if isinstance(cause := told.get("cause"), Mapping):
        error.__cause__ = raised(cast("Mapping[str, Json]", cause))
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
