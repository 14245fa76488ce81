"""The native agent for a gate: it asks a person, and lets the run go on only when they agree."""

from __future__ import annotations

from typing import cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.genai import types

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.ids import new_id
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.events.approvals import CONFIRMATION, Approval, answer_to
from adk_fluent.backends.adk.events.signals import REFUSED
from adk_fluent.backends.adk.steps.instructions import Rendering
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent
from adk_fluent.backends.adk.steps.resuming import outermost
from adk_fluent.backends.adk.steps.shrinking import removal
from adk_fluent.ir.nodes import GateNode
from adk_fluent.ir.template import segments


class Question(private.Checkpoint):
    """What a gate asked, as it is stored while it waits.

    Attributes:
        request: the id that the answer refers to; empty if nothing was asked.
        message: what the person was asked.
    """

    request: str = ""
    message: str = ""


class GateAgent(FluentAgent):
    """Asks a person, and lets the run go on only when they agree."""

    def run_async(self, parent_context: InvocationContext) -> Events:
        """ADK's entry."""
        if (outer := outermost(self, parent_context)) is not None:
            return outer[0].run_async(outer[1])
        return super().run_async(parent_context)

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(GateNode, self._ir)
        asked = private.load_state(self, ctx, Question)
        if asked is None or not asked.request:
            if not await self.holds(node.predicate, ctx):
                return
            asked = Question(request=f"gate-{new_id()}", message=await self._message(ctx))
            if ctx.is_resumable:
                yield private.checkpoint(self, ctx, asked)
            yield self._request(ctx, asked)
            return
        answer = answer_to(asked.request, ctx.session.events)
        if answer is None:  # somebody else was answered; the question stands as it was asked
            return
        if not answer.confirmed:
            yield self.event(ctx, text=f"Not approved: {asked.message}", metadata={REFUSED: True})
            return
        for event in self._approved(ctx, answer):
            yield event
        yield private.finished(self, ctx)

    async def _message(self, ctx: InvocationContext) -> str:
        message = cast(GateNode, self._ir).message
        return await Rendering(ReadonlyContext(ctx), state_of(ctx)).fill(segments(message))

    def _request(self, ctx: InvocationContext, asked: Question) -> Event:
        arguments = {"toolConfirmation": {"hint": asked.message, "confirmed": False}}
        call = types.FunctionCall(id=asked.request, name=CONFIRMATION, args=arguments)
        event = self.event(ctx)
        event.content = types.Content(role="model", parts=[types.Part(function_call=call)])
        event.long_running_tool_ids = {asked.request}
        return event

    def _approved(self, ctx: InvocationContext, answer: Approval) -> list[Event]:
        """The events that keep the payload of an approval."""
        into = cast(GateNode, self._ir).into
        if into is None:
            return []
        written = self.state_event(ctx, {into: True if answer.payload is None else answer.payload})
        removed = removal(ctx, written)
        return [written] if removed is None else [removed, written]
