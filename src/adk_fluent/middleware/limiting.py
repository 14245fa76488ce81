"""`timeout` and `fallback_model`: what becomes of a model call that takes too long, or fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from adk_fluent._limit import Limit
from adk_fluent.errors import ADKFluentError, ArgumentError, ModelError, ModelTimeoutError, what_happened
from adk_fluent.middleware.arguments import positive
from adk_fluent.middleware.faults import root_of
from adk_fluent.middleware.messages import problem_in, with_note
from adk_fluent.middleware.protocol import CallModel, Context, Middleware
from adk_fluent.middleware.tracing import span_event

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")


def timeout(seconds: float) -> Timeout:
    """Give each model call a number of seconds; then it is cancelled and `ModelTimeoutError` raised.

    The seconds are those of the whole answer, streamed or not; what is done with its pieces meanwhile takes
    none of them. A `retry` around it tries again, a `//` or a `fallback_model` around it takes over. For a
    whole agent or pipeline there is `.timeout(seconds)`.

    Args:
        seconds: for one call.

    Raises:
        ArgumentError: it is no positive number.
    """
    return Timeout(seconds)


class Timeout(Middleware):
    """What `timeout()` makes."""

    _portable: ClassVar[bool] = True

    def __init__(self, seconds: float) -> None:
        self._seconds = positive(seconds, "timeout(seconds=)")

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask, as long as there is time."""
        limit = Limit(self._seconds)
        async with aclosing(call(request)) as responses:
            while True:
                response = None
                with limit:
                    response = await anext(responses, None)
                if limit.is_over:
                    raise ModelTimeoutError(self._late(ctx.agent_name)) from limit.cause
                if response is None:
                    return
                yield response

    def _late(self, agent: str) -> str:
        return (
            f"{agent!r} got no whole answer within {self._seconds:g} seconds; the call was cancelled. Allow "
            "more with timeout(seconds), or add a retry, a fallback_model or a fallback (//) around it."
        )


def fallback_model(model: str | BaseLlm) -> FallbackModel:
    """Ask another model when a call fails, or its answer is an error, such as one of a content filter.

    What has been said already is not said again: a call that fails after its first piece stays failed. The
    event of such an answer says so in `custom_metadata["adk_fluent.fallback"]`. Several of them make a chain,
    the last choice first: `.middleware(fallback_model("c"), fallback_model("b"))` asks b before c.

    Args:
        model: its name, or ADK's object.

    Raises:
        ArgumentError: it is neither.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> agent = Agent("a", "gemini-2.5-pro").middleware(fallback_model("gemini-2.5-flash"))
        >>> backend = mock_backend({"a": ConnectionError("down"), "gemini-2.5-flash": "Flash speaking."})
        >>> asyncio.run(agent.ask_async("Hello?", backend=backend))
        'Flash speaking.'
    """
    return FallbackModel(model)


class FallbackModel(Middleware):
    """What `fallback_model()` makes."""

    _portable: ClassVar[bool] = True

    def __init__(self, model: str | BaseLlm) -> None:
        given: Any = model
        if isinstance(given, type) or not (
            isinstance(given, str) or hasattr(given, "generate_content_async")
        ):
            raise ArgumentError(
                f"fallback_model() takes the name of a model or a BaseLlm, not {given!r:.40}."
            )
        if isinstance(given, str) and not given.strip():
            raise ArgumentError("fallback_model() takes the name of a model, not an empty text.")
        self._model = model
        self._name = given if isinstance(given, str) else str(given.model)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask the agent's model, then the other one."""
        said = False
        try:
            async with aclosing(call(request)) as responses:
                problem = None
                async for response in responses:
                    problem = None if said else problem_in(response)
                    if problem is not None:
                        problem = f"{problem}: {response.error_message or 'no message'}"
                        break
                    said = True
                    yield response
            if problem is None:
                return
        except Exception as error:
            if said or (isinstance(error, ADKFluentError) and not isinstance(error, ModelError)):
                raise  # what our own checks refuse, another model does not mend
            problem = what_happened(root_of(error))
        logger.warning("%s: %s failed (%s); asking %s", ctx.agent_name, request.model, problem, self._name)
        note = {"failed": request.model or "", "error": problem, "answered": self._name}
        span_event("adk_fluent.fallback", {"agent": ctx.agent_name, **note})
        async for response in call(request, model=self._model):
            yield response if response.partial else with_note(response, fallback=note)
