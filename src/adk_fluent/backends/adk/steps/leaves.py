"""Native agents for single steps: transform, tap, capture, transfer; gates are in `gate`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import BaseModel, PrivateAttr
from pydantic_core import to_json

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.context.functions import holds, resolved, state_of
from adk_fluent.backends.adk.events.signals import (
    STARTS_AGAIN,
    note_problems,
    pauses,
    spoken_text,
    unanswered,
)
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.stack import NOTHING, Stack, warn_idle
from adk_fluent.backends.adk.resources import Resources, given_to, holding
from adk_fluent.backends.adk.steps.checkpoints import is_below
from adk_fluent.backends.adk.steps.failures import in_step
from adk_fluent.backends.adk.steps.live import run_live
from adk_fluent.backends.adk.steps.pieces import Feed, taken_here, texts
from adk_fluent.backends.adk.steps.shrinking import removal
from adk_fluent.backends.adk.steps.tree import below, encloses
from adk_fluent.backends.adk.steps.typed import keeping_to
from adk_fluent.backends.events import SAYS
from adk_fluent.errors import CompileError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import CaptureNode, TapNode, TransferNode, TransformNode
from adk_fluent.ir.predicates import Predicate
from adk_fluent.ir.resources import wanted
from adk_fluent.state.delta import ReadOnlyState, changes
from adk_fluent.state.fidelity import check_storable
from adk_fluent.state.schema import StateSchema

Events = AsyncGenerator[Event, None]


class Position(BaseModel):
    """Where a composite is.

    Attributes:
        child: the child that runs.
        round: for loops, the rounds that are done.
    """

    child: str = ""
    round: int = 0


class FluentAgent(BaseAgent):
    """Base of every native agent that adk-fluent adds; it knows the IR node it was made from."""

    _ir: Node = PrivateAttr()
    _middleware: ClassVar[Stack] = NOTHING

    def attach(self, stack: Stack) -> None:
        """Set the middleware that acts on it."""
        object.__setattr__(self, "_middleware", stack)

    _holds: bool = PrivateAttr(default=False)
    _resources: Resources = PrivateAttr(default_factory=dict[str, object])

    def hold(self) -> None:
        """Close what is opened for a run when it ends."""
        self._holds = True

    def provide(self, resources: Resources) -> None:
        """Set what functions are given by name."""
        self._resources, self._holds = resources, True

    def wanted_by(self, function: object) -> tuple[str, ...]:
        """The names of the resources that a function of the user's has parameters for."""
        return wanted(function, self._resources)

    async def given(self, function: object, ctx: InvocationContext) -> dict[str, Any]:
        """The resources that a function of the user's has parameters for."""
        return await given_to(function, self._resources, ctx, self.name)

    _absent: frozenset[str] = PrivateAttr(default=frozenset())

    def stand_for(self, names: Iterable[str]) -> None:
        """Set which agents that speak in its sessions run somewhere else."""
        self._absent = frozenset(names)

    @property
    def inside(self) -> frozenset[str]:
        """Names of agents whose events this one gives as its own steps do, though they run somewhere else."""
        return frozenset()

    def find_sub_agent(self, name: str) -> BaseAgent | None:
        """ADK's look-up; of an agent that runs somewhere else, what stands for it here."""
        found = super().find_sub_agent(name)
        return self if found is None and name in self._absent else found

    _unseen: bool = PrivateAttr(default=False)

    def go_unseen(self) -> None:
        """Have no callbacks, hooks and spans: whoever runs the agents below it is not to notice it."""
        self._unseen = True

    def bind(self, node: Node) -> None:
        """Remember the node this agent was made from."""
        self._ir = node

    @property
    def ir(self) -> Node:
        """The node it was made from."""
        return self._ir

    def current_node(self) -> Node:
        """The node it was made from, with what was changed since, as by `clone(update=)`."""
        node = self._ir if self._ir.name == self.name else self._ir.replace(name=self.name)
        return with_current_children(node, self.sub_agents)

    def run_async(self, parent_context: InvocationContext) -> Events:
        """ADK's entry, which keeps to the schema bound to the node."""
        if self._middleware is not NOTHING:
            warn_idle(self._middleware, self.name, parent_context)
        run = self._run_async_impl if self._unseen else super().run_async
        events = within_schema(self._ir, run(parent_context))
        if self.parent_agent is None and not private.tells_failures():
            events = runs.telling(parent_context, events)
        if self._holds:
            events = holding(parent_context, events)
        return _on_no_branch(events) if _is_node(self, parent_context) else events

    def run_live(self, parent_context: InvocationContext) -> Events:  # pyright: ignore[reportIncompatibleMethodOverride]  # final in ADK, where nothing else is around all that an agent does
        """ADK's entry for live conversations, which keeps to the schema bound to the node."""
        events = within_schema(self._ir, super().run_live(parent_context))
        return holding(parent_context, events) if self._holds else events

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
        """An event of this agent in the current run; what it writes to the state, every store can hold."""
        if state_delta:
            check_storable(state_delta, f"Step {self.name!r} wrote")
        return Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            branch=ctx.branch,
            content=None if text is None else types.Content(role="model", parts=[types.Part(text=text)]),
            custom_metadata=metadata,
            actions=EventActions(state_delta=state_delta or {}, **actions),
        )

    def state_event(self, ctx: InvocationContext, delta: dict[str, Any], *, ends: bool = False) -> Event:
        """An event that writes state.

        Args:
            ends: whether the agent has finished with it, so that a run that goes on does not do it again.
        """
        event = self.event(ctx, state_delta=delta)
        if ends and ctx.is_resumable:
            ctx.set_agent_state(self.name, end_of_agent=True)
            event.actions.end_of_agent = True
        return with_temporary(ctx, event)

    async def holds(self, predicate: Predicate, ctx: InvocationContext) -> bool:
        """Whether a user's predicate holds for the state; see `holds`."""
        given = await self.given(predicate, ctx) if self._resources else {}
        return await holds(predicate, state_of(ctx), self.name, **given)


