"""`retry`: really asks a model, or a tool, again."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from adk_fluent._tracebacks import in_logs
from adk_fluent.errors import ArgumentError, AskAgain, what_happened
from adk_fluent.ir.tools import is_idempotent
from adk_fluent.middleware.arguments import flag, positive, whole
from adk_fluent.middleware.backoff import Backoff
from adk_fluent.middleware.faults import PASSING_CODES, is_passing, retry_after, root_of
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.messages import problem_in, with_note
from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware
from adk_fluent.middleware.tracing import span_event

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

Retryable: TypeAlias = (
    "type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool | Awaitable[bool]]"
)
"""Which errors are worth another try: a class, several, or a function of the error, async or not."""


def retry(
    max_attempts: int = 3,
    backoff_base: float = 1.0,
    on: Retryable | None = None,
    tools: bool = False,
    jitter: bool = True,
) -> Retry:
    """Call a model again when a call fails, after a wait; and tools, if asked.

    A call that has already given text, or a tool call, is not repeated: the user would read the beginning
    twice. So a stream is only repeated when it fails before its first piece.

    Waits double from `backoff_base` seconds up to a minute; what a provider asks for (`retry-after` of HTTP,
    the `RetryInfo` of Gemini) is waited at least, and if that is more than two minutes the error is raised at
    once. An answer that took several attempts says so: `custom_metadata["adk_fluent.attempts"]` of its event
    lists what failed, and the span of the call has an event `adk_fluent.retry` for each.

    An agent whose answer is not of the type that it `returns` is asked again as well, without a wait, and is
    shown the answer with what is wrong; not when the user has read the beginning of the answer in a stream.

    Args:
        max_attempts: how often to try, the first time included.
        backoff_base: seconds of the first wait.
        on: which errors are worth another try: a class, a tuple of them, or a function of the error, async
            or not. By default what may pass: timeouts, broken connections, HTTP 408, 409, 425, 429 and 5xx,
            and responses in which the model reports such a failure (`MALFORMED_FUNCTION_CALL`, `UNAVAILABLE`,
            ...).
        tools: whether to repeat tools as well; never those that declare `@declares(idempotent=False)`, nor
            those that an MCP server calls not idempotent.
        jitter: whether to vary the waits, so that many runs that failed together do not come back together.

    Raises:
        ArgumentError: a number is out of range, or `on` is none of these.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = mock_backend({"a": [ConnectionError("lost"), "Here I am."]})
        >>> agent = Agent("a").middleware(retry(backoff_base=0))
        >>> asyncio.run(agent.run("Hello?", backend=backend)).text
        'Here I am.'
    """
    return Retry(max_attempts, backoff_base, on, tools, jitter)


class Retry(Middleware):
    """What `retry()` makes."""

    _keeps_answers: ClassVar[bool] = True
    _portable: ClassVar[bool] = True

    def __init__(
        self, max_attempts: int, backoff_base: float, on: Retryable | None, tools: bool, jitter: bool
    ) -> None:
        attempts = whole(max_attempts, "retry(max_attempts=)")
        base = positive(backoff_base, "retry(backoff_base=)", zero=True)
        self._backoff = Backoff(attempts, base, flag(jitter, "retry(jitter=)"))
        self._on = _predicate(on)
        self._codes = PASSING_CODES if on is None else frozenset[str]()
        self._tools = flag(tools, "retry(tools=)")

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask until the model answers, or no attempt is left."""
        failed: list[dict[str, Any]] = []
        while True:
            said = False
            wait: float | None = None
            try:
                async with aclosing(call(request)) as responses:
                    async for response in responses:
                        code = None if said else problem_in(response)
                        if code in self._codes and (wait := self._wait_after(failed)) is not None:
                            what = f"{code}: {response.error_message or 'no message'}"
                            failed.append(_noted(ctx.agent_name, what, code, wait))
                            break
                        said = True
                        whole_one = failed and not response.partial
                        yield with_note(response, attempts=failed) if whole_one else response
            except Exception as error:
                wait = None if said else await self._wait(error, len(failed) + 1)
                if wait is None:
                    raise
                root = root_of(error)
                failed.append(_noted(ctx.agent_name, what_happened(root), in_logs(root), wait))
            if wait is None:
                return
            await asyncio.sleep(wait)

    async def again_after(self, error: Exception) -> int:
        """How often an agent is asked again whose answer is not of the type that it returns."""
        wanted = self._on is is_passing or self._on(error)
        return self._backoff.attempts - 1 if (await wanted if inspect.isawaitable(wanted) else wanted) else 0

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """Call until the tool gives a result, or no attempt is left."""
        return await self.called(lambda: call(dict(args)), ctx.tool, tool_name, ctx.agent_name)

    async def called(self, call: Callable[[], Awaitable[Any]], tool: object, name: str, agent: str) -> Any:
        """The result of the first call of a tool that gives one.

        Raises:
            Exception: that of the last call.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call()
            except AskAgain:  # the same call would only be refused again
                raise
            except Exception as error:
                again = self._tools and is_idempotent(tool)
                wait = await self._wait(error, attempt) if again else None
                if wait is None:
                    raise
                _noted(agent, "", f"tool {name}: {in_logs(root_of(error))}", wait)
            await asyncio.sleep(wait)

    def _wait_after(self, failed: list[dict[str, Any]]) -> float | None:
        return self._backoff.after(len(failed) + 1)

    async def _wait(self, error: Exception, attempt: int) -> float | None:
        again = self._on(error)
        if inspect.isawaitable(again):
            again = await again
        return self._backoff.after(attempt, retry_after(error)) if again else None


def _predicate(on: object) -> Callable[[Exception], bool | Awaitable[bool]]:
    if on is None:
        return is_passing
    classes = cast("tuple[object, ...]", on) if isinstance(on, tuple) else (on,)
    if classes and all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        wanted = cast("tuple[type[Exception], ...]", classes)
        return lambda error: isinstance(error, wanted) or isinstance(root_of(error), wanted)
    if callable(cast(object, on)) and not isinstance(on, type):
        return cast("Callable[[Exception], bool | Awaitable[bool]]", on)
    raise ArgumentError(
        f"retry(on=) is an exception class, a tuple of them, or a function of the error, not {on!r:.40}."
    )


def _noted(agent: str, what: str, kind: str, wait: float) -> dict[str, Any]:
    """Tell the log and the trace of a failed attempt by its kind alone; what the event will say of it."""
    logger.info("%s: %s; trying again in %.1f s", agent, kind, wait)
    waited = round(wait, 3)
    span_event("adk_fluent.retry", {"agent": agent, "error": kind, "waited": waited})
    return {"error": what, "waited": waited}
