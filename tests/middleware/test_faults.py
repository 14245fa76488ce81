"""What the errors of providers say of another try, read from the errors that these clients really raise."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import httpx
import pytest
from google.genai import errors

from adk_fluent.errors import BudgetError, CircuitOpenError, ModelError, ModelTimeoutError, RateLimitError
from adk_fluent.middleware.faults import is_passing, retry_after, status_of

REQUEST = httpx.Request("POST", "http://127.0.0.1/")


def gemini(status: int, delay: str | None = None, **headers: str) -> errors.APIError:
    """What google-genai raises for an answer of this status."""
    details: list[Any] = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]}]
    if delay is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    body = {"error": {"code": status, "message": "no", "status": "RESOURCE_EXHAUSTED", "details": details}}
    response = httpx.Response(status, headers=headers, json=body, request=REQUEST)
    kind = errors.ClientError if status < 500 else errors.ServerError
    return kind(status, body, response)


class OpenAIError(Exception):
    """The shape that OpenAI's client and LiteLLM give their errors."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("no")
        self.status_code = status
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = httpx.Response(status, headers=named, request=REQUEST)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass(status: int) -> None:
    """Timeouts, too many requests and faults of the server may pass."""
    assert is_passing(gemini(status))
    assert is_passing(OpenAIError(status))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
def test_what_stays_wrong(status: int) -> None:
    """What the provider says is wrong with the request, or that it cannot do, stays so."""
    assert not is_passing(gemini(status))
    assert not is_passing(OpenAIError(status))


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        httpx.ConnectError("no"),
        httpx.ReadTimeout("no"),
        ModelTimeoutError("slow"),
        RateLimitError("later"),
    ],
)
def test_connections_and_timeouts_may_pass(error: Exception) -> None:
    """A connection that breaks, and whatever took too long, may work the next time."""
    assert is_passing(error)


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), BudgetError("x"), CircuitOpenError("x"), FileNotFoundError()]
)
def test_other_errors_do_not_pass(error: Exception) -> None:
    """Mistakes in code, spent budgets and open circuits are not tried again."""
    assert not is_passing(error)


def test_gemini_says_when() -> None:
    """The delay in the body of a Gemini error and its header both count, the longer one wins."""
    assert retry_after(gemini(429, "34.5s")) == 34.5
    assert retry_after(gemini(429, None, **{"Retry-After": "7"})) == 7
    assert retry_after(gemini(429, "34s", **{"Retry-After": "7"})) == 34
    assert retry_after(gemini(429)) is None


def test_openai_says_when() -> None:
    """The headers that OpenAI and LiteLLM pass on count: seconds, milliseconds, or a date."""
    assert retry_after(OpenAIError(429, retry_after="2")) == 2
    assert retry_after(OpenAIError(429, retry_after_ms="1500")) == 1.5
    date = formatdate(1_000_060, usegmt=True)
    assert retry_after(OpenAIError(429, retry_after=date), now=1_000_000.0) == 60
    assert retry_after(OpenAIError(429, retry_after=date), now=2_000_000.0) == 0


@pytest.mark.parametrize("nonsense", ["soon", "-3", "nan", "inf", ""])
def test_nonsense_in_a_header_is_no_wait(nonsense: str) -> None:
    """A header that names no time is as good as none."""
    assert retry_after(OpenAIError(429, retry_after=nonsense)) is None


def test_our_own_refusals_say_when() -> None:
    """What a rate limiter of ours raises names its time in the same way."""
    refused = RateLimitError("later")
    refused.retry_after = 3.0
    assert retry_after(refused) == 3.0


def test_the_cause_behind_a_named_error_counts() -> None:
    """An error that only names the agent is judged by its cause."""
    named = ModelError("a failed")
    named.__cause__ = gemini(429, "5s")
    assert (is_passing(named), retry_after(named), status_of(named.__cause__)) == (True, 5.0, 429)


@pytest.mark.newest
def test_litellm_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM's own exceptions are read as they are."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else importing it looks for prices elsewhere
    import litellm

    response = httpx.Response(429, headers={"retry-after": "7"}, request=REQUEST)
    limited: Any = litellm.exceptions.RateLimitError("no", "openai", "gpt", response=response)
    assert (is_passing(limited), retry_after(limited)) == (True, 7.0)
    broken: Any = litellm.exceptions.APIConnectionError("no", "openai", "gpt")
    wrong: Any = litellm.exceptions.BadRequestError("no", "gpt", "openai")
    assert is_passing(broken)
    assert not is_passing(wrong)
