"""Requests as strangers write them: what is read as JSON, and what is answered to one that is no request."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

_ESCAPED: Final = re.compile(rb"\\u(?:d[89a-f]|0000)", re.IGNORECASE)
"""How JSON writes what may be half a character or U+0000."""
_LOGGERS: Final = (
    "a2a.server.routes.jsonrpc_dispatcher",
    "a2a.compat.v0_3.jsonrpc_adapter",
    "a2a.server.apps.jsonrpc.jsonrpc_app",
)
"""Where a2a-sdk logs the mistakes of callers, each with a traceback."""
_MISTAKES: Final = ("Failed to parse request params", "Failed to validate base JSON-RPC request")
_LONGEST: Final = 500
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602


def read_json(body: bytes) -> Any:
    """The value of a JSON text that every part of the server can store, send on and write again.

    Raises:
        ValueError: it is no JSON, is nested too deeply, has a number that is not finite or too large, half a
            character (an unpaired surrogate), or the character U+0000, which PostgreSQL refuses.
    """
    try:
        told: object = json.loads(body, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if _ESCAPED.search(body):
        written = json.dumps(told, ensure_ascii=False)
        try:
            written.encode()
        except UnicodeEncodeError as error:
            raise ValueError("it has half a character (an unpaired surrogate)") from error
        if re.search(r"(?<!\\)(?:\\\\)*\\u0000", written):
            raise ValueError("it has the character U+0000")
    return told


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it has a number that is too large")
    return number


def _whole(text: str) -> int:
    _finite(text)  # protobuf keeps it as a float
    return int(text)


def mistake_in(body: bytes) -> bytes | None:
    """What JSON-RPC answers to a body that is no request; `None` for one that is."""
    try:
        told = read_json(body)
    except ValueError as error:
        return _error(None, PARSE_ERROR, f"The body is not valid JSON: {error}")
    if not isinstance(told, dict):
        return _error(None, INVALID_REQUEST, "A request is one JSON object; batches are not supported.")
    held = cast("dict[str, Any]", told)
    id, method, params = held.get("id"), held.get("method"), held.get("params", {})
    if isinstance(id, bool) or not isinstance(id, str | int | None):
        return _error(None, INVALID_REQUEST, "id must be a string, a whole number or null.")
    if held.get("jsonrpc") != "2.0":
        return _error(id, INVALID_REQUEST, "jsonrpc must be '2.0'.")
    if not isinstance(method, str) or not method:
        return _error(id, INVALID_REQUEST, "method must be a string that is not empty.")
    if not isinstance(params, Mapping):
        return _error(id, INVALID_PARAMS, "params must be an object.")
    return None


def _error(id: object, code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).encode()


class _OneLine(logging.Filter):
    """Makes one line of what a2a-sdk logs of a request, and leaves out tracebacks of a caller's mistakes.

    Ids, methods and field names come from strangers; a line break in one would forge a line of the log.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; none is dropped."""
        told = record.getMessage()
        if record.exc_info and told.startswith(_MISTAKES):
            told = f"{told}: {record.exc_info[1]}"
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{' '.join(told.split()):.{_LONGEST}}", ()
        return True


_one_line: Final = _OneLine()


def log_in_one_line() -> None:
    """Have what a2a-sdk logs of requests in one line each; repeated calls change nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_one_line)
