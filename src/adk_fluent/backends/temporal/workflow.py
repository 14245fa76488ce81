"""The workflow of a run, and the one that looks after a stored session."""

from __future__ import annotations

import asyncio
import builtins
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Any, Final, cast

from pydantic_core import to_json
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from adk_fluent._tracebacks import in_logs
from adk_fluent.backends.adk.api import ADKBackend, Compiled
from adk_fluent.backends.adk.durable.failures import raise_again, told_of
from adk_fluent.backends.adk.durable.sessions import HeldSession
from adk_fluent.backends.adk.durable.steps import Json, jsonable, state_json
from adk_fluent.backends.adk.durable.values import check_approvals, event_json, prompt_of
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.temporal.anew import Anew
from adk_fluent.backends.temporal.engine import TemporalEngine, engine_of
from adk_fluent.backends.temporal.messages import READER, Asked, Before, Page
from adk_fluent.backends.temporal.policy import StepPolicy, config_of
from adk_fluent.backends.temporal.sizes import LARGEST, PAGE, SMALLER, check_size, pages, whole
from adk_fluent.errors import ADKFluentError, RunError
from adk_fluent.ir.base import Node

WAITING: Final = "waiting"
"""The note that a run waits for a person, in what the server lists of it."""

_STOPPED: Final = "The run was stopped from outside, before it ended."

_FORGOTTEN: Final = (
    "Session {!r} is not there any more, and its run was to go on in it. Somebody deleted it, or the workers "
    "keep sessions in different places: give all of them the same session_service."
)

_SESSIONS: Final = timedelta(seconds=30)


@dataclass(frozen=True)
class Served:
    """What the workers of a task queue run."""

    node: Node
    backend: ADKBackend


_served: dict[str, Served] = {}
_workers: Counter[str] = Counter()
"""How many workers of this process work on a task queue."""
_lock: Final = Lock()


def serve(queue: str, node: Node, backend: ADKBackend) -> None:
    """Let this process run the workflows of a task queue; they find the expression by its name."""
    with _lock:
        _served[queue] = Served(node, backend)
        _workers[queue] += 1


def leave(queue: str) -> None:
    """Forget the expression of a task queue when the last worker of this process on it has ended."""
    with _lock:
        if queue not in _workers:  # on it only work that is the same for all expressions
            return
        _workers[queue] -= 1
        if not _workers[queue]:
            del _workers[queue]
            _served.pop(queue, None)
            _segments.pop(queue, None)


