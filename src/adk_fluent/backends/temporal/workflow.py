"""The workflow of a run, and the one that looks after a stored session."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final, cast

from pydantic_core import to_json
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TimeoutError,
    is_cancelled_exception,
)

from adk_fluent.backends.adk.compat.ids import deterministic
from adk_fluent.backends.adk.durable.failures import raised, told_of
from adk_fluent.backends.adk.durable.pieces import Pieces
from adk_fluent.backends.adk.durable.sessions import HeldSession
from adk_fluent.backends.adk.durable.steps import Json, Step, jsonable, use
from adk_fluent.backends.adk.durable.values import event_json, prompt_of
from adk_fluent.backends.adk.running.backend import ADKBackend, Compiled
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.temporal.policy import StepPolicy, config_of
from adk_fluent.backends.temporal.sizes import PAGE, check_history, check_size, pages, whole
from adk_fluent.errors import ADKFluentError, EngineError, RunError
from adk_fluent.ir.base import Node

READER: Final = timedelta(seconds=10)
"""How long a streamed run waits for its reader before it goes on alone."""

_STOPPED: Final = "The run was stopped from outside, before it ended."

_SMALLER: Final = "Keep files as artifacts, and the conversation short: .reads(...), .context(...)."

_SESSIONS: Final = timedelta(seconds=30)


@dataclass(frozen=True)
class Asked:
    """What a run is asked for.

    Attributes:
        config: its configuration, as JSON.
        policy: how its steps are done.
        prompt: what the user says, ADK's `Content` as JSON.
        streaming: whether pieces of answers are wanted, and somebody reads along.
        patience: seconds within which workers of its segments must take them up.
    """

    config: dict[str, Any]
    policy: dict[str, Any]
    user_id: str
    session_id: str
    prompt: dict[str, Any]
    state: dict[str, Any]
    streaming: bool
    patience: float = 10.0


@dataclass(frozen=True)
class Page:
    """What a reader gets.

    Attributes:
        events: ADK events as JSON, in order.
        status: of the run, once all of its events are read: `running`, `waiting`, `done` or `failed`.
        state: the state of the session, when it does not run.
        error: what ended a run that `failed`.
    """

    events: list[str]
    status: str = "running"
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None


class TemporalEngine:
    """Does steps as activities of the workflow at hand."""

    def __init__(self, policy: StepPolicy, patience: float) -> None:
        self.policy: StepPolicy = policy
        self._patience = patience
        self._answers: dict[str, Pieces] = {}
        self._children: dict[str, list[list[Json]]] = {}
        self._calls = 0

    async def do(self, step: Step) -> Json:
        """What the step gives, from the activity, or from the history."""
        return await self._begun(step, "")

    async def stream(self, step: Step) -> AsyncGenerator[Json, None]:
        """The pieces as the activity signals them, then what it gives."""
        self._calls += 1
        call = str(self._calls)
        answer = self._answers[call] = Pieces()
        task = asyncio.ensure_future(self._begun(step, call))
        try:
            while answer.waiting or not task.done():
                await workflow.wait_condition(lambda: bool(answer.waiting) or task.done())
                for piece in answer.take():
                    yield piece
            yield await task
        finally:
            del self._answers[call]
            task.cancel()

    async def child(
        self, name: str, asked: dict[str, Json], queue: str, what: str
    ) -> AsyncGenerator[Json, None]:
        """What a child workflow on another queue tells, then what it gives.

        Args:
            what: what it is, for messages.

        Raises:
            EngineError: none did.
        """
        seconds = self._patience
        asked = {**asked, "policy": asdict(self.policy), "patience": seconds}
        self._calls += 1
        call = f"{workflow.info().workflow_id}/{self._calls}"
        told = self._children[call] = []
        handle = await workflow.start_child_workflow(
            name,
            asked,
            id=call,
            task_queue=queue,
            task_timeout=workflow.info().task_timeout,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        )
        try:
            try:
                await workflow.wait_condition(
                    lambda: bool(told) or handle.done(), timeout=timedelta(seconds=seconds)
                )
            except builtins.TimeoutError:
                raise EngineError(
                    f"No worker took up the {what} within {seconds:g} s: none listens on the task queue "
                    f"{queue!r}. Start one (adk-fluent worker TARGET --segment NAME)."
                ) from None
            while told or not handle.done():
                await workflow.wait_condition(lambda: bool(told) or handle.done())
                while told:
                    for piece in told.pop(0):
                        yield piece
            try:
                yield await handle
            except ChildWorkflowError as error:
                cause = error.cause
                if is_cancelled_exception(error):
                    raise asyncio.CancelledError from None
                if isinstance(cause, ApplicationError) and cause.details:
                    raise raised(cast("Mapping[str, Json]", cause.details[0])) from None
                raise
        finally:
            del self._children[call]
            if not handle.done():
                handle.cancel()

    def told(self, call: str, pieces: list[Json]) -> None:
        """Take what a child workflow tells; the first time, that it has begun."""
        if call in self._children:
            self._children[call].append(pieces)

    def heard(self, call: str, attempt: int, pieces: list[Json]) -> None:
        """Take pieces of an answer."""
        if call in self._answers:
            self._answers[call].hear(attempt, pieces)

    async def _begun(self, step: Step, call: str) -> Json:
        info = workflow.info()
        check_history(info.get_current_history_length(), info.get_current_history_size())
        told = {"kind": step.kind, "key": step.key, "agent": step.agent, "data": dict(step.data)}
        check_size(told, f"What the {step.kind} {step.key!r} is given", _SMALLER)
        return await self._done(
            step,
            workflow.execute_activity(
                step.kind,
                args=[told, call],
                start_to_close_timeout=timedelta(seconds=self.policy.timeout),
                heartbeat_timeout=timedelta(seconds=self.policy.heartbeat),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(milliseconds=100), maximum_attempts=self.policy.attempts
                ),
                summary=step.key,
            ),
        )

    async def _done(self, step: Step, activity: Any) -> Json:
        try:
            return await activity
        except ActivityError as error:
            cause = error.cause
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from None  # which nobody takes for a failure of the step
            if isinstance(cause, ApplicationError) and cause.details:
                raise raised(cast("Mapping[str, Json]", cause.details[0])) from None
            if isinstance(cause, TimeoutError):
                policy = self.policy
                raise RunError(
                    f"{step.agent!r}: its {step.kind} {step.key!r} was begun {policy.attempts} times and "
                    f"never ended: each time its worker died, or took longer than {policy.timeout:g} s. See "
                    "the worker's log, or give StepPolicy(timeout=, attempts=)."
                ) from None
            raise


@dataclass(frozen=True)
class Served:
    """What the workers of a task queue run."""

    node: Node
    backend: ADKBackend


_served: dict[str, Served] = {}


def serve(queue: str, node: Node, backend: ADKBackend) -> None:
    """Let this process run the workflows of a task queue; they find the expression by its name."""
    _served[queue] = Served(node, backend)


@workflow.defn(name="adk_fluent.run", sandboxed=False, failure_exception_types=[Exception])
class Run:
    """One run, from a prompt to its end; it waits for people as long as they take."""

    def __init__(self) -> None:
        self._engine: TemporalEngine | None = None
        self._backend: ADKBackend
        self._events: list[str] = []
        self._read = 0
        self._status = "running"
        self._error: Json = None
        self._held: HeldSession | None = None
        self._answers: list[dict[str, Any]] = []

    @workflow.run
    async def run(self, asked: Asked) -> str:
        """Run to the end."""
        whose = {"user_id": asked.user_id, "session_id": asked.session_id}
        try:
            await self._turns(asked, whose)
        except Exception as error:
            if not isinstance(error, ADKFluentError):
                workflow.logger.info("A run failed: %s", error)
            await self._end("failed", told_of(error))
            raise ApplicationError(str(error), told_of(error), type=type(error).__name__) from error
        except asyncio.CancelledError:
            if _is_stopped():
                await self._end("failed", told_of(RunError(_STOPPED)))
            raise
        await self._end("done", None)
        return self._status

    async def _end(self, status: str, error: Json) -> None:
        self._status, self._error = status, error
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _turns(self, asked: Asked, whose: dict[str, str]) -> None:
        served = _served[workflow.info().task_queue]
        backend = self._backend = served.backend
        self._engine = _engine_of(StepPolicy(**asked.policy), asked.patience)
        compiled = backend.compile(served.node, config_of(asked.config))
        session = {"app_name": compiled.config.app_name, **whose}
        opened = await _sessions({"do": "open", **session, "state": asked.state})

        async def following(first: int) -> list[Json]:
            return await _sessions({"do": "events", **session, "first": first})

        self._held = HeldSession({**opened, "session": await whole(opened, following)})
        given = {"session_service": self._held}
        await self._turn(
            backend.stream(
                compiled,
                prompt_of(asked.prompt),
                **whose,
                state=asked.state,
                services=given,
                streaming=asked.streaming,
            ),
            asked,
            session,
        )
        while await self._waits(compiled, whose, given):
            self._status = "waiting"
            await workflow.wait_condition(lambda: bool(self._answers))
            self._status = "running"
            await self._turn(
                backend.resume(compiled, approvals=self._answers.pop(0), services=given, **whose),
                asked,
                session,
            )

    async def _turn(
        self, events: AsyncGenerator[AgentEvent, None], asked: Asked, session: dict[str, str]
    ) -> None:
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    self._events.append(event_json(event))
                    if asked.streaming and not event.is_partial:
                        await self._passed_on()
        except Exception:
            await self._saved(session)
            raise
        except asyncio.CancelledError:
            if _is_stopped():
                await self._saved(session)
            raise
        assert self._held is not None
        check_size(jsonable(self._held.state, "the state", "the run"), "The state of the session", _SMALLER)
        await self._saved(session)

    async def _saved(self, session: dict[str, str]) -> None:
        assert self._held is not None
        for events in pages(self._held.unsaved()):
            await _sessions({"do": "save", **session, "events": events})

    async def _passed_on(self) -> None:
        """Wait until the reader has come back for more, so that who stops reading stops the run."""
        count = len(self._events)
        with suppress(builtins.TimeoutError):
            await workflow.wait_condition(lambda: self._read >= count, timeout=READER)

    async def _waits(self, compiled: Compiled, whose: dict[str, str], services: dict[str, Any]) -> bool:
        if compiled.app.resumability_config is None:
            return False
        found = await self._backend.session(compiled, services=services, **whose)
        return bool(found.waiting)

    @workflow.update
    async def read(self, cursor: int, whole: bool) -> Page:
        """The events from a place on, as soon as there are any, or when the run has come to its end."""
        self._read = max(self._read, cursor)
        await workflow.wait_condition(
            lambda: self._status != "running" or (not whole and len(self._events) > cursor)
        )
        return self._page(cursor)

    @workflow.query
    def page(self, cursor: int) -> Page:
        """The same without waiting, also when the workflow is closed."""
        return self._page(cursor)

    def _page(self, cursor: int) -> Page:
        page, size = list[str](), 0
        for event in self._events[cursor:]:
            size += len(event)
            if page and size > PAGE:
                return Page(page)
            page.append(event)
        if self._status == "running":
            return Page(page)
        state: dict[str, Any] = jsonable(self._held.state, "the state", "the run") if self._held else {}
        if page and size + len(to_json(state)) > PAGE:
            return Page(page)
        return Page(page, self._status, state, self._error)

    @workflow.update
    async def approve(self, approvals: dict[str, Any]) -> int:
        """Answer what the run waits for; the number of events until then."""
        await workflow.wait_condition(lambda: self._status != "running")
        self._status = "running"
        self._answers.append(approvals)
        return len(self._events)

    @workflow.signal
    def pieces(self, call: str, attempt: int, pieces: list[Json]) -> None:
        """Take pieces of an answer, from the activity that asks the model."""
        if self._engine is not None:
            self._engine.heard(call, attempt, pieces)

    @workflow.signal
    def told(self, call: str, pieces: list[Json]) -> None:
        """Take what a child workflow tells."""
        if self._engine is not None:
            self._engine.told(call, pieces)

    @workflow.query
    def progress(self) -> dict[str, Any]:
        """How far the run is: its status, and how many events there are."""
        return {"status": self._status, "events": len(self._events)}


Segment = Callable[[dict[str, Any]], AsyncGenerator[Json, None]]
"""Runs a segment of a pipeline with what crossed into it, and gives what crosses back, piece by piece."""

_segments: dict[str, Segment] = {}


def serve_segment(queue: str, segment: Segment) -> None:
    """Let this process run the workflows of a segment's task queue."""
    _segments[queue] = segment


