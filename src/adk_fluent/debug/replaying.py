"""`ReplayerBackend`: ADK's real runner, with recorded answers in the place of models and tools."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Never, cast

from adk_fluent._tasks import Limit, limits_around, next_limit
from adk_fluent.backends.adk.api import (
    DEFAULT_USER,
    ADKBackend,
    Script,
    ScriptedLlm,
    as_outcome,
    event_of,
    parts,
    scripting,
    works_inside,
)
from adk_fluent.debug.errors import raised, unknown_class
from adk_fluent.debug.lanes import has_lost
from adk_fluent.debug.layout import check_readable
from adk_fluent.debug.playing import CallLive, Place, Played, Watching, making, redo, restore
from adk_fluent.debug.recorder import Placed
from adk_fluent.debug.requests import Asked, request_json
from adk_fluent.debug.tape import Mismatch, Tape
from adk_fluent.errors import ArgumentError, RecordingError, ReplayError
from adk_fluent.middleware.arguments import of_type, one_of, whole
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.protocol import CallTool

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.adk.api import Answering, Compiled
    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.debug.recording import Recording
    from adk_fluent.debug.values import LLMInteraction, ToolInteraction
    from adk_fluent.ir.base import Node
    from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode

OnMismatch = Literal["error", "skip", "live"]
Tools = Literal["recorded", "live"]


class ReplayerBackend(scripting.ScriptedBackend):
    """Runs expressions on ADK's real runner, where a recording answers in the place of models and tools.

    A call is answered by the one that the same agent made at the same point of its own calls, so parallel
    branches do not mix. What happened at the same time happens again in the order of the recording: races
    have the winner they had. Everything else really runs: routes, transforms, callbacks, middleware. A
    backend plays its recording once; make another to play it again.

    Args:
        recording: what to play.
        on_mismatch: what to do when a request is not the one that was recorded, or was not recorded at all:
            raise a `ReplayError` that shows what changed, `skip` it with an empty answer, or ask the agent's
            own model (`live`).
        tools: whether tools give what was `recorded`, or really run (`live`). What works inside the run
            alone, such as agents used as tools, always runs.
        until: play only what was asked before this place (`seq`) of the recording; after it models and tools
            are live.
        live: the backend whose models are asked live; by default those of the agents themselves.
        services: as for `ADKBackend`.

    Attributes:
        mismatches: the calls that were not recorded as they were made.
        unknown_classes: those of recorded errors, as `module:name`, that no imported module has.

    Raises:
        ArgumentError: an argument is none of these.
        RecordingError: it was recorded without its content, or live, or the installed ADK cannot read it.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.debug import Recorder
        >>> from adk_fluent.testing import mock_backend
        >>> recorder, pipeline = Recorder(), Agent("draft").writes("text") >> Agent("edit")
        >>> script = mock_backend({"draft": "Helo.", "edit": "Hello."})
        >>> _ = asyncio.run(pipeline.run("Hi", backend=script, middleware=[recorder]))
        >>> asyncio.run(pipeline.run("Hi", backend=ReplayerBackend(recorder.get_recording()))).text
        'Hello.'
    """

    def __init__(
        self,
        recording: Recording,
        on_mismatch: OnMismatch = "error",
        *,
        tools: Tools = "recorded",
        until: int | None = None,
        live: ADKBackend | None = None,
        **services: Any,
    ) -> None:
        super().__init__(**services)
        given: object = recording
        if not callable(getattr(given, "to_json", None)):
            raise ArgumentError(
                f"ReplayerBackend(recording=) is a Recording, not {given!r:.60}; "
                "Recording.load(path) reads one."
            )
        one_of(on_mismatch, ("error", "skip", "live"), "ReplayerBackend(on_mismatch=)")
        one_of(tools, ("recorded", "live"), "ReplayerBackend(tools=)")
        if until is not None:
            whole(until, "ReplayerBackend(until=)", 0)
        of_type(live, ADKBackend | None, "ReplayerBackend(live=)", "ADKBackend() or mock_backend({...})")
        if any(not call.request for call in recording.llm_interactions):
            raise RecordingError(
                "This was recorded with capture_content=False, and what was not said cannot be played. "
                "Record it again with the content."
            )
        if any(run.live for run in recording.runs):
            raise RecordingError(_LIVE)
        check_readable(recording)
        self._tape = Tape(recording, until)
        self._on_mismatch, self._tools = on_mismatch, tools
        self._live = live or ADKBackend()
        self.mismatches: list[Mismatch] = []
        self.unknown_classes: list[str] = []
        self._leaving: dict[int, asyncio.Future[None]] = {}

    @property
    def left(self) -> list[LLMInteraction | ToolInteraction]:
        """What was recorded and not asked so far, in the order of the recording."""
        return self._tape.left

    async def live(self, compiled: Compiled, **options: Any) -> Never:
        """Refused: a recording has nothing that could answer on an open connection.

        Raises:
            ReplayError: always.
        """
        raise ReplayError(
            f"{compiled.named.root.name!r} cannot be run live on a recording: ReplayerBackend answers the "
            "calls of run, ask, stream and session. Take one of these, or mock_backend() for a scripted "
            "live conversation."
        )

    def expect(self, session_id: str, run: int) -> None:
        """Let the next run of a session be this one of the recording, from 0.

        By default runs begin in the order of the recording.
        """
        self._tape.expect(session_id, run)

    async def stream(
        self, compiled: Compiled, prompt: Any, **options: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        """Give events as they happen; takes what `ADKBackend.stream` takes."""
        options["session_id"] = options.get("session_id") or str(uuid.uuid4())
        await self._recall(compiled, options)
        async with aclosing(super().stream(compiled, prompt, **options)) as events:
            async for event in events:
                yield event

    async def resume(self, compiled: Compiled, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        """Go on with a paused run; takes what `ADKBackend.resume` takes."""
        await self._recall(compiled, options)
        async with aclosing(super().resume(compiled, **options)) as events:
            async for event in events:
                yield event

    async def _recall(self, compiled: Compiled, options: Mapping[str, Any]) -> None:
        """Let a session hold what it held before the run that is about to begin."""
        runner = compiled.runner(self.services(options.get("services")))
        service = runner.session_service
        user, session_id = options.get("user_id") or DEFAULT_USER, options["session_id"]
        place: dict[str, Any] = {"app_name": runner.app_name, "user_id": user, "session_id": session_id}
        session = await service.get_session(**place)
        run = self._tape.earlier(session_id, is_new=session is None or not session.events)
        if run is None:
            return
        if session is None:
            state = {key: value for key, value in run.state.items() if not key.startswith("temp:")}
            session = await service.create_session(**place, state=state)
        for data in run.earlier:
            await service.append_event(session, parts.session_event(data, self._tape.invocations))

    # --- what answers -----------------------------------------------------------------------------

    def model_for(self, node: AgentNode, origin: str, model: str | BaseLlm | None = None) -> BaseLlm:
        """A model that gives what was recorded for the agent."""
        return self._playing(node.name, model, self._live.model_for(node, origin, model))

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> BaseLlm:
        """A model that gives what was recorded for a question of an agent's context."""
        real = self._live.helper_for(node, origin, operation, model)
        key = f"{node.name}:{operation}"
        named = self._tape.model_asked(key) if model is None else model
        return self._playing(key, named, real)

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """What gives what was recorded for a remote agent; nothing is sent."""
        return _Remote(self, node.name, self._live.remote_for(node, origin))

    async def remote(
        self, agent: str, request: LlmRequest, ask: Callable[[], AsyncGenerator[Event, None]]
    ) -> AsyncGenerator[Event, None]:
        """The events of one call of a remote agent: those that were recorded.

        Args:
            ask: asks the process after all.
        """
        call = self._tape.model(agent, Asked(request_json(request)))
        found: LLMInteraction | None = await self._found(call, inf)
        if found is None and not self._skips:
            async with aclosing(ask()) as events:
                async for event in events:
                    yield event
        else:
            async with aclosing(_silence() if found is None else self._played(found)) as responses:
                async for response in responses:
                    yield event_of(response, agent)
        self._tape.passed(call)

    def another_model(self, node: AgentNode, origin: str, model: str | BaseLlm) -> BaseLlm:
        """A model that gives what was recorded for the agent, under the name of one a middleware names."""
        return self._playing(node.name, model, self._live.another_model(node, origin, model))

    def prepare(self, node: Node) -> Node:
        """The tree, with what looks on while it is played."""
        self._tape.plays(node)
        made = super().prepare(node)
        own = made.annotations
        watched = own.replace(middleware=(*own.middleware, Watching(self, self._tape)))  # inside all others
        return made.replace(annotations=watched)

    def _playing(self, key: str, named: str | BaseLlm | None, real: str | BaseLlm | None) -> ScriptedLlm:
        model = named if real is None else real

        async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            place = making.get()
            if place is None or place.key != key:  # nothing looks on here, as around an agent inside a tool
                place = Place(key, Asked(request_json(request)), streaming=False)

            def live() -> AsyncGenerator[LlmResponse, None]:
                return scripting.model_of_name(model).generate_content_async(request, stream=place.streaming)

            async with aclosing(self.answers(place, live)) as responses:
                async for response in responses:
                    yield response

        script = Script(key, answer, "repeat", [])
        return ScriptedLlm.of(script, merge_state=False, name=scripting.name_of_model(named))

    async def answers(self, place: Place, live: CallLive) -> AsyncGenerator[LlmResponse, None]:
        """What is answered to a call.

        Args:
            place: the call.
            live: asks what would really be asked.
        """
        await self._tape.asks(place.key, place.branch, place.until)
        call = self._tape.model(place.key, place.asked, place.before, place.branch)
        found: LLMInteraction | None = await self._found(call, place.before, place.left)
        source = self._played(found) if found is not None else _silence() if self._skips else live()
        async with aclosing(source) as responses:
            async for response in responses:
                yield response
        self._tape.passed(call)

    async def _played(self, call: LLMInteraction) -> AsyncGenerator[LlmResponse, None]:
        order = self._tape.order
        for chunk in call.chunks:
            await order.turn(chunk.seq)
            order.mark(chunk.seq)
            yield parts.response_from(chunk.response)
        await self._ended(call)

    async def _ended(self, call: LLMInteraction | ToolInteraction) -> None:
        """The end of a call as it was recorded: well, with an error, or none at all."""
        if call.ended is None:
            limit = self._limit(call)
            if limit is not None:  # it was cut off when the time was over; nobody waits for that again
                await self._tape.order.turn(call.given_up or 0)
                if not self._tape.is_complete:
                    await self._tape.order.cut()
                limit.expire()
                await asyncio.sleep(0)  # where this is cancelled, unless the limit is around something else
            await self._tape.order.last()
            if self._was_left(call):
                await self._leave(call.run)
                raise ReplayError(
                    f"The caller of run {call.run + 1} left it in the recording while agent "
                    f"{call.agent_name!r} was at work: there is no answer. Recording.replay() leaves it, too."
                )
            raise ReplayError(
                f"A call of agent {call.agent_name!r} was given up in the recording, as in the branch of a "
                "race that lost, and here it is waited for. Take on_mismatch='live', or record it again."
            )
        if call.error is not None:
            await self._tape.order.turn(call.ended)
            self._tape.order.mark(call.ended)
            if (unknown := unknown_class(call.error)) is not None:
                self.unknown_classes.append(unknown)
            raise as_outcome(raised(call.error))

    def _was_left(self, call: LLMInteraction | ToolInteraction) -> bool:
        """Whether it was at work when the caller of its run left."""
        return self._tape.recording.runs[call.run].left and not has_lost(self._tape.recording, call)

    def _limit(self, call: LLMInteraction | ToolInteraction) -> Limit | None:
        """The time limit that cut a call off, if one did and has not done so again yet."""
        if call.given_up is None:  # recorded by an earlier release, which did not say why
            unknown = has_lost(self._tape.recording, call) or self._was_left(call)
            return None if unknown else next_limit()
        limits = enumerate(limits_around())
        return next((each for number, each in limits if number == call.limit and not each.is_over), None)

    def leaves(self, run: int) -> asyncio.Future[None]:
        """What is done when a run has come to the place at which its caller left it."""
        self._leaving[run] = asyncio.get_running_loop().create_future()
        return self._leaving[run]

    async def _leave(self, run: int | None) -> None:
        """Tell the caller of a run that it left it here, if it wants to know, and wait to be cancelled."""
        if run in self._leaving:
            if not self._leaving[run].done():
                self._leaving[run].set_result(None)
            await asyncio.get_running_loop().create_future()

    def limit(self, before: float, left: int | None) -> float:
        """The place before which a call was made: `before`, or that at which the caller left the run."""
        return before if left is None else min(before, self._tape.recording.extents.get(left, 0) + 1)

    @property
    def _skips(self) -> bool:
        """Whether nothing is answered in the place of what was not recorded."""
        return self._on_mismatch == "skip" and self._tape.until is None

    async def _found(self, call: Any, before: float, left: int | None = None) -> Any:
        """A recorded call; `None` for what is answered otherwise."""
        if not isinstance(call, Mismatch):
            return call
        if before < inf and call.recorded is None:  # another branch had won by then, or the caller was gone
            await self._tape.order.last()
            await self._leave(left)
        if self._tape.until is not None and not call.changed:  # it is asked later than what is played
            return None
        self.mismatches.append(call)
        if self._on_mismatch == "error":
            raise ReplayError(str(call))
        return None

    async def tool(
        self, ctx: Context, played: Played, name: str, args: dict[str, Any], call: CallTool
    ) -> Any:
        """What a call of a tool gives."""
        inside = works_inside(ctx.tool)
        recorded = self._tools == "recorded" and not inside
        branch, left = cast(Placed, ctx).branch, self._tape.left_run(ctx.session_id)
        before = self.limit(played.before(branch), left)
        await self._tape.asks(f"{ctx.agent_name}/{name}", branch, played.until)
        found = self._tape.tool(ctx.agent_name, name, args, before, branch)
        known: ToolInteraction | None = await self._found(found, before, left) if recorded else None
        if known is not None:
            if known.ended is not None and known.error is None:
                await self._tape.order.turn(known.ended)
                self._tape.order.mark(known.ended)
                redo(known, ctx.native, ctx.state)
            await restore(known.artifacts, ctx.native, self._tape.recording.saved_artifacts(known.run))
            await self._ended(known)
            return known.result
        if recorded and self._skips:
            return {}
        try:
            return await call(args)
        finally:
            self._tape.passed(found)


async def _silence() -> AsyncGenerator[LlmResponse, None]:
    yield parts.silence()


class _Remote:
    """Has a recording answer in the place of a remote agent."""

    def __init__(self, backend: ReplayerBackend, agent: str, live: BaseLlm | Answering | None) -> None:
        self._backend, self._agent, self.live = backend, agent, live

    def answers(
        self, request: LlmRequest, ask: Callable[[], AsyncGenerator[Event, None]]
    ) -> AsyncGenerator[Event, None]:
        return self._backend.remote(self._agent, request, ask)


_LIVE: Final = (
    "This is the recording of a live conversation: what went over its open connection was not recorded, so "
    "it cannot be replayed. Compare its events with diff_events(), or record run, ask, stream or session."
)
