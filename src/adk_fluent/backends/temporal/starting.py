"""Starting a run, or finding the one that is on its way; and what says exactly why neither can be done."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent._tasks import is_cancelled
from adk_fluent.backends.adk.api import Compiled
from adk_fluent.backends.temporal.following import (
    AWAY,
    PATIENCE,
    STUMBLED,
    OtherVersion,
    decided,
    stopped,
    stuck,
)
from adk_fluent.backends.temporal.messages import Asked, Page
from adk_fluent.errors import EngineError, SessionConflictError, sentence, what_happened
from adk_fluent.ir.base import Node
from adk_fluent.ir.codec import only_here

TASK: Final = timedelta(seconds=5)
"""How long a worker may take for one turn of the workflow before another one gets it."""

DESCRIBING: Final = timedelta(seconds=2)
"""How long a server may take to say what it knows of a run before it counts as away."""

RETURNING: Final = 20.0
"""Seconds more that workers have after a server was away: they ask it again every ten seconds."""

_LATE: Final = (RPCStatusCode.CANCELLED, *AWAY)
_STARTED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
_logger: Final = logging.getLogger("adk_fluent.durable")


@dataclass(frozen=True, slots=True)
class Durable:
    """What `TemporalBackend` runs.

    Attributes:
        node: the expression.
        native: the expression as ADK runs it.
        queue: the task queue of its workers.
        config: the configuration as JSON.
    """

    node: Node
    native: Compiled
    queue: str
    config: dict[str, Any]

    @property
    def app(self) -> str:
        """The name of ADK's app."""
        return self.native.config.app_name

    def run_id(self, user_id: str, session_id: str) -> str:
        """The workflow that runs in a session: one at a time."""
        return f"{self.app}/{user_id}/{session_id}"


class Starting:
    """Starts a run. A server that goes away is waited for; the run it may have begun is found again.

    Args:
        host: where the server is, for messages.
        worker_timeout: seconds within which a worker must take the run up, while the server answers.
        run_timeout: how long the run may take in all.
    """

    def __init__(
        self,
        client: Client,
        host: str,
        compiled: Durable,
        asked: Asked,
        worker_timeout: float,
        run_timeout: timedelta | None,
    ) -> None:
        self._client, self._host, self._compiled, self._asked = client, host, compiled, asked
        self._worker_timeout, self._run_timeout = worker_timeout, run_timeout
        self._id = compiled.run_id(asked.user_id, asked.session_id)
        self._handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(self._id)
        self._reading = str(uuid.uuid4())  # the server takes it once, however often it is told

    async def begun(self) -> WorkflowUpdateHandle[Page] | None:
        """The first page of the run, which is on its way; `None` if it ended before it was asked.

        Raises:
            EngineError: no worker took the run up in time, or the server stayed away.
            SessionConflictError: a run of another prompt is on its way in the session.
        """
        try:
            return await self._begun()
        except asyncio.CancelledError:
            await stopped(self._handle)
            raise

    async def _begun(self) -> WorkflowUpdateHandle[Page] | None:
        left, away, is_there = self._worker_timeout, float(PATIENCE), False
        while True:
            since = time.monotonic()
            try:
                within = timedelta(seconds=min(left, max(self._worker_timeout / 4, 1.0)))
                return await (self._joined(within) if is_there else self._started(within))
            except _LateError as late:
                known = await self._known()
                spent = time.monotonic() - since
                if known is None:
                    _logger.warning("The Temporal server at %s does not answer. Waiting for it.", self._host)
                    away -= max(spent, 1.0)
                    left = self._worker_timeout + RETURNING
                    if away <= 0:
                        raise EngineError(
                            f"The Temporal server at {self._host} has not answered for {PATIENCE} s. If it "
                            f"has begun the run {self._id!r}, that goes on: run the same prompt in the same "
                            "session again to find it."
                        ) from late
                    await asyncio.sleep(max(1.0 - spent, 0))
                    continue
                is_there, left = known, left - spent
                if left <= 0:
                    raise await self._no_worker() from late

    async def _started(self, within: timedelta) -> WorkflowUpdateHandle[Page] | None:
        """Start the run, or join one of the same prompt."""
        start = WithStartWorkflowOperation[Any, Any](
            "adk_fluent.run",
            self._asked,
            id=self._id,
            task_queue=self._compiled.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            task_timeout=TASK,
            execution_timeout=self._run_timeout,
            memo={"prompt": _told(self._asked)},
        )
        try:
            return await cast(Any, self._client).start_update_with_start_workflow(
                "read",
                args=[0, not self._asked.streaming],
                id=self._reading,
                start_workflow_operation=start,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                rpc_timeout=within,
                result_type=Page,
            )
        except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCError) as error:
            await _settled(start)
            return await self._late(error)
        except WorkflowAlreadyStartedError as error:
            await _settled(start)
            await self._check_same(error)
            return await self._joined(within)

    async def _joined(self, within: timedelta) -> WorkflowUpdateHandle[Page] | None:
        """The first page of a run that has begun; `None` if it ended before it was asked."""
        try:
            return await cast(Any, self._handle).start_update(
                "read",
                args=[0, not self._asked.streaming],
                id=self._reading,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                rpc_timeout=within,
                result_type=Page,
            )
        except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCError) as error:
            if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                return None
            return await self._late(error)

    async def _late(self, error: RPCError | WorkflowUpdateRPCTimeoutOrCancelledError) -> Any:
        """Go on after an error of a call, or raise it."""
        if is_cancelled():
            raise asyncio.CancelledError from error
        if STUMBLED in str(error):  # a worker stumbled over its last task; it gets another one
            await decided(self._handle)
            return await self._joined(timedelta(seconds=self._worker_timeout))
        if isinstance(error, RPCError) and error.status not in _LATE:
            raise unreachable(self._host, error) from error
        raise _LateError from error

    async def _check_same(self, error: WorkflowAlreadyStartedError) -> None:
        """Refuse to join the run in the session, unless it is of this prompt and this code."""
        described = await described_by(self._handle, self._host)
        if described is None:  # it has ended meanwhile
            raise _LateError from error
        if await described.memo_value("prompt", "") != _told(self._asked):
            raise SessionConflictError(
                f"Session {self._asked.session_id!r} has a run that has not ended, or waits for an answer. "
                "Wait for it, call resume(), or give another session_id."
            ) from error
        check_version(described, self._compiled, self._asked.session_id)

    async def _known(self) -> bool | None:
        """Whether the server knows the run; `None` if it does not answer."""
        try:
            found = await self._handle.describe(rpc_timeout=DESCRIBING)
        except RPCError as error:
            if is_cancelled():
                raise asyncio.CancelledError from error
            return False if error.status == RPCStatusCode.NOT_FOUND else None
        return found.status == WorkflowExecutionStatus.RUNNING

    async def _no_worker(self) -> EngineError:
        why = await stuck(self._handle)
        if isinstance(why, OtherVersion):
            return why
        await stopped(self._handle)
        compiled = self._compiled
        return why or EngineError(
            f"No worker took up the run within {self._worker_timeout:g} s: none that has this very "
            f"expression listens on the task queue {compiled.queue!r} at {self._host}. Start one (adk-fluent "
            "worker TARGET), or run the expression that the workers have. "
            f"{_others_elsewhere(compiled.native.named.root)}The run was stopped."
        )


