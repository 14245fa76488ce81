"""Reading along in a run."""

from __future__ import annotations

import asyncio
import builtins
import re
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent._tasks import is_cancelled
from adk_fluent.backends.adk.durable.failures import raise_again
from adk_fluent.backends.temporal.engine import Difference
from adk_fluent.backends.temporal.messages import Page
from adk_fluent.errors import EngineError, RunError, sentence, what_happened

PATIENCE: Final = 60
"""How often, a second apart, a server that does not answer is asked again."""

LOOK: Final = 10.0
"""Seconds after which who waits for events looks whether the run can go on at all."""

_GONE: Final = RPCStatusCode.NOT_FOUND
STUMBLED: Final = "failed state"
"""What the server says of a run over which its last worker stumbled."""
_DECIDED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
_FAILED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
_BLOCKED: Final = "TMPRL1101"
"""What Temporal calls it when a run does not come to an end of its deciding."""
_FRAME: Final = re.compile(r'File "[^"]*?([^"/\\]+)", line (\d+), in (\S+)')
_OURS: Final = str(Path("adk_fluent", "backends"))
T = TypeVar("T")
AWAY: Final = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN)


class OtherVersion(EngineError):
    """A run that only workers with other code can go on with; it is left as it is."""


class Following:
    """The events of a run, page by page.

    Args:
        client: who is connected to the server.
        name: the id of its workflow.
        reads_along: whether events are wanted as they happen.

    Attributes:
        name: the id of its workflow.
        page: the last page.
    """

    def __init__(self, client: Client, name: str, reads_along: bool) -> None:
        self.name: str = name
        self._handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(name)
        self._client, self._whole = client, not reads_along
        self.page: Page = Page([])

    async def events(
        self, cursor: int, first: WorkflowUpdateHandle[Page] | None
    ) -> AsyncGenerator[str, None]:
        """The events from a place on, to the end of the run or until it waits.

        Who stops reading before cancels the run.

        Args:
            first: the first page, where it is on its way.
        """
        ended = False
        try:
            while not ended:
                self.page = await self._next(cursor, first)
                first, ended = None, self.page.status not in ("running", "continued")
                for event in self.page.events:
                    cursor += 1
                    yield event
        except (EngineError, RunError):
            ended = True
            raise
        finally:
            if not ended:
                await stopped(self._handle, gently=True)
        if self.page.error is not None:
            raise_again(self.page.error)

    async def _next(self, cursor: int, asked: WorkflowUpdateHandle[Page] | None) -> Page:
        for _ in range(PATIENCE):
            try:
                if asked is None:
                    asked = await cast(Any, self._handle).start_update(
                        "read",
                        args=[cursor, self._whole],
                        wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                        result_type=Page,
                    )
                assert asked is not None
                return await self._found(await unless_stuck(self._handle, asked.result()), cursor)
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                if is_cancelled():
                    raise asyncio.CancelledError from error
                asked = None
            except WorkflowUpdateFailedError:
                return await self._closed(cursor)
            except RPCError as error:
                if error.status == _GONE:
                    return await self._closed(cursor)
                if error.status not in AWAY and STUMBLED not in str(error):
                    why = sentence(what_happened(error))
                    raise EngineError(f"The Temporal server refused: {why}") from error
                await (decided(self._handle) if STUMBLED in str(error) else asyncio.sleep(1))
        raise EngineError(
            f"The Temporal server has not answered for {PATIENCE} s; the run {self._handle.id!r} goes on "
            "when it does. Ask for its session later."
        )

    async def _closed(self, cursor: int) -> Page:
        """The rest of a run whose workflow is closed."""
        try:
            await self._handle.result()
        except WorkflowFailureError as error:
            if not isinstance(error.cause, ApplicationError):
                raise_failure(error, f"run {self._handle.id!r}")
        return await self._found(await self._handle.query("page", cursor, result_type=Page), cursor)

    async def _found(self, page: Page, cursor: int) -> Page:
        """A page, from the history that it says."""
        if page.history is None:
            return page
        earlier = self._client.get_workflow_handle(self._handle.id, run_id=page.history)
        return await earlier.query("page", cursor, result_type=Page)


