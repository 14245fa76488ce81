"""`.timeout(seconds)`: a child that has a number of seconds, of which only its own work takes any."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from types import TracebackType
from typing import cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.errors import AgentTimeoutError
from adk_fluent.ir.nodes import TimeoutNode


class Limit:
    """Seconds that pass only inside `with limit:`; when they are over, what is awaited there is cancelled.

    `asyncio.timeout` is not used, since releases of Python differ in which cancellations it takes for its own
    and in what it raises. Here the only questions are whether the timer ran out and whether somebody else
    has asked the task to end as well.

    Attributes:
        is_over: whether the seconds ran out.
        cause: what was raised in answer to the cancellation, if that was not the cancellation itself.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over: bool = False
        self.cause: Exception | None = None
        self._left = seconds

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._requests = self._task.cancelling()
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._left, self._end)

    def _end(self) -> None:
        self.is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep back what our cancellation led to, and nothing else."""
        self._timer.cancel()
        self._left -= self._loop.time() - self._since
        if not self.is_over:
            return False
        others = self._task.uncancel() > self._requests
        if isinstance(error, Exception):
            self.cause = error
        return self.cause is not None or (isinstance(error, asyncio.CancelledError) and not others)


class TimeoutComposite(Composite):
    """Gives its child a number of seconds."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        (child,) = self.sub_agents
        limit = Limit(cast(TimeoutNode, self._ir).seconds)
        async with aclosing(self.only(child, ctx, self.start(ctx))) as events:
            # While an event is with whoever consumes it, or is being stored, no time passes.
            while (event := await self._next(events, child, limit)) is not None:
                yield event

    async def _next(self, events: Events, child: BaseAgent, limit: Limit) -> Event | None:
        event = None
        with limit:
            event = await anext(events, None)
        if limit.is_over:
            seconds = cast(TimeoutNode, self._ir).seconds
            raise AgentTimeoutError(
                f"{child.name!r} did not finish within {seconds:g} seconds and was cancelled. "
                "Give it more time with .timeout(seconds), or a fallback with //."
            ) from limit.cause
        return event
