"""Native agents for single steps: transform, tap, capture, gate, transfer."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import BaseModel, PrivateAttr

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.live import run_live
from adk_fluent.backends.adk.shrinking import removal
from adk_fluent.backends.adk.signals import REFUSED, STARTS_AGAIN, pauses, unanswered
from adk_fluent.backends.adk.temporary import with_temporary
from adk_fluent.backends.adk.typed import keeping_to
from adk_fluent.errors import CompileError, PredicateError
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.matching import Match, Predicate
from adk_fluent.ir.nodes import CaptureNode, GateNode, TapNode, TransferNode, TransformNode
from adk_fluent.state.delta import ReadOnlyState, changes
from adk_fluent.state.schema import StateSchema

Events = AsyncGenerator[Event, None]
CONFIRMATION: Final = "adk_request_confirmation"
"""The function name under which ADK asks a person to confirm."""


class Position(BaseModel):
    """Where a composite is.

    Attributes:
        child: the child that runs.
        round: for loops, the rounds that are done.
        stop: whether it ends with this child.
        skip: whether the rest of the sequence, or of a loop's round, is skipped.
    """

    child: str = ""
    round: int = 0
    stop: bool = False
    skip: bool = False


class FluentAgent(BaseAgent):
    """Base of every native agent that adk-fluent adds; it knows the IR node it was made from."""

    _ir: Node = PrivateAttr()

    def bind(self, node: Node) -> None:
        """Remember the node this agent was made from."""
        self._ir = node

    @property
    def ir(self) -> Node:
        """The node it was made from."""
        return self._ir

    def run_async(self, parent_context: InvocationContext) -> Events:
        """ADK's entry, which keeps to the schema bound to the node."""
        return within_schema(self._ir, super().run_async(parent_context))

    async def _run_live_impl(self, ctx: InvocationContext) -> Events:
        async with aclosing(run_live(self, self._ir, ctx, self._run_async_impl)) as events:
            async for event in events:
                yield event

    def event(
        self,
        ctx: InvocationContext,
        *,
        state_delta: dict[str, Any] | None = None,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        **actions: Any,
    ) -> Event:
        """An event of this agent in the current run."""
        return Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            branch=ctx.branch,
            content=None if text is None else types.Content(role="model", parts=[types.Part(text=text)]),
            custom_metadata=metadata,
            actions=EventActions(state_delta=state_delta or {}, **actions),
        )

    def state_event(self, ctx: InvocationContext, delta: dict[str, Any]) -> Event:
        """An event that writes state."""
        return with_temporary(ctx, self.event(ctx, state_delta=delta))

    async def holds(self, predicate: Predicate, ctx: InvocationContext) -> bool:
        """Whether a user's predicate holds for the state; see `holds`."""
        return await holds(predicate, ctx.session.state, self.name)


async def holds(predicate: Predicate, state: Mapping[str, Any], step: str) -> bool:
    """Whether a user's predicate holds for `state`; `step` is the name of the step that asks.

    Raises:
        PredicateError: it raised; the cause is chained.
    """
    try:
        return bool(await resolved(predicate(ReadOnlyState(state))))
    except Exception as error:
        shown = str(predicate) if isinstance(predicate, Match) else function_name(predicate, "<lambda>")
        raise PredicateError(
            f"{step!r}: its predicate {shown!r} raised {type(error).__name__}: {error}. "
            "A predicate gets the state as a read-only mapping; use .get for keys that may be missing."
        ) from error


async def resolved(value: object) -> object:
    """`value`, awaited if it can be; user functions may be sync or async."""
    return await value if inspect.isawaitable(value) else value


