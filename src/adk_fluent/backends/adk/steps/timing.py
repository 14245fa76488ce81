"""`.timeout(seconds)`: a child that has a number of seconds, of which only its own work takes any."""

from __future__ import annotations

from contextlib import aclosing
from typing import cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent._tasks import Limit
from adk_fluent.backends.adk.steps.branches import Turns
from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.errors import AgentTimeoutError
from adk_fluent.ir.nodes import TimeoutNode


class TimeoutComposite(Composite):
    """Gives its child a number of seconds."""

    async def _run_once(self, ctx: InvocationContext) -> Events:
        (child,) = self.sub_agents
        limit = Limit(cast(TimeoutNode, self._ir).seconds)
        async with aclosing(self.only(child, ctx, self.start(ctx), Turns(ctx).ctx)) as events:
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