def with_current_children(node: Node, agents: Sequence[BaseAgent]) -> Node:
    """The node of an agent, with the nodes that the agents below it have now, if they are its children."""
    if len(agents) != len(node.children) or not all(hasattr(agent, "current_node") for agent in agents):
        return node
    children = tuple(cast(Any, agent).current_node() for agent in agents)
    return node if children == node.children else node.with_children(children)


def _is_node(agent: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether ADK 2.x runs the agent itself as a node, as it does below a model agent that is the root."""
    path: str = getattr(ctx, "node_path", None) or ""
    last = path.rpartition("/")[2].partition("@")[0]
    return last == agent.name and private.clears_branches()


async def _on_no_branch(events: Events) -> Events:
    """The events of a node; those on no conversation branch say so, or ADK puts them on that of the last."""
    async with aclosing(events) as run:
        async for event in run:
            event.branch = event.branch or ""
            yield event


def waits(agent: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether `agent`, or one below it, waits for a person.

    A model agent that was run again while its request is still open ends without an event, so the events of a
    run alone do not tell.
    """
    if not ctx.is_resumable:
        return False
    run = (event for event in ctx.session.events if event.invocation_id == ctx.invocation_id)
    asking = {event.author for event in unanswered(run).values() if is_below(event, ctx.branch)}
    return bool(asking) and not asking.isdisjoint(_reachable(agent))


def _reachable(agent: BaseAgent) -> set[str]:
    """Names of the agents that may run when `agent` runs: those below it, and the targets of transfers."""
    found: set[str] = set()
    pending = [agent]
    while pending:
        for current in below(pending.pop()):
            if current.name not in found:
                found.add(current.name)
                if isinstance(current, FluentAgent):
                    found |= current.inside
                if isinstance(current, TransferAgent) and (target := current.target()) is not None:
                    pending.append(target)
    return found


def events_of(child: BaseAgent, ctx: InvocationContext) -> Events:
    """The events of a step; of a native agent, as long as every session store holds what they write."""
    events = child.run_async(ctx)
    return events if hasattr(child, "ir") else keeping_to(None, events)  # ours see to it themselves


def within_schema(node: Node, events: Events) -> Events:
    """The events of a node's agent, held to the schema that is bound to the node, if one is."""
    schema = node.annotations.schema
    return events if schema is None else keeping_to(cast("type[StateSchema]", schema), events)


async def transformed(
    node: TransformNode, step: str, state: ReadOnlyState, pieces: Feed | None = None, /, **given: Any
) -> dict[str, Any]:
    """What a transform changes in `state`; `step` is its name, and `given` are its resources.

    Args:
        pieces: what its function is given in place of the state: an answer as it is generated.

    Raises:
        StepError: its function raised.
    """
    view = state.at(f"step {step!r}", returns=True)
    with in_step(step, view):
        told = view if pieces is None else texts(pieces)
        return changes(node, await resolved(cast(Any, node.fn)(told, **given)), view)


async def shown_to(
    node: TapNode, step: str, state: ReadOnlyState, pieces: Feed | None = None, /, **given: Any
) -> None:
    """Show `state` to the function of a tap, or each piece of an answer.

    `step` is its name, and `given` are its resources.

    Raises:
        StepError: its function raised.
    """
    view, fn = state.at(f"tap {step!r}"), cast(Any, node.fn)
    with in_step(step, view):
        if pieces is None:
            await resolved(fn(view, **given))
        else:
            async for piece in pieces:
                await resolved(fn(piece.text, **given))


class TransformAgent(FluentAgent):
    """Writes what a function makes of the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(TransformNode, self._ir)
        given = await self.given(node.function, ctx)
        delta = await transformed(node, self.name, state_of(ctx), taken_here(), **given)
        if delta or node.says is not None:
            event = self.state_event(ctx, delta, ends=True)
            if node.says is not None:
                value = delta.get(node.says, ctx.session.state.get(node.says))
                event.custom_metadata = {SAYS: value if isinstance(value, str) else to_json(value).decode()}
            if (removed := removal(ctx, event)) is not None:
                yield removed
            yield event


class TapAgent(FluentAgent):
    """Lets a function look at the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        node = cast(TapNode, self._ir)
        given = await self.given(node.fn, ctx)
        await shown_to(node, self.name, state_of(ctx), taken_here(), **given)
        return
        yield  # an async generator needs one


class CaptureAgent(FluentAgent):
    """Copies the latest user message, or the last turns, into state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        if delta := captured(cast(CaptureNode, self._ir), ctx.session.events):
            yield self.state_event(ctx, delta, ends=True)


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
        paused, problems = False, dict[str, str]()
        async with aclosing(events_of(target, ctx)) as events:
            async for event in events:
                paused = paused or pauses(ctx, event)
                note_problems(problems, event)
                yield event
        if ctx.is_resumable and not (paused or problems or waits(target, ctx)):
            yield private.finished(self, ctx)

    def target(self) -> BaseAgent | None:
        """The agent it hands over to, if the tree has it."""
        return self.root_agent.find_agent(cast(TransferNode, self._ir).target)