@workflow.defn(name="adk_fluent.segment", sandboxed=False, failure_exception_types=[Exception])
class SegmentRun:
    """A segment of a run, for the workflow that runs what is around it."""

    def __init__(self) -> None:
        self._engine: TemporalEngine | None = None

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> list[Json]:
        """Run to the end, or until somebody must be asked; what crosses back."""
        info = workflow.info()
        assert info.parent is not None
        parent = workflow.get_external_workflow_handle(info.parent.workflow_id, run_id=info.parent.run_id)
        self._engine = _engine_of(StepPolicy(**asked["policy"]), asked["patience"])
        await parent.signal("told", args=[info.workflow_id, []])
        gathered: list[Json] = []
        try:
            async with aclosing(_segments[info.task_queue](asked)) as back:
                async for piece in back:
                    if asked["streaming"]:
                        await parent.signal("told", args=[info.workflow_id, [piece]])
                    else:
                        gathered.append(piece)
        except Exception as error:
            raise ApplicationError(str(error), told_of(error), type=type(error).__name__) from error
        return gathered

    @workflow.signal
    def pieces(self, call: str, attempt: int, pieces: list[Json]) -> None:
        """Take pieces of an answer, from the activity that asks the model."""
        if self._engine is not None:
            self._engine.heard(call, attempt, pieces)


