"""`Recorder`: the middleware that records runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from adk_fluent.backends.events import is_in_tool
from adk_fluent.debug.notes import NotedRun, Notes
from adk_fluent.debug.recording import Recording
from adk_fluent.debug.requests import Asked, plain, request_json
from adk_fluent.debug.values import LLMInteraction, RecordedRun, ToolInteraction
from adk_fluent.errors import ArgumentError
from adk_fluent.middleware.arguments import flag
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept, Shared
from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content

    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.expr.base import Expr
    from adk_fluent.ir.base import Node

E = TypeVar("E", bound="Expr[Any]")


class Placed(Protocol):
    """A context that knows where in which tree it is."""

    @property
    def node(self) -> Node | None:
        """The node that is at hand."""
        ...

    @property
    def tree(self) -> Node | None:
        """The tree that runs."""
        ...

    @property
    def branch(self) -> str | None:
        """The branch of the conversation."""
        ...

    @property
    def run_id(self) -> str:
        """The run that everything here belongs to."""
        ...


def recorder(
    capture_content: bool = True, capture_state: bool = True, *, redact: Iterable[str] = ()
) -> Recorder:
    """Record what happens: requests and answers of models, tools, events, the state after each of them.

    It only looks on: wherever it stands among other middleware, it records what models and tools were really
    asked. Of a live conversation the events are recorded, but not what went over its open connection, so that
    it cannot be replayed. Secrets are taken out before anything is kept: values of keys that name one
    (`api_key`, `token`, `password`, ...), texts that look like the keys of well-known services, and the
    values of environment variables that name a secret.

    Args:
        capture_content: whether what was said is recorded; without it nothing can be replayed.
        capture_state: whether the state is.
        redact: more keys whose values are secret.

    Raises:
        ArgumentError: an argument is of another type.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> recording = recorder()
        >>> pipeline = Agent("draft").writes("text") >> Agent("edit").instruct("Edit {text}.")
        >>> backend = mock_backend({"draft": "Helo.", "edit": "Hello."})
        >>> result = asyncio.run(pipeline.run("Greet them.", backend=backend, middleware=[recording]))
        >>> recording.get_recording()
        <Recording of sequence: 1 run, 2 events, 2 model calls, 0 tool calls>
    """
    return Recorder(capture_content, capture_state, redact=redact)


def _keys(redact: object) -> list[str]:
    if isinstance(redact, Iterable) and not isinstance(redact, str):
        keys = list(cast("Iterable[object]", redact))
        if all(isinstance(key, str) for key in keys):
            return cast("list[str]", keys)
    raise ArgumentError(f"Recorder(redact=) takes keys, as redact=['ssn'], not {redact!r:.40}.")


class Recorder(Middleware):
    """What `recorder()` makes. It can record several runs, one after the other or at the same time."""

    observes: ClassVar[bool] = True

    def __init__(
        self, capture_content: bool = True, capture_state: bool = True, *, redact: Iterable[str] = ()
    ) -> None:
        content = flag(capture_content, "Recorder(capture_content=)")
        self._kept = content, flag(capture_state, "Recorder(capture_state=)"), sorted(_keys(redact))
        self._run: Kept[NotedRun] = self.per_run(NotedRun)
        self.clear()

    def clear(self) -> None:
        """Forget what was recorded."""
        self._notes: Shared[Notes] = self.shared(partial(Notes, *self._kept))

    def install(self, expression: E) -> E:
        """The expression with this recorder around it, for all of its runs on every entry point.

        Raises:
            ArgumentError: it is none.
        """
        if not callable(getattr(expression, "middleware", None)):
            raise ArgumentError(f"Recorder.install() takes an expression, not {expression!r:.40}.")
        return expression.middleware(self)

    def save(self, path: str | os.PathLike[str]) -> Recording:
        """Write what was recorded so far to a file, and give it.

        Raises:
            RecordingError: the file cannot be written.
        """
        recording = self.get_recording()
        recording.save(path)
        return recording

    def get_recording(self) -> Recording:
        """What was recorded so far of live runs.

        If there was no live run, of those on the test backend that came last. Previews are not recorded.
        """
        return self._notes.current.recording()

    # --- what it sees -----------------------------------------------------------------------------

    async def on_user_message(self, ctx: Context, message: Content) -> None:
        """The start of a run."""
        self._run(ctx).prompt = plain(message)

    async def before_run(self, ctx: Context) -> None:
        """The state at its start."""
        run = self._run(ctx)
        run.held = ctx.state.to_dict()
        known = RecordedRun(
            prompt=run.prompt,
            session_id=ctx.session_id,
            user_id=ctx.user_id,
            state=run.held,
            invocation_id=ctx.invocation_id,
            streaming=ctx.streaming,
            live=ctx.live,
        )
        notes = self._notes(ctx)
        events = () if ctx.live else cast(Any, ctx.native).session.events
        run.answer_found, run.answer_remembered = self._found, self._remembered
        metadata = {"default_model": default_model(), "sees_races": _sees_races()}
        notes.begin(run, cast(Placed, ctx).tree, metadata, known, events)
        _note_artifacts(ctx, partial(notes.came_upon, run.index))

    async def after_run(self, ctx: Context) -> None:
        """The end of a run; newer ADKs say it of one that is cancelled or closed as well."""
        run, why = self._run(ctx), sys.exc_info()[1]
        if run.notes is not None and not isinstance(why, GeneratorExit | asyncio.CancelledError):
            run.notes.came_to_its_end(run.index)

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        """What a run ended with, on an ADK that says so; on others `run_failed` is told."""
        self._run(ctx).run_failed(error)

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """An event as it leaves, and the state after it."""
        run = self._run(ctx)
        if run.notes is None or event.is_partial or event.invocation_id != cast(Placed, ctx).run_id:
            return
        run.notes.step(run, event, ctx.state.to_dict() | event.state_delta)

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """The start of an agent or step; on no branch, nothing goes on beside it."""
        run, branch = self._run(ctx), cast(Placed, ctx).branch
        if run.notes is not None and branch and is_of_the_run(ctx):
            run.notes.starts(agent_name, branch, run.index)

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        """The end of an agent or step."""
        run = self._run(ctx)
        if run.notes is not None and came_to_its_end(ctx):
            run.notes.end(agent_name, cast(Placed, ctx).branch, run.index)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """A call of a model."""
        run, asked = self._run(ctx), asked_of(ctx, request)
        notes = run.notes or self._notes(ctx)
        noted = notes.asks(_call(ctx, request, asked, run))
        with noted.going_on():
            async with aclosing(call(request)) as responses:
                async for response in responses:
                    noted.gave(response)
                    yield response

    def _found(self, ctx: Context, request: LlmRequest, answer: list[Mapping[str, Any]]) -> None:
        """An answer that a cache held."""
        run = self._run(ctx)
        if run.notes is not None:
            run.notes.found(_call(ctx, request, asked_of(ctx, request), run), answer)

    def _remembered(self, ctx: Context, request: LlmRequest, response: LlmResponse) -> None:
        """An answer that an agent had already."""
        run = self._run(ctx)
        if run.notes is not None:
            run.notes.remembered(_call(ctx, request, asked_of(ctx, request), run), response)

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """A call of a tool."""
        run, native = self._run(ctx), cast(Any, ctx.native)
        notes = run.notes or self._notes(ctx)
        before = plain(native.actions)
        noted = notes.uses(
            ToolInteraction(
                tool_name,
                ctx.agent_name,
                call_id=native.function_call_id or "",
                args=plain(args),
                inside=_works_inside(ctx),
                branch=cast(Placed, ctx).branch,
                run=max(run.index, 0),
            )
        )
        with noted.going_on():
            with _saves(noted.saved):
                result = cast(object, await call(args))
            given: Any = plain(result)
            if not isinstance(result, dict) and isinstance(given, dict):  # ADK makes a dict of it, too
                given = {"result": cast("dict[str, Any]", given)}
            after = plain(native.actions)
            actions = {name: value for name, value in after.items() if value != before.get(name)}
            noted.did(given, actions)
        return cast(Any, result)


def came_to_its_end(ctx: Context) -> bool:
    """Whether a step of the tree that runs has ended; not of an agent inside a tool, nor one given up.

    Newer ADKs call `after_agent` for those that are cancelled as well, such as the loser of a race.
    """
    task = asyncio.current_task()
    return is_of_the_run(ctx) and not (task is not None and task.cancelling() > 0)


def is_of_the_run(ctx: Context) -> bool:
    """Whether a step is one of the tree that runs, and not inside a tool."""
    placed = cast(Placed, ctx)
    return ctx.invocation_id == placed.run_id and not is_in_tool(placed.branch)


def asked_of(ctx: Context, request: LlmRequest) -> Asked:
    """A request, with the templates and the values of the state that it was made of."""
    node = cast(Placed, ctx).node
    if node is None or ctx.operation is not None:
        return Asked(request_json(request))
    state = ctx.state
    read = {key: value for key in sorted(node.reads_keys) if (value := state.get(key)) is not None}
    return Asked(
        request_json(request),
        tuple(getattr(node, "templates", ())),
        {key: plain(value) for key, value in read.items()},
    )


def _call(ctx: Context, request: LlmRequest, asked: Asked, run: NotedRun) -> LLMInteraction:
    return LLMInteraction(
        ctx.agent_name,
        operation=ctx.operation,
        model=request.model,
        request=asked.request,
        prompt=asked.prompt,
        state=asked.state,
        branch=cast(Placed, ctx).branch,
        run=max(run.index, 0),
    )


def _works_inside(ctx: Context) -> bool:
    from adk_fluent.backends.adk.api import works_inside

    return works_inside(ctx.tool)


def _note_artifacts(ctx: Context, found: Any) -> None:
    from adk_fluent.backends.adk.api import recorded

    recorded.note_artifacts(cast(Any, ctx.native), found)


def _saves(saved: Any) -> Any:
    from adk_fluent.backends.adk.api import recorded

    return recorded.saves(saved)


def default_model() -> str:
    """The model that the installed ADK asks where an agent names none."""
    from adk_fluent.cost.prices import name_of
    from adk_fluent.inspection import presentation

    return name_of(presentation.default_model())


def _sees_races() -> bool:
    """Whether the installed ADK tells of what is inside a race before that is decided."""
    from adk_fluent.backends.adk.api import stores_what_plugins_give

    return stores_what_plugins_give()
