"""What looks on while a recording is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from adk_fluent.backends.afoot import Afoot
from adk_fluent.debug.contests import Contest
from adk_fluent.debug.lanes import is_within, lane_of
from adk_fluent.debug.recorder import Placed, asked_of, came_to_its_end, is_of_the_run
from adk_fluent.debug.requests import Asked
from adk_fluent.debug.tape import Tape
from adk_fluent.debug.values import Choice, Saved, SavedArtifact, ToolInteraction
from adk_fluent.errors import ReplayError
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept
from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent

CallLive = Callable[[], AsyncGenerator["LlmResponse", None]]


@dataclass(frozen=True, slots=True)
class Place:
    """The call that is about to be made, as the middleware next to the model sees it.

    Attributes:
        key: the agent, or `agent:operation`.
        asked: the request.
        streaming: whether pieces are asked for.
        before: the place in the recording before which it was made, at the latest.
        branch: the branch of the conversation, if that is known.
        until: the place in the recording at which the next run begins.
        left: the run that it is made in, if that was left by its caller.
    """

    key: str
    asked: Asked
    streaming: bool
    before: float = inf
    branch: str | None = ""
    until: float = inf
    left: int | None = None


making: ContextVar[Place | None] = ContextVar("adk_fluent_replay", default=None)
"""The call that is about to be made."""


@dataclass(eq=False)
class Played:
    """What is known of a run that is made again.

    Attributes:
        tape: what is played.
        races: lane of a race that goes on → how it was decided.
        tools: lane → how many tools of an agent there are at work.
        until: the place in the recording at which the next run begins.
    """

    tape: Tape | None = None
    races: dict[str, Choice] = field(default_factory=dict[str, Choice])
    tools: Counter[tuple[str, str | None]] = field(default_factory=Counter[tuple[str, "str | None"]])
    until: float = inf

    @property
    def afoot(self) -> Afoot | None:
        """What counts what goes on."""
        return None if self.tape is None else self.tape.order.afoot

    def begins(self, tape: Tape, session_id: str) -> None:
        """The run begins."""
        self.tape = tape
        self.until = tape.next_run(session_id)
        tape.order.afoot.begin()

    def run_ended(self) -> None:
        """Called when the run is over."""
        if self.tape is not None:
            self.tape.run_ended()
            self.tape.order.afoot.end()

    def race_begins(self, contest: str, branch: str | None, names: Collection[str]) -> Contest | None:
        """Called when a race begins."""
        if self.tape is None:
            return None
        choice = self.tape.race(contest, branch, self.until)
        lane = lane_of(Choice(contest, branch=branch))
        self.races[lane] = choice or Choice(contest)
        return Contest(choice, names, self.tape.order, lambda: self.races.pop(lane, None))

    async def event_due(self, author: str, branch: str | None, event: str, lane: str) -> None:
        """Awaited before an event leaves a branch of the step with this lane."""
        if self.tape is not None:
            await self.tape.event_due(author, branch, event, lane, self.until)

    def event_given(self, event: str) -> None:
        """Called when a race that had kept an event to itself passes it on."""
        if self.tape is not None:
            self.tape.given(event)

    async def error_due(self, error: BaseException, step: str, branch: str | None, child: int) -> None:
        """Awaited before an error leaves a branch, which ends those beside it; `ReplayError` never waits."""
        if self.tape is not None and not isinstance(error, ReplayError):
            await self.tape.failure_due(step, branch, child, self.until)

    def answer_recalled(self, ctx: Context, request: LlmRequest) -> LlmResponse | Literal[False] | None:
        """Called before an agent takes an answer that it remembers, or asks again.

        It gives the answer that was remembered then; `False` if the model was asked, and `None` if the
        recording does not say.
        """
        if self.tape is None or not self.tape.is_complete:
            return None
        branch = cast(Placed, ctx).branch
        key, before = f"{ctx.agent_name}:{ctx.operation}", self.before(branch)
        call = self.tape.recalled(key, asked_of(ctx, request), before, branch)
        if call is not None:
            from adk_fluent.backends.adk.api import parts

            return parts.response_from(call.chunks[-1].response)
        return False if self.tape.asks_next(key, before, branch) else None

    def before(self, branch: str | None) -> float:
        """The place before which the calls of a lane were made: there a race that it is in was decided."""
        around = (choice for lane, choice in self.races.items() if is_within(branch, lane))
        return min((choice.seq or inf for choice in around), default=inf)

    @contextmanager
    def tool(self, agent: str, branch: str | None) -> Generator[None]:
        """A tool is at work; an agent that asked for several waits for all of them."""
        lane, afoot = (agent, branch), self.afoot
        self.tools[lane] += 1
        if afoot is not None and self.tools[lane] > 1:
            afoot.begin()
        try:
            yield
        finally:
            self.tools[lane] -= 1
            if afoot is not None and self.tools[lane]:
                afoot.end()


def redo(call: ToolInteraction, native: Any, state: Any) -> None:
    """Do what a tool did beside its result, again; under the id that the call has now.

    Args:
        native: ADK's context of the call that is made now.
        state: the state as a tool sees it.
    """
    from adk_fluent.backends.adk.api import parts

    wrote: Mapping[str, Any] = call.actions.get("state_delta") or {}
    for key, value in wrote.items():
        state[key] = value
    others = {name: value for name, value in call.actions.items() if name != "state_delta"}
    parts.act(native.actions, {name: _renamed(value, call, native) for name, value in others.items()})


async def restore(artifacts: Iterable[SavedArtifact], native: Any, saved: Saved) -> None:
    """Let these artifacts be there, unless they are.

    Args:
        native: ADK's context of the run, or of a call in it.
        saved: all artifacts that are known of the session.
    """
    from adk_fluent.backends.adk.api import recorded

    for each in artifacts:

        def content(version: int, each: SavedArtifact = each) -> Mapping[str, Any] | None:
            known = each if version == each.version and each.part else saved.get((each.filename, version))
            return None if known is None else known.part

        await recorded.put_artifact(native, each.filename, each.version, content)


def _renamed(value: Any, call: ToolInteraction, native: Any) -> Any:
    if not isinstance(value, dict) or call.call_id not in value:
        return cast(Any, value)
    held = cast("dict[str, Any]", value)
    return {native.function_call_id if key == call.call_id else key: item for key, item in held.items()}


class Player(Protocol):
    """Gives the recorded answers: what `Watching` needs of a `ReplayerBackend`."""

    def limit(self, before: float, left: int | None) -> float:
        """The place before which a call was made: `before`, or that at which the caller left the run."""
        ...

    def answers(self, place: Place, live: CallLive) -> AsyncGenerator[LlmResponse, None]:
        """The answer to a call of a model."""
        ...

    async def tool(
        self, ctx: Context, played: Played, name: str, args: dict[str, Any], call: CallTool
    ) -> Any:
        """The result of a call of a tool."""
        ...


class Watching(Middleware):
    """Sees what is asked of which agent, and what leaves."""

    observes: ClassVar[bool] = True

    def __init__(self, backend: Player, tape: Tape) -> None:
        self._backend, self._tape = backend, tape
        self._played: Kept[Played] = self.per_run(Played)

    async def before_run(self, ctx: Context) -> None:
        """A run begins."""
        self._played(ctx).begins(self._tape, ctx.session_id)
        artifacts, saved = self._tape.artifacts(ctx.session_id, ctx.invocation_id)
        await restore(artifacts, ctx.native, saved)

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """An event leaves."""
        if not event.is_partial and event.invocation_id == cast(Placed, ctx).run_id:
            self._tape.happened(event.author, event.branch, event.id)

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """An agent or step begins, when it is its turn to."""
        if is_of_the_run(ctx):
            await self._tape.begins(agent_name, cast(Placed, ctx).branch, self._played(ctx).until)

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        """An agent or step ends, when it is its turn to."""
        if came_to_its_end(ctx):
            await self._tape.ended(agent_name, cast(Placed, ctx).branch, self._played(ctx).until)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """A model is asked: it is told by whom."""
        key = ctx.agent_name if ctx.operation is None else f"{ctx.agent_name}:{ctx.operation}"
        branch = cast(Placed, ctx).branch
        played, left = self._played(ctx), self._tape.left_run(ctx.session_id)
        before = self._backend.limit(played.before(branch), left)
        place = Place(key, asked_of(ctx, request), ctx.streaming, before, branch, played.until, left)
        making.set(place)
        is_object = getattr(ctx.native, "is_object", False)
        answers = self._backend.answers(place, lambda: call(request)) if is_object else call(request)
        async with aclosing(answers) as responses:
            async for response in responses:
                yield response

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """A tool is called."""
        played = self._played(ctx)
        with played.tool(ctx.agent_name, cast(Placed, ctx).branch):
            return await self._backend.tool(ctx, played, tool_name, args, call)
