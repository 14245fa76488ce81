"""A crossing as JSON text; what JSON lacks, such as bytes and tuples, is tagged."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from adk_fluent.distributed.crossing import Crossing, Happened
from adk_fluent.distributed.formats import VERSION, check_version
from adk_fluent.errors import SerializationError
from adk_fluent.state.delta import Typed

_FORMAT: Final = "adk-fluent/crossing"
_NAMES: Final = ("segment", "ir_hash", "run_id", "user_id", "session_id")


def dump(crossing: Crossing) -> bytes:
    """The crossing as JSON, UTF-8."""
    data = {
        "format": _FORMAT,
        "version": VERSION,
        "needs": 1,
        **{name: getattr(crossing, name) for name in _NAMES},
        "message": crossing.message,
        "state": {key: encoded(value) for key, value in crossing.state.items()},
        "history": [_event(happened) for happened in crossing.history],
        "events": [_event(happened) for happened in crossing.events],
        "own": [_event(happened) for happened in crossing.own],
        "answer": crossing.answer,
        "streaming": crossing.streaming,
        "error": crossing.error,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def load(data: bytes) -> Crossing:
    """The crossing of JSON that `dump` gave."""
    said = json.loads(data.decode("utf-8", "surrogatepass"))
    if not isinstance(said, dict) or cast("dict[str, Any]", said).get("format") != _FORMAT:
        raise SerializationError("This JSON is not what crosses an execution boundary.")
    given = cast("dict[str, Any]", said)
    check_version(given.get("needs"))
    return Crossing(
        **{name: str(given.get(name, "")) for name in _NAMES},
        message=given.get("message"),
        state={key: decoded(value) for key, value in given.get("state", {}).items()},
        history=tuple(map(_happened, given.get("history", ()))),
        events=tuple(map(_happened, given.get("events", ()))),
        own=tuple(map(_happened, given.get("own", ()))),
        answer=given.get("answer"),
        streaming=bool(given.get("streaming")),
        error=None if given.get("error") is None else _error(given["error"]),
    )


def _error(data: Mapping[str, Any]) -> dict[str, Any]:
    cause = data.get("cause")
    return {
        "type": str(data["type"]),
        "message": str(data["message"]),
        "attributes": dict(data.get("attributes", {})),
        "cause": None if cause is None else _error(cause),
    }


def _event(happened: Happened) -> dict[str, Any]:
    delta = {key: encoded(value) for key, value in happened.delta.items()}
    return {"event": happened.event, **({"delta": delta} if delta else {})}


def _happened(data: Mapping[str, Any]) -> Happened:
    return Happened(data["event"], {key: decoded(value) for key, value in data.get("delta", {}).items()})


def encoded(value: Any) -> Any:
    """A plain value as JSON-able data."""
    if isinstance(value, Typed):
        return {"$field": encoded(value.value)}
    if isinstance(value, float) and not isfinite(value):
        return {"$float": repr(float(value))}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"$tuple": [encoded(item) for item in cast("tuple[Any, ...]", value)]}
    if isinstance(value, list):
        return [encoded(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        if all(isinstance(key, str) and not key.startswith("$") for key in entries):
            return {key: encoded(inner) for key, inner in entries.items()}
        return {"$dict": [[encoded(key), encoded(inner)] for key, inner in entries.items()]}
    return value


def decoded(data: Any) -> Any:
    """The value of JSON-able data that `encoded` gave."""
    if isinstance(data, list):
        return [decoded(item) for item in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    entries = cast("dict[str, Any]", data)
    tag = next(iter(entries), "")
    if len(entries) != 1 or not tag.startswith("$"):
        return {key: decoded(inner) for key, inner in entries.items()}
    inner = entries[tag]
    match tag:
        case "$field":
            return Typed(decoded(inner))
        case "$float":
            return float(inner)
        case "$bytes":
            return base64.b64decode(inner, validate=True)
        case "$tuple":
            return tuple(decoded(item) for item in inner)
        case "$dict":
            return {decoded(key): decoded(item) for key, item in inner}
        case _:
            raise SerializationError(
                f"A value of the kind {tag!r:.20} is not known here; upgrade adk-fluent."
            )