@workflow.defn(name="adk_fluent.run", sandboxed=False, failure_exception_types=[ADKFluentError])
class Run:
    """One run, from a prompt to its end; it waits for people as long as they take."""

    @workflow.init
    def __init__(self, asked: Asked) -> None:
        self._before = asked.before
        self._first = 0 if asked.before is None else asked.before.events
        self._engine: TemporalEngine | None = None
        self._backend: ADKBackend
        self._anew: Anew
        self._events: list[str] = []
        self._read = 0
        self._reads_along = True
        self._status = "running"
        self._error: Json = None
        self._held: HeldSession | None = None
        self._run_id = "" if asked.before is None else asked.before.run
        self._answers: list[dict[str, Any]] = []

    @workflow.run
    async def run(self, asked: Asked) -> str:
        """Run to the end."""
        whose = {"user_id": asked.user_id, "session_id": asked.session_id}
        try:
            before = await self._turns(asked, whose)
        except Exception as error:
            if not isinstance(error, ADKFluentError):
                workflow.logger.info("A run failed: %s", in_logs(error))
            await self._end("failed", told_of(error))
            raise ApplicationError(str(error), told_of(error), type=type(error).__name__) from error
        except asyncio.CancelledError:
            if self._engine is not None and self._engine.difference is not None:
                raise self._engine.difference from None
            if _is_stopped():
                await self._end("failed", told_of(RunError(_STOPPED)))
            raise
        if before is not None:
            await self._end("continued", None)
            workflow.continue_as_new(replace(asked, before=before))
        await self._end("done", None)
        return self._status

    async def _end(self, status: str, error: Json) -> None:
        self._status, self._error = status, error
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _turns(self, asked: Asked, whose: dict[str, str]) -> Before | None:
        """Do turn after turn; what is left to a new history, unless the run ends in this one."""
        served, before = _served[workflow.info().task_queue], asked.before
        backend = self._backend = served.backend
        self._engine = engine_of(StepPolicy(**asked.policy), asked.patience)
        self._anew = Anew(served.node, config_of(asked.config), before)
        compiled = self._anew.watching(backend.compile(served.node, self._anew.config))
        session = {"app_name": compiled.config.app_name, **whose}
        opened = await _sessions({"do": "open", **session, "state": asked.state})

        async def following(first: int) -> list[Json]:
            return await _sessions({"do": "events", **session, "first": first})

        stored = await whole(opened, following)
        self._anew.opened(stored, stays=opened.get("stays", False))
        going_on = {} if before is None else before.temporary
        self._held = HeldSession({**opened, "session": stored}, going_on, thins=self._anew.hides)
        given = {"session_service": self._held}
        if before is None:
            prompt, streaming = prompt_of(asked.prompt), asked.streaming
            turn = backend.stream(
                compiled, prompt, **whose, state=asked.state, services=given, streaming=streaming
            )
        else:
            if opened["new"]:
                raise RunError(_FORGOTTEN.format(asked.session_id))
            run, streaming = before.run, asked.streaming
            turn = backend.go_on(compiled, invocation_id=run, **whose, services=given, streaming=streaming)
        left = await self._turn(turn, asked, session)
        while left is None and await self._waits(compiled, whose, given):
            self._status = "waiting"
            workflow.upsert_memo({WAITING: True})
            await workflow.wait_condition(lambda: bool(self._answers))
            self._status = "running"
            workflow.upsert_memo({WAITING: None})
            turn = backend.resume(compiled, approvals=self._answers.pop(0), services=given, **whose)
            left = await self._turn(turn, asked, session)
        return left

    async def _turn(
        self, events: AsyncGenerator[AgentEvent, None], asked: Asked, session: dict[str, str]
    ) -> Before | None:
        left: Before | None = None
        engine, held = self._engine, self._held
        assert engine is not None
        assert held is not None
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    self._run_id = self._run_id or event.invocation_id
                    if not self._anew.hidden(event, held):
                        self._events.append(event_json(event))
                        if asked.streaming and not event.is_partial:
                            await self._passed_on()
                    if self._anew.begins_at(event, engine):
                        left = self._leaving(event)
                        break
        except Exception:
            await self._saved(session)
            raise
        except asyncio.CancelledError:
            if _is_stopped():
                await self._saved(session)
            raise
        check_size(jsonable(held.state, "the state", "the run"), "The state of the session", SMALLER)
        await self._saved(session, leaving=left is not None)
        if left is not None and _is_stopped():
            raise asyncio.CancelledError
        return left

    def _leaving(self, event: AgentEvent) -> Before:
        """What is left to the next history, of a run that is left at an event."""
        assert self._held is not None
        histories = {} if self._before is None else self._before.histories
        ended = {workflow.info().run_id: self._first + len(self._events)}
        temporary = state_json(self._held.temporary, "the run")
        return Before(event.invocation_id, temporary, self._anew.calls, {**histories, **ended})

    async def _saved(self, session: dict[str, str], *, leaving: bool = False) -> None:
        assert self._held is not None
        notes = leaving or not self._anew.hides  # they are wanted where the run goes on by what is stored
        for events in pages(self._held.unsaved(notes=notes)):
            await _sessions({"do": "save", **session, "events": events})

    async def _passed_on(self) -> None:
        """Wait until the reader has come back for more, so that who stops reading stops the run."""
        count = self._first + len(self._events)
        with suppress(builtins.TimeoutError):
            await workflow.wait_condition(
                lambda: self._read >= count or not self._reads_along, timeout=READER
            )

    async def _waits(self, compiled: Compiled, whose: dict[str, str], services: dict[str, Any]) -> bool:
        if compiled.app.resumability_config is None:
            return False
        found = await self._backend.session(compiled, services=services, **whose)
        return bool(found.waiting.get(self._run_id))  # what earlier runs of the session asked is not ours

    @workflow.update
    async def read(self, cursor: int, whole: bool) -> Page:
        """The events from a place on, as soon as there are any, or when the run has come to its end."""
        self._read, self._reads_along = max(self._read, cursor), not whole
        await workflow.wait_condition(
            lambda: (
                self._status != "running"
                or cursor < self._first
                or (not whole and self._first + len(self._events) > cursor)
            )
        )
        return self._page(cursor)

    @workflow.query
    def page(self, cursor: int) -> Page:
        """The same without waiting, also when the workflow is closed."""
        return self._page(cursor)

    def _page(self, cursor: int) -> Page:
        if self._before is not None and cursor < self._first:
            return Page([], history=self._before.history_of(cursor))
        page, size = list[str](), 0
        for event in self._events[cursor - self._first :]:
            size += len(event)
            if page and size > PAGE:
                return Page(page)
            page.append(event)
        if self._status in ("running", "continued"):
            return Page(page, self._status)
        state: dict[str, Any] = jsonable(self._held.state, "the state", "the run") if self._held else {}
        if page and size + len(to_json(state)) > PAGE:
            return Page(page)
        return Page(page, self._status, state, self._error)

    @workflow.update
    async def approve(self, approvals: dict[str, Any]) -> int:
        """Answer what the run waits for; the number of events until then, or -1 if it does not wait.

        Raises:
            ApplicationError: it waits for something else; another answer was first.
        """
        try:
            await workflow.wait_condition(lambda: self._status != "running", timeout=READER)
        except builtins.TimeoutError:
            return -1
        if self._status in ("waiting", "done"):
            assert self._held is not None
            try:
                check_approvals(self._held.session, approvals)
            except ADKFluentError as error:
                raise ApplicationError(str(error), told_of(error), type=type(error).__name__) from error
        if self._status == "waiting":
            self._status = "running"
            self._answers.append(approvals)
        elif self._status != "failed":  # who asks a run that failed reads why
            return -1
        return self._first + len(self._events)

    @workflow.signal
    def pieces(self, call: str, attempt: int, first: int, pieces: list[Json]) -> None:
        """Take pieces of an answer, from the activity that asks the model."""
        if self._engine is not None:
            self._engine.heard(call, attempt, first, pieces)

    @workflow.signal
    def told(self, call: str, pieces: list[Json]) -> None:
        """Take what a child workflow tells."""
        if self._engine is not None:
            self._engine.told(call, pieces)

    @workflow.query
    def progress(self) -> dict[str, Any]:
        """How far the run is: its status, and how many events it has given."""
        return {"status": self._status, "events": self._first + len(self._events)}


