"""An error that a worker tells of is raised as what it was, with what callers and middleware read from it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from google.genai.errors import ServerError
from pydantic import TypeAdapter, ValidationError

from adk_fluent.backends.adk.durable.failures import LONG, raised, told_of
from adk_fluent.errors import ADKFluentError, CircuitOpenError, MissingKeyError, ModelError, RunError
from adk_fluent.middleware.faults import is_passing, retry_after, status_of

_BUSY = {"error": {"code": 503, "status": "UNAVAILABLE", "details": [{"retryDelay": "3s"}]}}
_MANY = httpx.Response(429, headers={"retry-after": "7"}, request=httpx.Request("GET", "http://x"))


class TwoParts(Exception):
    """Made of more than a text."""

    def __init__(self, left: str, right: int) -> None:
        super().__init__(f"{left} {right}")
        self.left, self.right = left, right


def _over(error: BaseException) -> BaseException:
    """An error after it has crossed."""
    return raised(json.loads(json.dumps(told_of(error))))


@pytest.mark.parametrize(
    "error",
    [
        ServerError(503, _BUSY),
        httpx.HTTPStatusError("too many", request=_MANY.request, response=_MANY),
        httpx.ConnectError("cut"),
        ConnectionResetError(104, "reset"),
        TimeoutError(),
        TwoParts("a", 1),
        KeyError("k"),
        MissingKeyError("no key"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_it_is_what_it_was(error: Exception) -> None:
    """Its class and text, whether it may pass, and when."""
    there = _over(error)
    assert (type(there), str(there)) == (type(error), str(error))
    assert (is_passing(there), status_of(there)) == (is_passing(error), status_of(error))
    assert retry_after(there) == retry_after(error)


def test_attributes_are_kept() -> None:
    """Those that JSON holds in a few words, of its causes too."""
    refused = CircuitOpenError("not asked")
    refused.retry_after = 2.5
    refused.__cause__ = made = TwoParts("a", 1)
    made.right = 7
    cast: Any = refused
    cast.live, cast.long = object(), "x" * (LONG + 1)
    there: Any = _over(refused)
    assert there.retry_after == 2.5
    assert there.__cause__.right == 7
    assert not hasattr(there, "live")
    assert not hasattr(there, "long")


def test_a_class_that_cannot_be_made_is_named() -> None:
    """Its status is known all the same."""
    with pytest.raises(ValidationError) as found:
        TypeAdapter(int).validate_python("x")
    there = _over(found.value)
    assert isinstance(there, RunError)
    assert str(there).startswith("ValidationError: ")
    told = {**told_of(ServerError(503, _BUSY)), "type": "not.there:Gone"}
    assert is_passing(raised(told))


def test_a_mark_on_an_error_crosses() -> None:
    """Such as that of a hook, which stops a run that a failure would not."""
    from adk_fluent.backends.adk.middleware.stack import by_hook, hook_error

    there = _over(by_hook(ModelError("no")))
    assert isinstance(hook_error(there), ADKFluentError)


def test_what_a_class_computes_is_left_to_it() -> None:
    """A property of the same name cannot be set."""
    told = {**told_of(httpx.ConnectError("cut")), "attributes": {"request": 1, "status_code": 500}}
    there: Any = raised(told)
    assert there.status_code == 500


def test_no_secret_crosses() -> None:
    """What a client kept with its error of how it signed in stays with the worker."""
    error = ConnectionError("POST https://models.example/?key=AIza" + "x" * 35)
    vars(error).update(api_key="zebra-zebra", request_id="r-1")
    told = json.dumps(told_of(error))
    assert "zebra" not in told
    assert "AIza" not in told
    assert getattr(_over(error), "request_id", None) == "r-1"
