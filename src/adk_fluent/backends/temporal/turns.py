"""Work from a queue as workflows: one per message, and one per session that runs them in order."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.following import raise_failure
from adk_fluent.errors import EngineError, SegmentError, sentence, what_happened

TASK: Final = timedelta(seconds=5)
"""Time that a worker has for one decision of a workflow before another worker gets it."""
AWAY: Final = 60
"""Seconds for which a Temporal server that does not answer is asked again."""
_FIRST_DECISION: Final = 4
"""Events in the history of a workflow once a worker has decided its first step."""
_UNREACHABLE: Final = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN)


@workflow.defn(name="adk_fluent.turns", sandboxed=False, failure_exception_types=[Exception])
class Turns:
    """Runs the work of one session, one piece at a time and in the order in which it was signalled.

    Each piece is a child workflow under an id of its own, which Temporal never gives twice. So a message that
    is delivered again starts nothing.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Any]] = {}
        self._taken: set[str] = set()

    @workflow.run
    async def run(self, waiting: list[dict[str, Any]]) -> None:
        """Run what waits, and what is signalled meanwhile."""
        signalled, self._waiting = self._waiting, {}
        for work in [*waiting, *signalled.values()]:
            self.add(work)
        await workflow.wait_condition(lambda: bool(self._waiting))
        while self._waiting:
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new([*self._waiting.values()])
            work = self._waiting.pop(next(iter(self._waiting)))
            self._taken.add(work["id"])
            # The caller reads why a piece failed; one that was started before needs nothing more.
            with suppress(ChildWorkflowError, WorkflowAlreadyStartedError):
                await workflow.execute_child_workflow(
                    "adk_fluent.segment",
                    work["asked"],
                    id=work["id"],
                    task_queue=work["queue"],
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    task_timeout=TASK,
                )

    @workflow.signal
    def add(self, work: dict[str, Any]) -> None:
        """Take a piece of work, unless it is known."""
        if work["id"] not in self._taken:
            self._waiting.setdefault(work["id"], work)


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work from a queue.

    Attributes:
        queue: the name of the queue.
        key: the id of its message.
        session: the name of its session; work of one session runs in order.
    """

    queue: str
    key: str
    session: str

    @property
    def id(self) -> str:
        """The id of its workflow."""
        return f"queue/{self.queue}/{self.key}"

    @property
    def session_id(self) -> str:
        """The id of the workflow that runs the work of its session."""
        return f"queue/{self.queue}/session/{hashlib.sha256(self.session.encode()).hexdigest()[:32]}"


class Turnstile:
    """Hands work of queues to a Temporal server, and reads what came of it.

    Args:
        address: where the server is.
    """

    def __init__(self, address: Address) -> None:
        self._address = address

    async def retention(self) -> float:
        """Seconds for which the server remembers a workflow that has ended.

        Raises:
            EngineError: the server does not answer.
        """
        client = await self._address.client()
        try:
            told = await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=client.namespace)
            )
        except RPCError as error:
            raise self._refused(error) from error
        return float(told.config.workflow_execution_retention_ttl.ToTimedelta().total_seconds())

    async def start(self, work: Work, task_queue: str, asked: dict[str, Any]) -> None:
        """Start a piece of work, or join it where it was started before; returns when the server has it.

        Args:
            task_queue: the task queue of the workers that run it.
            asked: what they run, with what, and how its steps are done.

        Raises:
            EngineError: the server does not answer.
        """
        client = await self._address.client()
        told = {**asked, "patience": 10.0, "streaming": False}
        try:
            if await self._status(client, work.id) is not None:
                return
            await client.start_workflow(
                "adk_fluent.turns",
                args=[[]],
                id=work.session_id,
                task_queue=work.queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK,
                start_signal="add",
                start_signal_args=[{"id": work.id, "queue": task_queue, "asked": told}],
            )
        except RPCError as error:
            raise self._refused(error) from error

    async def is_started(self, work: Work) -> bool:
        """Whether a piece of work runs, or has run.

        Raises:
            EngineError: the server does not answer.
        """
        client = await self._address.client()
        try:
            return await self._status(client, work.id) is not None
        except RPCError as error:
            raise self._refused(error) from error

    async def is_busy(self, work: Work) -> bool:
        """Whether work of the session runs, so that this piece may be waiting for its turn.

        Raises:
            EngineError: the server does not answer.
        """
        client = await self._address.client()
        try:
            return await self._status(client, work.session_id) == WorkflowExecutionStatus.RUNNING
        except RPCError as error:
            raise self._refused(error) from error

    async def forbid(self, work: Work) -> bool:
        """Keep a piece of work from ever being started; `False` where it was started before.

        Raises:
            EngineError: the server does not answer.
        """
        client = await self._address.client()
        try:
            handle = await client.start_workflow(
                "adk_fluent.segment",
                id=work.id,
                task_queue=f"{work.queue}/given-up",
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
            await handle.terminate(reason="No worker took the message in time, and its caller was told.")
        except WorkflowAlreadyStartedError:
            return False
        except RPCError as error:
            raise self._refused(error) from error
        return True

    async def result(
        self, work: Work, task_queue: str, patience: float
    ) -> tuple[list[str], Exception | None]:
        """The pieces that came back of a piece of work, and its error if it failed.

        Args:
            patience: seconds after which a task queue without workers is an error.

        Raises:
            EngineError: the server does not answer for `AWAY` seconds, or refuses.
            SegmentError: no worker has this version of the segment; or somebody stopped the run.
        """
        client = await self._address.client()
        handle = client.get_workflow_handle(work.id, result_type=list[str])
        waiting = asyncio.ensure_future(self._ended(handle))
        try:
            while not (await asyncio.wait({waiting}, timeout=patience))[0]:
                if await self._is_stranded(client, handle, task_queue):
                    with suppress(RPCError):
                        await handle.terminate(reason="No worker has this version of the segment.")
                    raise SegmentError(
                        f"No worker has this version of the segment: none listens on {task_queue!r}. Deploy "
                        "the same pipeline on both sides; one that stands in a script which is run is "
                        "another than in a module that is imported. The run was stopped."
                    )
            return await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _ended(self, handle: WorkflowHandle[Any, list[str]]) -> tuple[list[str], Exception | None]:
        for attempt in range(AWAY + 1):
            try:
                return await handle.result(), None
            except WorkflowFailureError as error:
                cause = error.cause
                if not isinstance(cause, ApplicationError) or len(cause.details) < 2:
                    return [], _raised(error, handle.id)
                return cause.details[1], _raised(error, handle.id)
            except RPCError as error:
                if error.status not in _UNREACHABLE or attempt == AWAY:
                    raise self._refused(error) from error
            await asyncio.sleep(1)
        raise AssertionError

    async def _is_stranded(self, client: Client, handle: WorkflowHandle[Any, Any], task_queue: str) -> bool:
        """Whether no worker has ever taken up a workflow, and none listens on its task queue."""
        with suppress(RPCError):
            if (await handle.describe()).history_length >= _FIRST_DECISION:
                return False
            told = await client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=task_queue),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                )
            )
            return not told.pollers
        return False

    async def _status(self, client: Client, name: str) -> WorkflowExecutionStatus | None:
        try:
            return (await client.get_workflow_handle(name).describe()).status
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise

    def _refused(self, error: RPCError) -> EngineError:
        why = sentence(what_happened(error))
        return EngineError(f"The Temporal server at {self._address.host} refused: {why}")


def _raised(error: WorkflowFailureError, name: str) -> Exception:
    """The error that a workflow ended with."""
    try:
        raise_failure(error, f"run {name!r}")
    except Exception as found:  # noqa: BLE001  # whatever the run failed with
        return found