def waits(agent: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether `agent`, or one below it, waits for a person.

    A model agent that was run again while its request is still open ends without an event, so the events of a
    run alone do not tell.
    """
    if not ctx.is_resumable:
        return False
    run = (event for event in ctx.session.events if event.invocation_id == ctx.invocation_id)
    asking = {event.author for event in unanswered(run).values() if _on_branch(event, ctx.branch)}
    return bool(asking) and not asking.isdisjoint(_reachable(agent))


def _on_branch(event: Event, branch: str | None) -> bool:
    return not branch or f"{event.branch}.".startswith(f"{branch}.")


def _reachable(agent: BaseAgent) -> set[str]:
    """Names of the agents that may run when `agent` runs: those below it, and the targets of transfers."""
    found: set[str] = set()
    pending = [agent]
    while pending:
        for current in below(pending.pop()):
            if current.name not in found:
                found.add(current.name)
                if isinstance(current, TransferAgent) and (target := current.target()) is not None:
                    pending.append(target)
    return found


def below(agent: BaseAgent) -> Iterator[BaseAgent]:
    """`agent` and all agents below it."""
    pending = [agent]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(current.sub_agents)


def encloses(outer: BaseAgent, inner: BaseAgent) -> bool:
    """Whether `outer` is above `inner` in the tree."""
    above = inner.parent_agent
    while above is not None and above is not outer:
        above = above.parent_agent
    return above is outer


def joined(ctx: InvocationContext) -> InvocationContext:
    """The context in which what finished branches below the current one said counts as said on it.

    ADK shows an agent its own conversation branch and those above, so a step behind a fan-out that is itself
    in a branch would not see what that fan-out said.
    """
    if not ctx.branch or not any(_is_below(event, ctx.branch) for event in ctx.session.events):
        return ctx
    events = [
        event.model_copy(update={"branch": ctx.branch}) if _is_below(event, ctx.branch) else event
        for event in ctx.session.events
    ]
    return ctx.model_copy(update={"session": ctx.session.model_copy(update={"events": events})})


def _is_below(event: Event, branch: str) -> bool:
    """Whether the event is on a branch that a composite opened below `branch`; those of ADK have an @."""
    path = event.branch or ""
    return path.startswith(f"{branch}.") and "@" not in path[len(branch) :]


def within_schema(node: Node, events: Events) -> Events:
    """The events of a node's agent, held to the schema that is bound to the node, if one is."""
    schema = node.annotations.schema
    return events if schema is None else keeping_to(cast("type[StateSchema]", schema), events)


class TransformAgent(FluentAgent):
    """Writes what a function makes of the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(TransformNode, self._ir)
        view = ReadOnlyState(ctx.session.state)
        delta = changes(node, await resolved(node.fn(view)), view)
        if delta:
            event = self.state_event(ctx, delta)
            if (removed := removal(ctx, event)) is not None:
                yield removed
            yield event


class TapAgent(FluentAgent):
    """Lets a function look at the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        await resolved(cast(TapNode, self._ir).fn(ReadOnlyState(ctx.session.state)))
        return
        yield  # an async generator needs one


class CaptureAgent(FluentAgent):
    """Copies the latest user message, or the last turns, into state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        if delta := captured(cast(CaptureNode, self._ir), ctx.session.events):
            yield self.state_event(ctx, delta)


def captured(node: CaptureNode, events: Iterable[Event]) -> dict[str, Any]:
    """What a capture writes: the latest user message, or the last turns as text; nothing before the first."""
    said = [(event.author, text) for event in events if (text := spoken_text(event))]
    turns = [index for index, (author, _) in enumerate(said) if author == "user"]
    if not turns:
        return {}
    if node.turns is None:
        return {node.key: said[turns[-1]][1]}
    recent = said[turns[-node.turns :][0] :]
    return {node.key: "\n".join(f"[{author}]: {text}" for author, text in recent)}


def spoken_text(event: Event) -> str:
    """What an event says, without the model's thoughts."""
    parts = (event.content.parts if event.content else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


class GateAgent(FluentAgent):
    """Asks a person, and lets the run go on only when they agree."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(GateNode, self._ir)
        waiting = private.load_state(self, ctx, Position)
        if waiting is None and not await self.holds(node.predicate, ctx):
            return
        request = waiting.child if waiting and waiting.child else f"gate-{uuid.uuid4()}"
        answer = _answer(ctx, request)
        if answer is None:
            if ctx.is_resumable:
                yield private.checkpoint(self, ctx, Position(child=request))
            yield self._request(ctx, request, node.message)
        elif answer.get("confirmed"):
            yield private.finished(self, ctx)
        else:
            yield self.event(ctx, text=f"Not approved: {node.message}", metadata={REFUSED: True})

    def _request(self, ctx: InvocationContext, request: str, message: str) -> Event:
        arguments = {"toolConfirmation": {"hint": message, "confirmed": False}}
        call = types.FunctionCall(id=request, name=CONFIRMATION, args=arguments)
        event = self.event(ctx)
        event.content = types.Content(role="model", parts=[types.Part(function_call=call)])
        event.long_running_tool_ids = {request}
        return event


def _answer(ctx: InvocationContext, request: str) -> Mapping[str, Any] | None:
    """What the person answered to a confirmation request, if they did."""
    for event in reversed(ctx.session.events):
        for response in event.get_function_responses():
            if response.id == request and event.author == "user":
                return response.response or {}
    return None


class TransferAgent(FluentAgent):
    """Runs another agent of the tree in place of what would follow."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(TransferNode, self._ir)
        resuming = private.load_state(self, ctx, Position) is not None
        if not resuming and node.condition is not None and not await self.holds(node.condition, ctx):
            return
        target = self.target()
        if target is None:
            raise CompileError(f"transfer({node.target!r}): the compiled tree has no agent of that name.")
        if encloses(target, self):  # it starts again by itself when it sees this event
            yield self.event(ctx, transfer_to_agent=target.name, metadata={STARTS_AGAIN: target.name})
            return
        if not resuming:
            if ctx.is_resumable:
                for agent in below(target):
                    ctx.set_agent_state(agent.name)
                yield private.checkpoint(self, ctx, Position(child=target.name))
            yield self.event(ctx, transfer_to_agent=target.name)
        paused = False
        async with aclosing(target.run_async(ctx)) as events:
            async for event in events:
                paused = paused or pauses(ctx, event)
                yield event
        if ctx.is_resumable and not (paused or waits(target, ctx)):
            yield private.finished(self, ctx)

    def target(self) -> BaseAgent | None:
        """The agent it hands over to, if the tree has it."""
        return self.root_agent.find_agent(cast(TransferNode, self._ir).target)
