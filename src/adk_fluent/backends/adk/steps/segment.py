"""A native agent that stands for a segment of the pipeline which runs somewhere else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.analysis.cuts import Hearing
from adk_fluent.backends.adk.artifacts.recorded import really_keeping
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.signals import live, pauses
from adk_fluent.backends.adk.events.stored import Json, from_json, message_to_json, to_json
from adk_fluent.backends.adk.steps.checkpoints import since_checkpoint
from adk_fluent.backends.adk.steps.composites import SequentialComposite
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent, waits
from adk_fluent.backends.adk.steps.resuming import outermost
from adk_fluent.backends.adk.steps.timing import TimeoutComposite
from adk_fluent.ir.nodes import SequenceNode, TimeoutNode

Came = tuple[Json, Mapping[str, Any]]
"""An event as JSON-able data, and what it wrote to the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a segment is given: the session as it is when its turn comes.

    Attributes:
        run_id: the run.
        user_id: whose session it is.
        session_id: the session.
        state: its whole state.
        message: what the user said.
        history: the events of earlier runs that the segment may be shown.
        events: those of this run.
        own: where a paused segment goes on, what it did until then, and earlier answers.
        answer: where a paused segment goes on, what the person answered.
        streaming: whether pieces of answers are wanted.
        services: the caller's services, by name; they do not cross.
    """

    run_id: str
    user_id: str
    session_id: str
    state: Mapping[str, Any]
    message: Json | None
    history: Sequence[Json]
    events: Sequence[Json]
    own: Sequence[Came] = ()
    answer: Json | None = None
    streaming: bool = False
    services: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Elsewhere(Protocol):
    """What runs a segment somewhere else."""

    def run(self, work: Work) -> AsyncGenerator[Came, None]:
        """What happens there, event by event."""
        ...


class SegmentAgent(FluentAgent):
    """Has a segment run somewhere else, and gives its events as if it ran here."""

    _elsewhere: Elsewhere = PrivateAttr()
    _hears: Hearing = PrivateAttr()

    def place(self, elsewhere: Elsewhere, hears: Hearing, authors: frozenset[str]) -> None:
        """Set what runs it, what of the conversation it may be shown, and who speaks in it."""
        self._elsewhere, self._hears = elsewhere, hears
        self.stand_for(authors)

    def run_async(self, parent_context: InvocationContext) -> Events:
        """ADK's entry."""
        if (outer := outermost(self, parent_context)) is not None:
            return outer[0].run_async(outer[1])
        return super().run_async(parent_context)

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        paused = False
        async with aclosing(self._elsewhere.run(self._work(ctx))) as came:
            async for data, delta in came:
                event = from_json(data, invocation_id=ctx.invocation_id, delta=delta)
                paused = paused or pauses(ctx, event)
                yield event
        if ctx.is_resumable and not paused and not waits(self, ctx):
            yield private.finished(self, ctx)

    @property
    def inside(self) -> frozenset[str]:
        """Who speaks in the segment."""
        return self._absent

    def _work(self, ctx: InvocationContext) -> Work:
        events = live(ctx.session.events)
        run = [event for event in events if event.invocation_id == ctx.invocation_id]
        since = since_checkpoint(ctx, cast(BaseAgent, self.parent_agent))  # nothing, unless it was paused
        now = _said_now(ctx, since)
        own = [(to_json(e), e.actions.state_delta) for e in since if _is_past(e, now)]
        said = (event.content for event in run if _said(event))
        asked = next(said, ctx.user_content)
        mode = ctx.run_config.streaming_mode if ctx.run_config else None
        hears = self._hears
        return Work(
            run_id=ctx.invocation_id,
            user_id=ctx.session.user_id,
            session_id=ctx.session.id,
            state=dict(ctx.session.state),
            message=message_to_json(asked),
            history=[
                to_json(event)
                for event in events
                if event.invocation_id != ctx.invocation_id
                and (event.author in hears.earlier or (hears.user and _said(event)))
            ],
            events=[to_json(event) for event in run if event.author in hears.authors],
            own=own,
            answer=message_to_json(now) if own else None,
            streaming=getattr(mode, "value", None) == "sse",
            services={
                "artifact_service": really_keeping(ctx.artifact_service),
                "memory_service": ctx.memory_service,
                "credential_service": ctx.credential_service,
            },
        )


def _said(event: Event) -> bool:
    """Whether an event is a message of the user, and no note under the user's name."""
    return event.author == "user" and event.content is not None


def _said_now(ctx: InvocationContext, since: Sequence[Event]) -> types.Content | None:
    """What a segment goes on with.

    Where a run is come back to, ADK gives what the user said at its start. If nothing happened since the last
    answer, the segment was given that one, and perhaps works on it.
    """
    last = since[-1] if since and since[-1].author == "user" else None
    is_answer = last is not None and _answered(last.content) and not _answered(ctx.user_content)
    return last.content if last is not None and is_answer else ctx.user_content


def _is_past(event: Event, now: types.Content | None) -> bool:
    """Whether an event of a paused segment is what it did, or an earlier answer, not that of now."""
    if event.author != "user":
        return True
    answered = _answered(event.content)
    return bool(answered) and answered.isdisjoint(_answered(now))


def _answered(said: types.Content | None) -> set[str | None]:
    """The ids of what a message answers."""
    return {part.function_response.id for part in (said and said.parts) or () if part.function_response}


def in_turn(name: str, agents: Sequence[BaseAgent]) -> BaseAgent:
    """A native agent that runs others in order.

    Args:
        name: its name.
        agents: what it runs.
    """
    again: dict[str, Any] = (
        {"rerun_on_resume": True} if "rerun_on_resume" in SequentialComposite.model_fields else {}
    )
    made = SequentialComposite(name=name, sub_agents=[*agents], **again)
    made.bind(SequenceNode(name=name))
    made.go_unseen()
    return made


def in_time(agent: BaseAgent, limit: TimeoutNode) -> BaseAgent:
    """A native agent that gives another so much time."""
    made = TimeoutComposite(name=limit.name, sub_agents=[agent])
    made.bind(limit)
    return made


def segment_agent(name: str, elsewhere: Elsewhere, hears: Hearing, authors: frozenset[str]) -> BaseAgent:
    """A native agent that stands for a segment.

    Args:
        name: its name.
        elsewhere: what runs it.
        hears: what of the conversation it may be shown.
        authors: who speaks, or writes, in it.
    """
    made = SegmentAgent(name=name)
    made.bind(SequenceNode(name=name))
    made.go_unseen()
    made.place(elsewhere, hears, authors)
    return made
