"""Delivering a context spec: the block of the instruction, and the contents of the request.

ADK calls the instruction provider first and assembles the contents after it, once per model call. The
provider evaluates the spec; `Assembler`, in the place of ADK's own step, then has ADK assemble only the
events that the spec leaves. So ADK's rules for pairing tool calls, presenting other agents and placing
instructions hold, and plugins, planners and tools see the request as it will be sent.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest

from adk_fluent.backends.adk.artifacts.files import Files
from adk_fluent.backends.adk.artifacts.parts import shown
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.context.calls import PerContext
from adk_fluent.backends.adk.context.entries import conversation, to_entries, to_events
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.context.helper_models import Helpers, Used
from adk_fluent.backends.adk.context.missing import may_remove
from adk_fluent.backends.adk.events.signals import spoken_text
from adk_fluent.context.entries import Answer, Ask, Entries, Rejected, Selecting, Selection, block
from adk_fluent.context.selection import scene_of, selecting
from adk_fluent.context.spec import Context
from adk_fluent.ir.base import Node

HELPER = "adk_fluent.helper"
"""Metadata of an event that reports what a helper model used: the operation that asked it."""


@dataclass(slots=True)
class Delivery:
    """What one model call gets.

    Attributes:
        block: the text that follows the instruction.
        events: what ADK makes contents of; `None` for the whole conversation.
        writes: state keys that the selection writes.
        used: what helper models cost.
        instruction: the whole instruction, once it is rendered.
        files: the artifacts that are sent along.
    """

    block: str
    events: list[Event] | None
    writes: dict[str, Any]
    used: list[Used]
    instruction: str = ""
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class AgentRun:
    """What one run of an agent has under way.

    Attributes:
        delivery: what the instruction provider prepared for the model call that comes next.
        reports: events to give before the next of the agent's own.
    """

    delivery: Delivery | None = None
    reports: list[Event] = field(default_factory=list[Event])


@dataclass(slots=True)
class Delivering:
    """The context of one compiled agent.

    Attributes:
        spec: what it sees.
        origins: unique name of each agent → the name the user gave it.
        helpers: its helper models.
        calls: what its runs have under way.
        tree: gives the whole tree that the agent stands in, once it is known.
    """

    spec: Context
    origins: Mapping[str, str]
    helpers: Helpers | None = None
    calls: PerContext[AgentRun] = field(default_factory=lambda: PerContext(AgentRun))
    tree: Callable[[], Node] | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether the spec never changes what ADK shows of the conversation."""
        return self.spec.is_untouched

    def _may_remove(self, key: str) -> bool:
        return self.tree is not None and may_remove(self.tree(), key)

    async def deliver(self, ctx: InvocationContext) -> Delivery:
        """Evaluate the spec for the model call that comes next in `ctx`."""
        agent = _name(ctx)
        events = conversation(ctx, agent)
        entries = to_entries(events, self.origins)
        state = state_of(ctx)
        used: list[Used] = []
        scene = scene_of(entries, agent=agent, now=time.time(), state=state, removed=self._may_remove)
        selection = await self._drive(selecting(self.spec, scene), ctx, used)
        parts = self._parts(ctx, selection, events, entries)
        delivery = Delivery(*parts, dict(selection.writes), used, files=selection.files)
        self.calls.of(ctx).delivery = delivery
        self._report(ctx, delivery)
        return delivery

    def _parts(
        self, ctx: InvocationContext, chosen: Selection, events: list[Event], entries: Entries
    ) -> tuple[str, list[Event] | None]:
        """The block, and the events that are left to ADK; `None` for all."""
        if chosen.untouched:
            return block(chosen.shown), None
        shown, native = self.spec.delivered(chosen)
        sent = to_events(native, chosen.pinned, events, entries)
        return block(shown), [*_delegation(ctx), *sent]

    async def _drive(self, steps: Selecting, ctx: InvocationContext, used: list[Used]) -> Selection:
        assert self.helpers is not None
        try:
            step = next(steps)
            while True:
                if isinstance(step, Rejected):
                    self.helpers.reject(step.operation, step.reason)
                    step = steps.send(None)
                else:
                    step = steps.send(await self.helpers.ask(step, ctx, used))
        except StopIteration as done:
            return done.value

    async def ask(self, ask: Ask, ctx: InvocationContext) -> Answer:
        """The answer to a question that is not the spec's, paid for by the agent all the same."""
        assert self.helpers is not None
        used: list[Used] = []
        answer = await self.helpers.ask(ask, ctx, used)
        self._report(ctx, Delivery("", None, {}, used))
        return answer

    # --- what the run is told ---------------------------------------------------------------------

    def _report(self, ctx: InvocationContext, delivery: Delivery) -> None:
        reports = [
            self._event(
                ctx,
                usage_metadata=u.usage,
                model_version=u.model,
                custom_metadata={HELPER: u.operation},
                actions=u.actions,
            )
            for u in delivery.used
        ]
        changed = {k: v for k, v in delivery.writes.items() if ctx.session.state.get(k) != v}
        if changed:
            reports.append(self._event(ctx, actions=EventActions(state_delta=changed)))
        self.calls.of(ctx).reports += reports

    def _event(self, ctx: InvocationContext, **fields: Any) -> Event:
        return Event(invocation_id=ctx.invocation_id, author=_name(ctx), branch=ctx.branch, **fields)

    def reports(self, ctx: InvocationContext) -> list[Event]:
        """Events to give before the next of the agent's own: tokens of helpers, state that was written."""
        call = self.calls.of(ctx)
        found, call.reports = call.reports, []
        return found

    def take(self, ctx: InvocationContext) -> Delivery | None:
        """What the instruction provider prepared for this model call."""
        call = self.calls.of(ctx)
        found, call.delivery = call.delivery, None
        return found

    def note(self, ctx: InvocationContext, event: Event) -> None:
        """Write an answer to the scratchpads of `C.write_notes`, as part of its own event."""
        text = spoken_text(event)
        if event.partial or not text or not event.is_final_response():
            return
        spec = self.spec.resolved(state_of(ctx), _name(ctx))
        if spec is not None:
            event.actions.state_delta.update(spec.noted(ctx.session.state, text))


