"""`timeout` and `fallback_model`: what becomes of a model call that takes too long, or fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Final

from adk_fluent._tasks import Limit
from adk_fluent._tracebacks import in_logs
from adk_fluent.errors import ADKFluentError, ArgumentError, ModelError, ModelTimeoutError, what_happened
from adk_fluent.middleware.arguments import positive
from adk_fluent.middleware.faults import root_of
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.messages import problem_in, with_note
from adk_fluent.middleware.protocol import CallModel, Middleware
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

    _keeps_answers: ClassVar[bool] = True
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


def fallback_model(model: str | BaseLlm, *others: str | BaseLlm) -> FallbackModel:
    """Ask other models, in order, when a call fails or its answer is an error, as of a content filter.

    Each model is asked once. What has been said already is not said again: a call that fails after its first
    piece stays failed. The event of such an answer says which models failed, and which answered, in
    `custom_metadata["adk_fluent.fallback"]`; if all fail, the `ModelError` lists them with their errors.

    Several in one stack are one chain, the innermost first: `fallback_model("b", "c")` does the same as
    `fallback_model("c"), fallback_model("b")`.

    Args:
        model: the model to ask next, by name or as ADK's object.
        others: those after it, if it fails, too.

    Raises:
        ArgumentError: one is neither a name nor a model.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> agent = Agent("a", "gemini-2.5-pro").middleware(fallback_model("gemini-2.5-flash"))
        >>> backend = mock_backend({"a": ConnectionError("down"), "gemini-2.5-flash": "Flash speaking."})
        >>> asyncio.run(agent.ask_async("Hello?", backend=backend))
        'Flash speaking.'
    """
    return FallbackModel(model, *others)


class _Tried(dict[str, str]):
    """The models of a chain that failed, each with its error.

    Attributes:
        kind: that of the last error, for logs.
        falls_back: whether a model further out in the chain is asked, so that those within step aside.
    """

    falls_back: bool = False
    kind: str = ""


_TRIED: Final = "_adk_fluent_tried"
"""Where a request holds what its chain has tried."""


class FallbackModel(Middleware):
    """What `fallback_model()` makes."""

    _keeps_answers: ClassVar[bool] = True
    _portable: ClassVar[bool] = True

    def __init__(self, *models: str | BaseLlm) -> None:
        self._models: Mapping[str, str | BaseLlm] = {_name_of(model): model for model in models}

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask the agent's model, then the others."""
        # The request itself is marked, no copy: what traces show of it is what the model was sent.
        outer: _Tried | None = getattr(request, _TRIED, None)
        if outer is not None and outer.falls_back:
            async for response in call(request):
                yield response
            return
        tried = _Tried() if outer is None else outer
        object.__setattr__(request, _TRIED, tried)
        try:
            async with aclosing(self._asked(ctx, request, call, tried)) as responses:
                async for response in responses:
                    yield response
        finally:
            tried.falls_back = False
            if outer is None:
                object.__delattr__(request, _TRIED)

    async def _asked(
        self, ctx: Context, request: LlmRequest, call: CallModel, tried: _Tried
    ) -> AsyncGenerator[LlmResponse, None]:
        names = [request.model or "", *self._models]
        failed: Exception | LlmResponse | None = None
        for position, name in enumerate(names):
            falls_back = tried.falls_back = position > 0
            said, problem = False, None
            asked = call(request, model=self._models[name]) if falls_back else call(request)
            try:
                async with aclosing(asked) as responses:
                    async for response in responses:
                        problem = None if said else problem_in(response)
                        if problem is not None:
                            failed, tried.kind = response, problem
                            problem = f"{problem}: {response.error_message or 'no message'}"
                            break
                        said = True
                        noted = falls_back and not response.partial
                        yield with_note(response, fallback=_note(tried, name)) if noted else response
                if problem is None:
                    return
            except Exception as error:
                if said or (isinstance(error, ADKFluentError) and not isinstance(error, ModelError)):
                    raise  # what our own checks refuse, another model does not mend
                root = root_of(error)
                failed, problem, tried.kind = error, what_happened(root), in_logs(root)
            if falls_back or name not in tried:  # of what a chain within asked, that says what failed
                tried[name] = problem
            if position + 1 < len(names):
                self._tell(ctx, {**_note(tried, names[position + 1]), "error": tried.kind})
        if isinstance(failed, Exception):
            raise ModelError(f"{ctx.agent_name!r}: {_none_answered(tried)}") from failed
        if failed is not None:
            yield failed.model_copy(update={"error_message": _none_answered(tried)})

    def _tell(self, ctx: Context, note: dict[str, str]) -> None:
        logger.warning(
            "%s: %s failed (%s); asking %s", ctx.agent_name, note["failed"], note["error"], note["answered"]
        )
        span_event("adk_fluent.fallback", {"agent": ctx.agent_name, **note})


def _note(tried: _Tried, name: str) -> dict[str, str]:
    return {"failed": ", ".join(tried), "error": "; ".join(tried.values()), "answered": name}


def _none_answered(tried: _Tried) -> str:
    models = "; ".join(f"{model!r}: {problem}" for model, problem in tried.items())
    return f"no model answered ({models}). Add another one to fallback_model(), or a fallback (//)."


def _name_of(model: object) -> str:
    given: Any = model
    if isinstance(given, type) or not (isinstance(given, str) or hasattr(given, "generate_content_async")):
        raise ArgumentError(f"fallback_model() takes the name of a model or a BaseLlm, not {given!r:.40}.")
    if isinstance(given, str) and not given.strip():
        raise ArgumentError("fallback_model() takes the name of a model, not an empty text.")
    return given if isinstance(given, str) else str(given.model)