async def decided(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until a worker has decided something in a run over which the last one stumbled.

    Raises:
        EngineError: none did in time.
    """
    seen = (await handle.describe()).history_length

    async def next_decision() -> None:
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.event_id > seen and event.event_type == _DECIDED:
                return

    with suppress(builtins.TimeoutError):
        async with asyncio.timeout(PATIENCE):
            return await unless_stuck(handle, next_decision())
    raise EngineError(
        f"No worker could go on with the run {handle.id!r}; the log of the workers says why. It goes on when "
        "one can."
    )


async def unless_stuck(handle: WorkflowHandle[Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """What some work gives that waits for a run.

    Raises:
        EngineError: no worker can go on with the run, which is stopped.
    """
    waiting = asyncio.ensure_future(work)
    was_stuck = False
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK))[0]:
            why = await stuck(handle)
            if isinstance(why, OtherVersion):
                raise why
            if why is not None and was_stuck:  # not only for a moment
                await stopped(handle)
                raise why
            was_stuck = why is not None
        return await waiting
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def stuck(handle: WorkflowHandle[Any, Any]) -> EngineError | None:
    """Why no worker can decide how a run goes on, if one has just tried in vain."""
    failure = None
    with suppress(RPCError):
        described = await handle.describe()
        if described.raw_description.pending_workflow_task.attempt > 1:
            async for event in handle.fetch_history_events():
                if event.event_type in (_DECIDED, _FAILED):
                    failure = event.workflow_task_failed_event_attributes.failure
    if failure is None or not failure.message:
        return None
    if failure.application_failure_info.type == Difference.__name__:
        return OtherVersion(failure.message)
    if _BLOCKED not in failure.message:
        return EngineError(
            f"The run {handle.id!r} cannot go on: workers fail to decide what comes next: "
            f"{failure.message.splitlines()[0]} The log of the workers says more. The run was stopped."
        )
    theirs, _, _ = failure.stack_trace.partition(_OURS)  # what runs was called by it, and stands before it
    frames = _FRAME.findall(theirs)
    where = "{2!r} ({0}, line {1})".format(*frames[-1]) if frames else "something"
    return EngineError(
        f"The run {handle.id!r} cannot go on: {where} blocks for seconds where the run is decided, and the "
        "worker gives up on that. Predicates and hooks of middleware only look at what there is: let a step "
        "of its own do what takes long, and the predicate look at what it wrote. The run was stopped."
    )


async def stopped(handle: WorkflowHandle[Any, Any], *, gently: bool = False) -> None:
    """Stop a run, if it is there."""
    with suppress(RPCError):
        await asyncio.shield(
            handle.cancel() if gently else handle.terminate(reason="Its caller waits no more.")
        )


def raise_failure(error: WorkflowFailureError, what: str, given: str = ": run_timeout=") -> NoReturn:
    """Raise what a workflow failed with.

    Raises:
        RunError: it was stopped from outside, or took too long; or what the run itself raised.
    """
    match error.cause:
        case ApplicationError(details=[told, *_]):
            raise_again(cast("Mapping[str, Any]", told))
        case CancelledError() | TerminatedError():
            raise RunError(f"The {what} was stopped from outside, before it ended.") from error
        case TimeoutError():
            raise RunError(f"The {what} took longer than it may. Give it more time{given}.") from error
        case cause:
            raise RunError(f"The {what} failed: {what_happened(cause)}") from error


def raise_refusal(error: WorkflowUpdateFailedError) -> NoReturn:
    """Raise why a run took no answers.

    Raises:
        ADKFluentError: it does not wait for them.
        EngineError: it ended before it could look at them.
    """
    match error.cause:
        case ApplicationError(details=[told, *_]):
            raise_again(cast("Mapping[str, Any]", told))
        case cause:
            raise EngineError(f"The run took no answers: {what_happened(cause)}") from error
