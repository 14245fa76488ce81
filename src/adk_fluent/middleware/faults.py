"""What an error of a model or tool says: whether trying again may help, and when the provider allows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

from adk_fluent.errors import ADKFluentError, ModelError, RateLimitError, ToolError

_PASSING: Final = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that pass: a timeout, a conflict, too early, too many."""

_NEVER: Final = frozenset({501, 505})
"""Those from 500 on that will not change: not implemented, HTTP version."""

_CONNECTION: Final = frozenset({"TransportError", "ClientConnectionError", "APIConnectionError"})
"""Base classes of the connection errors of httpx, of aiohttp, and of the clients that wrap these."""

PASSING_CODES: Final = frozenset(
    {"429", "500", "502", "503", "504", "DEADLINE_EXCEEDED", "INTERNAL", "MALFORMED_FUNCTION_CALL"}
    | {"RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNEXPECTED_TOOL_CALL"}
)
"""Error codes of a model's response after which the same request may well succeed."""


def root_of(error: BaseException) -> BaseException:
    """The provider's own error behind one that only names the agent."""
    while type(error) in (ModelError, ToolError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def status_of(error: BaseException) -> int | None:
    """The HTTP status in an error of google-genai, LiteLLM, OpenAI, httpx, aiohttp or google-api-core.

    >>> class TooMany(Exception):
    ...     status_code = 429
    >>> status_of(TooMany()), status_of(ValueError())
    (429, None)
    """
    holders = (error, getattr(error, "response", None))
    for holder in holders:
        for name in ("status_code", "code", "status"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return int(value)
    return None


def is_passing(error: BaseException) -> bool:
    """Whether the same call may succeed a little later.

    So may what timed out, lost its connection, or got HTTP 408, 409, 425, 429 or 5xx. Anything else, such as
    a request that the provider calls wrong, would only fail again.

    >>> is_passing(ConnectionResetError()), is_passing(TimeoutError()), is_passing(KeyError("x"))
    (True, True, False)
    """
    error = root_of(error)
    if (status := status_of(error)) is not None:
        return status in _PASSING or (status >= 500 and status not in _NEVER)
    if isinstance(error, ADKFluentError):
        return isinstance(error, RateLimitError | TimeoutError)
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return any(cls.__name__ in _CONNECTION for cls in type(error).__mro__)


def retry_after(error: BaseException, *, now: float | None = None) -> float | None:
    """How many seconds its provider asks to wait before another try; `None` if it does not say.

    Read are the headers `retry-after-ms` and `retry-after` (seconds or a date) of the response, the
    `google.rpc.RetryInfo` in what Gemini answers, and an attribute `retry_after`; the longest counts.

    Args:
        now: the time in seconds since 1970, for a date; by default that of this machine.

    >>> class TooMany(Exception):
    ...     details = {"error": {"details": [{"retryDelay": "34.5s"}]}}
    >>> retry_after(TooMany())
    34.5
    """
    error = root_of(error)
    said = [getattr(error, "retry_after", None)]
    headers = _headers(error)
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        said.append(milliseconds / 1000)
    said += [_seconds(headers.get("retry-after"), now), _retry_info(getattr(error, "details", None))]
    known = [float(value) for value in said if isinstance(value, int | float) and value >= 0]
    return max(known, default=None)


def _headers(error: BaseException) -> dict[str, str]:
    found: dict[str, str] = {}
    for holder in (getattr(error, "response", None), error):
        for name in ("headers", "litellm_response_headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, Mapping):
                given = cast("Mapping[object, object]", headers)
                found |= {str(key).lower(): str(value) for key, value in given.items()}
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds(text: str | None, now: float | None) -> float | None:
    """The seconds that a `Retry-After` header names, or that are left until the date in it."""
    number = _number(text)
    if text is None or number is not None:
        return number
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    when = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - (time.time() if now is None else now))


def _retry_info(details: Any) -> float | None:
    """The `retryDelay` ("34s") in the JSON of a Gemini error, however deep it stands."""
    if isinstance(details, Mapping):
        given = cast("Mapping[str, Any]", details)
        delay = given.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
        return _longest(list(given.values()))
    return _longest(cast("list[Any]", details)) if isinstance(details, list) else None


def _longest(parts: list[Any]) -> float | None:
    found = [_retry_info(part) for part in parts if isinstance(part, Mapping | list)]
    return max((delay for delay in found if delay is not None), default=None)
