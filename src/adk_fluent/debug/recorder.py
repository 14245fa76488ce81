"""`Recorder`: the middleware that records runs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from importlib.metadata import version
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from adk_fluent import __version__
from adk_fluent._redacting import Redactor
from adk_fluent.backends.events import is_in_tool
from adk_fluent.debug.events import event_from
from adk_fluent.debug.noting import NotedCall, NotedRace, NotedRemote, NotedRun
from adk_fluent.debug.recording import Recording, pipeline_hash
from adk_fluent.debug.requests import Asked, plain, request_json
from adk_fluent.debug.spans import Spans
from adk_fluent.debug.values import (
    Chunk,
    End,
    Failure,
    LLMInteraction,
    RecordedRun,
    Step,
    ToolInteraction,
)
from adk_fluent.errors import ArgumentError
from adk_fluent.middleware.faults import root_of, status_of
from adk_fluent.middleware.keeping import Kept
from adk_fluent.middleware.protocol import CallModel, CallTool, Context, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content

    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.expr.base import Expr
    from adk_fluent.ir.base import Node

E = TypeVar("E", bound="Expr[Any]")
V = TypeVar("V", LLMInteraction, ToolInteraction)


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
        self._content, self._state = capture_content, capture_state
        self._secret = sorted(_keys(redact))
        self._redacted = Redactor(self._secret)
        self._spans = Spans()
        self._run: Kept[NotedRun] = self.per_run(NotedRun)
        self.clear()

    def clear(self) -> None:
        """Forget what was recorded."""
        self._began = time.monotonic()
        self._seq: Iterator[int] = count(1)
        self._calls: Counter[str] = Counter()
        self._runs: list[RecordedRun] = []
        self._steps: list[Step] = []
        self._places: dict[str, int] = {}
        self._ends: list[End] = []
        self._races: list[NotedRace] = []
        self._asked: list[NotedCall[LLMInteraction]] = []
        self._used: list[NotedCall[ToolInteraction]] = []
        self._tree: Node | None = None
        self._noted: dict[str, Any] = {}
        self._spans.clear()

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
        """What was recorded so far."""
        recording = self._recorded()
        if not self._redacted.learned:
            return recording
        return Recording.from_json(self._redacted.everywhere(recording.to_json()))

    def _recorded(self) -> Recording:
        tree = self._tree
        return Recording(
            ir_hash="" if tree is None else pipeline_hash(tree),
            pipeline="" if tree is None else tree.name,
            runs=tuple(self._runs),
            steps=tuple(self._steps),
            llm_interactions=tuple(call.whole() for call in self._asked),
            tool_interactions=tuple(call.whole() for call in self._used),
            ends=tuple(self._ends),
            choices=tuple(race.whole() for race in self._races),
            spans=tuple(self._redacted(self._spans.found(content=self._content))),
            places={} if tree is None else dict(_places(tree, tree.name)),
            versions={
                "adk-fluent": __version__,
                "google-adk": version("google-adk"),
                "python": sys.version.partition(" ")[0],
            },
            metadata=({"redact": self._secret} if self._secret else {}) | self._noted,
        )

    # --- what it sees -----------------------------------------------------------------------------

    async def on_user_message(self, ctx: Context, message: Content) -> None:
        """The start of a run."""
        run = self._run(ctx)
        run.prompt = self._words(plain(message))

    async def before_run(self, ctx: Context) -> None:
        """The state at its start."""
        run, placed = self._run(ctx), cast(Placed, ctx)
        run.index, run.recorder, run.held = len(self._runs), self, ctx.state.to_dict()
        if self._tree is None:
            self._tree = placed.tree
            self._noted = {"default_model": default_model()}
        self._runs.append(
            RecordedRun(
                prompt=run.prompt,
                session_id=ctx.session_id,
                user_id=ctx.user_id,
                state=self._known(run.held),
                invocation_id=ctx.invocation_id,
                streaming=ctx.streaming,
                live=ctx.live,
            )
        )
        self._spans.watch()

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        """What a run ended with, on an ADK that says so; on others `run_failed` is told."""
        self.failed(self._run(ctx).index, error)

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """An event as it leaves, and the state after it."""
        run = self._run(ctx)
        if event.is_partial or run.index < 0 or event.invocation_id != cast(Placed, ctx).run_id:
            return
        self._spans.note()
        step = Step(
            self._event(event), self._changed(run, ctx, event), False, run.index, next(self._seq), self._now()
        )
        self._places[event.id] = len(self._steps)
        self._steps.append(step)

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        """The end of an agent or step."""
        if came_to_its_end(ctx):
            branch, index = cast(Placed, ctx).branch, max(self._run(ctx).index, 0)
            self._ends.append(End(agent_name, branch, index, next(self._seq), self._now()))

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """A call of a model."""
        noted = NotedCall(self._question(ctx, request))
        self._asked.append(noted)
        with noted.going_on(self):
            async with aclosing(call(request)) as responses:
                async for response in responses:
                    noted.chunks.append(self.piece(response, noted.seconds))
                    yield response

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """A call of a tool."""
        native = cast(Any, ctx.native)
        before = plain(native.actions)
        noted = NotedCall(
            ToolInteraction(
                tool_name,
                ctx.agent_name,
                self._count(f"{ctx.agent_name}/{tool_name}"),
                native.function_call_id or "",
                self._words(plain(args)),
                branch=cast(Placed, ctx).branch,
                run=max(self._run(ctx).index, 0),
                started=next(self._seq),
                at=self._now(),
            )
        )
        self._used.append(noted)
        with noted.going_on(self):
            result = cast(object, await call(args))
            given: Any = plain(result)
            if not isinstance(result, dict) and isinstance(given, dict):  # ADK makes a dict of it, too
                given = {"result": cast("dict[str, Any]", given)}
            after = plain(native.actions)
            actions = {name: value for name, value in after.items() if value != before.get(name)}
            noted.noted = replace(noted.noted, result=self._words(given), actions=self._redacted(actions))
        return cast(Any, result)

    # --- what it notes ----------------------------------------------------------------------------

    def _question(self, ctx: Context, request: LlmRequest) -> LLMInteraction:
        asked = asked_of(ctx, request)
        key = ctx.agent_name if ctx.operation is None else f"{ctx.agent_name}:{ctx.operation}"
        return LLMInteraction(
            ctx.agent_name,
            self._count(key),
            ctx.operation,
            request.model,
            self._words(dict(asked.request)),
            tuple(self._redacted(list(asked.prompt))) if self._content else (),
            self._known(asked.state or {}) if self._state else None,
            branch=cast(Placed, ctx).branch,
            run=max(self._run(ctx).index, 0),
            started=next(self._seq),
            at=self._now(),
        )

    def _event(self, event: AgentEvent) -> AgentEvent:
        data = event.to_dict()
        if not self._content:
            data.update(content=None, parts=[], tool_calls=[], tool_responses=[])
        if not self._state:
            data.update(state_delta={})
        return event_from(self._redacted(data))

    def _changed(self, run: NotedRun, ctx: Context, event: AgentEvent) -> Mapping[str, Any]:
        if not self._state:
            return {}
        state = ctx.state.to_dict() | event.state_delta
        held, run.held = run.held, state
        changed = {key: value for key, value in state.items() if key not in held or held[key] != value}
        changed |= dict.fromkeys(held.keys() - state.keys())
        return self._redacted(plain_state(changed)) if changed else {}

    def _known(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {key: value for key, value in state.items() if value is not None}
        return self._redacted(plain_state(kept)) if self._state else {}

    def _words(self, value: Any) -> Any:
        return self._redacted(value) if self._content else type(value)()

    def _count(self, key: str) -> int:
        self._calls[key] += 1
        return self._calls[key]

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 6)

    def remote(self, index: int, agent: str, request: LlmRequest, branch: str | None) -> NotedRemote:
        """Note a call of a remote agent, as one of a model whose name is the endpoint."""
        asked = LLMInteraction(
            agent,
            self._count(agent),
            model=request.model,
            request=self._words(request_json(request)),
            branch=branch,
            run=max(index, 0),
            started=next(self._seq),
            at=self._now(),
        )
        noted = NotedCall(asked)
        self._asked.append(noted)
        return NotedRemote(self, noted)

    def piece(self, response: LlmResponse, at: float) -> Chunk:
        """A piece of an answer."""
        return Chunk(self._words(plain(response)), at, self.next())

    def failed(self, index: int, error: BaseException) -> None:
        """Note what a run ended with."""
        if 0 <= index < len(self._runs):
            self._runs[index] = replace(self._runs[index], error=self.failure(error))

    def begins(self, race: NotedRace) -> NotedRace:
        """Note that a race begins."""
        self._races.append(race)
        return race

    def lost(self, event: str, is_lost: bool) -> None:
        """Note whether an event counts: whether the run gives it."""
        if (place := self._places.get(event)) is not None:
            self._steps[place] = replace(self._steps[place], lost=is_lost)

    def failure(self, error: BaseException) -> Failure:
        """What is noted of an error."""
        root = root_of(error) if isinstance(error, Exception) else error
        return Failure(type(root).__name__, self._redacted(" ".join(str(root).split())), status_of(root))

    def next(self) -> int:
        """The next place among everything that is recorded."""
        return next(self._seq)


def came_to_its_end(ctx: Context) -> bool:
    """Whether a step of the tree that runs has ended; not of an agent inside a tool, nor one given up.

    Newer ADKs call `after_agent` for those that are cancelled as well, such as the loser of a race.
    """
    placed, task = cast(Placed, ctx), asyncio.current_task()
    given_up = task is not None and task.cancelling() > 0
    return ctx.invocation_id == placed.run_id and not is_in_tool(placed.branch) and not given_up


def asked_of(ctx: Context, request: LlmRequest) -> Asked:
    """A request, with the templates and the values of the state that it was made of."""
    node = cast(Placed, ctx).node
    if node is None or ctx.operation is not None:
        return Asked(request_json(request))
    state = ctx.state
    read = {key: value for key in sorted(node.reads_keys) if (value := state.get(key)) is not None}
    return Asked(request_json(request), tuple(getattr(node, "templates", ())), plain_state(read))


def default_model() -> str:
    """The model that the installed ADK asks where an agent names none."""
    from adk_fluent.backends.adk.steps.tree import DEFAULT_MODEL

    return DEFAULT_MODEL


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and values as JSON, absent ones included."""
    return {key: plain(value) for key, value in state.items()}


def _places(node: Node, path: str) -> Iterator[tuple[str, str]]:
    yield node.name, path
    for number, child in enumerate(node.children):
        yield from _places(child, f"{path}[{number}].{child.name}")