def _is_stopped() -> bool:
    """Whether somebody has cancelled the workflow at hand, which a worker has not only forgotten."""
    return workflow.cancellation_reason() is not None


def _engine_of(policy: StepPolicy, patience: float) -> TemporalEngine:
    """An engine that does the steps of the workflow at hand."""
    engine = TemporalEngine(policy, patience)
    use(engine)
    deterministic(lambda: workflow.now().timestamp(), lambda: str(workflow.uuid4()), workflow.random)
    return engine


@workflow.defn(name="adk_fluent.session", sandboxed=False, failure_exception_types=[Exception])
class SessionWorkflow:
    """Looks after a stored session: reads, rewinds or deletes it."""

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> Any:
        """Do it."""
        try:
            return await _sessions(asked)
        except ADKFluentError as error:
            raise ApplicationError(str(error), told_of(error), type=type(error).__name__) from error


async def _sessions(asked: dict[str, Any]) -> Json:
    """What the worker's session service gives."""
    try:
        return await workflow.execute_local_activity(
            "session",
            asked,
            start_to_close_timeout=_SESSIONS,
            retry_policy=RetryPolicy(maximum_attempts=5),
        )
    except ActivityError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.details:
            raise raised(cast("Mapping[str, Json]", cause.details[0])) from None
        raise