def _name(ctx: InvocationContext) -> str:
    return ctx.agent.name if ctx.agent else ""


def _delegation(ctx: InvocationContext) -> list[Event]:
    """The event that delegated to an agent with a scope of its own, from which ADK makes its task."""
    scope = getattr(ctx, "isolation_scope", None)
    if scope is None:
        return []
    return [e for e in ctx.session.events if any(call.id == scope for call in e.get_function_calls())]


def _is_static(agent: LlmAgent) -> bool:
    return getattr(agent, "static_instruction") is not None  # noqa: B009  # its type names the optional PIL


class Assembler:
    """Has ADK assemble the contents of a request from what the spec leaves of the conversation."""

    name = "contents"

    def __init__(self, original: private.Processor, delivering: Delivering) -> None:
        self._original = original
        self._delivering = delivering

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Assemble the contents."""
        ctx = invocation_context
        delivery = self._delivering.take(ctx) or await self._delivering.deliver(ctx)
        self._delivering.take(ctx)
        agent = ctx.agent
        assert isinstance(agent, LlmAgent)
        if not delivery.instruction and _is_static(agent) and llm_request.contents:
            llm_request.contents.pop()  # beside a static instruction, ADK sends an empty one as a message
        if not (delivery.events is None and self._delivering.is_untouched):
            ctx = ctx.model_copy(update={"agent": agent.model_copy(update={"include_contents": "default"})})
        if delivery.events is not None:
            private.forget_interaction(llm_request)
            session = ctx.session.model_copy(update={"events": delivery.events})
            ctx = ctx.model_copy(update={"session": session})
        async for event in self._original.run_async(ctx, llm_request):
            yield event
        if delivery.files:
            files = Files(ctx, f"Agent {agent.name!r}")
            llm_request.contents[:0] = [shown(await files.part(name), name) for name in delivery.files]