class _LateError(Exception):
    """A server or a worker did not answer in time."""


async def _settled(start: WithStartWorkflowOperation[Any, Any]) -> None:
    """Take note of what else became of a start that failed."""
    with suppress(Exception, asyncio.CancelledError):  # the start may have ended with either
        async with asyncio.timeout(0):
            await start.workflow_handle()


async def described_by(handle: WorkflowHandle[Any, Any], host: str) -> WorkflowExecutionDescription | None:
    """What the server says of a run that is on its way, or waits; `None` if there is none.

    Raises:
        EngineError: the server does not answer.
    """
    try:
        found = await handle.describe()
    except RPCError as error:
        if is_cancelled():
            raise asyncio.CancelledError from error
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise unreachable(host, error) from error
    return found if found.status == WorkflowExecutionStatus.RUNNING else None


def check_version(described: WorkflowExecutionDescription, compiled: Durable, session_id: str) -> None:
    """Refuse a run that other code has begun.

    Raises:
        OtherVersion: its queue is not that of this expression.
    """
    if described.task_queue != compiled.queue:
        raise OtherVersion(
            f"The run in session {session_id!r} was begun by another version of the expression: it is on "
            f"the task queue {described.task_queue!r}, and this code is on {compiled.queue!r}. Call from the "
            "code that began it, while its workers run (adk-fluent worker --versions lists them), or "
            "cancel it."
        )


async def check_worker(handle: WorkflowHandle[Any, Any], queue: str, host: str, within: float) -> None:
    """Refuse a run that no worker can go on with now; it is left as it is.

    Raises:
        EngineError: no worker listens on its queue, or none can decide how it goes on.
    """
    try:
        await handle.query("progress", rpc_timeout=timedelta(seconds=within))
    except RPCError as error:
        if is_cancelled():
            raise asyncio.CancelledError from error
        if (why := await stuck(handle)) is not None:
            raise why from error
        await described_by(handle, host)
        raise no_worker(queue, host, within, "The run waits on") from error


def no_worker(queue: str, host: str, within: float, then: str) -> EngineError:
    """Nobody works on a queue."""
    return EngineError(
        f"No worker listens on the task queue {queue!r} at {host}, or none answered within {within:g} s. "
        f"Start one that has this very expression (adk-fluent worker TARGET). {then}."
    )


async def is_taken_up(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether a worker has begun with a workflow."""
    async for event in handle.fetch_history_events():
        if event.event_type == _STARTED:
            return True
    return False


def unreachable(host: str, error: RPCError) -> EngineError:
    """A server refuses, or does not answer."""
    why = sentence(what_happened(error))
    return EngineError(f"The Temporal server at {host} refused: {why}")


def _others_elsewhere(root: Node) -> str:
    """What is said of functions by which a worker's expression may be another one."""
    names = only_here(root)
    if not names:
        return ""
    return (
        f"For a worker {' and '.join(names[:3])} may be another function, since it has no import path, or "
        "stands in the script that is run: define it at the top level of a module that both import. "
    )


def _told(asked: Asked) -> str:
    """What tells prompts apart."""
    data = json.dumps([asked.prompt, asked.state], sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()