Segment = Callable[[dict[str, Any]], AsyncGenerator[Json, None]]
"""Runs a segment of a pipeline with what crossed into it, and gives what crosses back, piece by piece."""

_segments: dict[str, Segment] = {}


def serve_segment(queue: str, segment: Segment) -> None:
    """Let this process run the workflows of a segment's task queue."""
    with _lock:
        _segments[queue] = segment
        _workers[queue] += 1


@workflow.defn(name="adk_fluent.segment", sandboxed=False, failure_exception_types=[ADKFluentError])
class SegmentRun:
    """A segment of a run, for the workflow that runs what is around it."""

    def __init__(self) -> None:
        self._engine: TemporalEngine | None = None

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> list[Json]:
        """Run to the end, or until somebody must be asked; what crosses back."""
        info = workflow.info()
        self._engine = engine_of(StepPolicy(**asked["policy"]), asked["patience"])
        assert info.parent is not None
        parent = workflow.get_external_workflow_handle(info.parent.workflow_id, run_id=info.parent.run_id)
        if not asked.get("queued"):  # else nobody listens: the caller reads the result
            await parent.signal("told", args=[info.workflow_id, []])
        gathered: list[Json] = []
        try:
            async with aclosing(_segments[info.task_queue](asked)) as back:
                async for piece in back:
                    if asked["streaming"]:
                        await parent.signal("told", args=[info.workflow_id, [piece]])
                    else:
                        gathered.append(piece)
            check_size(gathered, "What the segment gives back", "Keep files as artifacts.")
        except Exception as error:
            kept = gathered if sum(map(len, gathered)) < LARGEST else []
            raise ApplicationError(str(error), told_of(error), kept, type=type(error).__name__) from error
        except asyncio.CancelledError:
            if self._engine.difference is not None:
                raise self._engine.difference from None
            raise
        return gathered

    @workflow.signal
    def pieces(self, call: str, attempt: int, first: int, pieces: list[Json]) -> None:
        """Take pieces of an answer, from the activity that asks the model."""
        if self._engine is not None:
            self._engine.heard(call, attempt, first, pieces)


def _is_stopped() -> bool:
    """Whether somebody has cancelled the workflow at hand, which a worker has not only forgotten."""
    return workflow.cancellation_reason() is not None


@workflow.defn(name="adk_fluent.session", sandboxed=False, failure_exception_types=[ADKFluentError])
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
            retry_policy=RetryPolicy(maximum_attempts=8, maximum_interval=timedelta(seconds=5)),
        )
    except ActivityError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.details:
            raise_again(cast("Mapping[str, Json]", cause.details[0]))
        raise
