"""`circuit_breaker`: a model that keeps failing is left alone for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar

from adk_fluent.errors import ADKFluentError, CircuitOpenError
from adk_fluent.middleware.arguments import positive, whole
from adk_fluent.middleware.breaker import Breaker, Circuit
from adk_fluent.middleware.faults import PASSING_CODES, is_passing, root_of, status_of
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Shared
from adk_fluent.middleware.messages import problem_in
from adk_fluent.middleware.protocol import CallModel, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse


def circuit_breaker(failure_threshold: int = 5, reset_timeout: float = 30.0) -> CircuitBreaker:
    """Stop asking a model that keeps failing, and see after a while whether it answers again.

    Each model has a circuit, shared by all agents and runs that this object acts on. It opens after so many
    failures in a row: calls are then refused at once with `CircuitOpenError`, which a `//` catches as any
    other failure of a model. After `reset_timeout` seconds one call is let through: if it is answered the
    circuit closes, if not it stays open for as long again.

    Failures are errors and timeouts of the provider. That it calls a request wrong (HTTP 400, 401, 404, ...)
    says nothing about whether it works, nor does a call that is cancelled.

    Args:
        failure_threshold: failures in a row that open it.
        reset_timeout: seconds until one call is let through.

    Raises:
        ArgumentError: a number is out of range.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = mock_backend({"a": ConnectionError("down"), "b": "I am the other one."})
        >>> breaker = circuit_breaker(failure_threshold=2)
        >>> pipeline = Agent("a").middleware(breaker) // Agent("b")
        >>> for prompt in ("one", "two", "three"):
        ...     result = asyncio.run(pipeline.run(prompt, backend=backend))
        >>> len(backend.calls["a"]), result.text
        (2, 'I am the other one.')
    """
    return CircuitBreaker(failure_threshold, reset_timeout)


class CircuitBreaker(Middleware):
    """What `circuit_breaker()` makes."""

    _keeps_answers: ClassVar[bool] = True
    remembers: ClassVar[bool] = True

    def __init__(self, failure_threshold: int, reset_timeout: float) -> None:
        self._threshold = whole(failure_threshold, "circuit_breaker(failure_threshold=)")
        self._reset = positive(reset_timeout, "circuit_breaker(reset_timeout=)")
        self._breakers: Shared[dict[str, Breaker]] = self.shared(dict[str, Breaker])

    def state(self, model: str) -> Circuit:
        """Whether the circuit of a model is `closed`, `open` or `half-open`."""
        breaker = self._breakers.current.get(model)
        return "closed" if breaker is None else breaker.state

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask the model, unless its circuit is open."""
        model, now = request.model or "", asyncio.get_running_loop().time
        breaker = self._breakers(ctx).setdefault(model, Breaker(self._threshold, self._reset))
        ticket = breaker.enter(now())
        if ticket is None:
            raise self._refusal(ctx.agent_name, model, breaker.left(now()))
        try:
            problem = None
            async for response in call(request):
                problem = problem_in(response)
                yield response
            if problem in PASSING_CODES:
                breaker.failed(ticket, now())
            else:
                breaker.succeeded(ticket)
        except Exception as error:
            if _is_a_failure(error):
                breaker.failed(ticket, now())
            raise
        finally:
            breaker.abandoned(ticket)  # which means nothing after an outcome

    def _refusal(self, agent: str, model: str, left: float) -> CircuitOpenError:
        refused = CircuitOpenError(
            f"{agent!r} did not ask {model!r}: it has failed {self._threshold} times in a row, and is tried "
            f"again {f'in {left:.0f} s' if left >= 1 else 'now by another call'}. Give the agent a fallback "
            "(//, or fallback_model), or wait."
        )
        refused.retry_after = left
        return refused


def _is_a_failure(error: Exception) -> bool:
    """Whether an error says that the model does not work, and not that the request is wrong."""
    if is_passing(error):
        return True
    cause = root_of(error)
    return status_of(cause) is None and not isinstance(cause, ADKFluentError)
