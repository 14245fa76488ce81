"""`TemporalBackend`: runs expressions on Temporal, where they outlive the process that started them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final, cast

from temporalio.client import (
    Client,
    TLSConfig,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent.backends.adk.durable.steps import Json, state_json
from adk_fluent.backends.adk.durable.values import check_approvals, event_of, prompt_json, session_of
from adk_fluent.backends.adk.middleware.parting import check_places
from adk_fluent.backends.adk.running.backend import DEFAULT_USER, ADKBackend, Compiled
from adk_fluent.backends.adk.running.middleware import acting
from adk_fluent.backends.adk.steps.concurrency import is_cancelled
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.protocol import StoredSession, gathered
from adk_fluent.backends.temporal.connecting import LOCAL, Address, queue_of
from adk_fluent.backends.temporal.following import STUMBLED, Following, decided, raise_failure, stopped, stuck
from adk_fluent.backends.temporal.messages import Asked, Page
from adk_fluent.backends.temporal.policy import StepPolicy, config_json
from adk_fluent.backends.temporal.sizes import check_size, whole
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import (
    ArgumentError,
    BackendError,
    EngineError,
    SessionConflictError,
    SessionError,
    sentence,
    what_happened,
)
from adk_fluent.ir.base import Node
from adk_fluent.ir.codec import only_here

TASK: Final = timedelta(seconds=5)
"""How long a worker may take for one turn of the workflow before another one gets it."""

_LATE: Final = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)


class TemporalBackend:
    """Runs expressions on Temporal: as workflows, by workers, to the end, whatever process dies meanwhile.

    The workers (`adk_fluent.distributed.run_worker`, or `adk-fluent worker`) have the same expression; they
    ask the models, call the tools, and keep the sessions. A run goes on when its caller is gone; the caller
    who stops reading a stream, or cancels `run`, cancels it.

    Args:
        address: host and port of the Temporal server.
        namespace: the namespace on it.
        tls: whether to encrypt; a `temporalio.client.TLSConfig` names certificates.
        api_key: what Temporal Cloud is told.
        queue: the name of the workers' task queue; by default that of the expression. The hash of the
            expression is added, so that a run and its workers have the same one.
        policy: how steps are done.
        worker_timeout: seconds within which a worker must take a run up.
        run_timeout: seconds that a run may take in all, with what it waits for people; by default for ever.

    Raises:
        ArgumentError: `address` is not HOST:PORT, or a time is not positive.

    Example:
        >>> backend = TemporalBackend(address="127.0.0.1:7233")
    """

    def __init__(
        self,
        address: str = LOCAL,
        *,
        namespace: str = "default",
        tls: bool | TLSConfig = False,
        api_key: str | None = None,
        queue: str | None = None,
        policy: StepPolicy | None = None,
        worker_timeout: float = 10.0,
        run_timeout: float | None = None,
    ) -> None:
        self.address: Address = Address(address, namespace, tls, api_key)
        self._queue, self._policy = queue, policy or StepPolicy()
        for name, seconds in (("worker_timeout", worker_timeout), ("run_timeout", run_timeout or 1.0)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise ArgumentError(f"TemporalBackend({name}={seconds!r:.40}): it is a positive number.")
        self._worker_timeout = timedelta(seconds=worker_timeout)
        self._run_timeout = None if run_timeout is None else timedelta(seconds=run_timeout)
        self._ended: dict[str, StoredSession] = {}

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> Durable:
        """The expression as ADK runs it, so that what cannot run is known before any worker gets it.

        Raises:
            CompileError: ADK cannot express something in it.
            BackendError: the configuration has what cannot be sent to a worker, or a middleware that goes by
                earlier runs stands where it cannot act in one.
        """
        compiled = ADKBackend().compile(node, config)
        check_places(acting(cast(Any, compiled.app.root_agent)))
        return Durable(node, compiled, queue_of(node, self._queue), config_json(compiled.config))

    # --- running ----------------------------------------------------------------------------------

    async def run(self, compiled: Durable, prompt: Any, **options: Any) -> list[AgentEvent]:
        """Run to the end and give all events; takes what `stream` takes."""
        options["streaming"] = False
        async with aclosing(self.stream(compiled, prompt, **options)) as events:
            return await gathered(events)

    async def stream(
        self,
        compiled: Durable,
        prompt: Any,
        *,
        user_id: str = DEFAULT_USER,
        session_id: str,
        state: Mapping[str, Any] | None = None,
        services: Mapping[str, Any] | None = None,
        streaming: bool = True,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Give events as they happen.

        Raises:
            EngineError: no server answers, or no worker took the run up in time.
            SessionConflictError: a run of another prompt is on its way in this session; one of the same
                prompt is read along from its start.
        """
        _refuse(services)
        asked = Asked(
            config=compiled.config,
            policy=asdict(self._policy),
            user_id=user_id,
            session_id=session_id,
            prompt=prompt_json(prompt),
            state=state_json(state or {}, "state="),
            streaming=streaming,
            patience=self._worker_timeout.total_seconds(),
        )
        check_size([asked.prompt, asked.state], "What the run is given", "Keep files as artifacts.")
        client = await self.address.client()
        run = Following(client, compiled.run_id(user_id, session_id), streaming)
        first = await self._begun(client, compiled, asked)
        async with aclosing(run.events(0, first)) as events:
            async for event in events:
                yield event_of(event, compiled.native, session_id)
        if not streaming and run.page.status == "done":
            self._ended[run.name] = StoredSession(run.page.state)

    def _just_ended(self, compiled: Durable, user_id: str, session_id: str) -> StoredSession | None:
        """The session of a run that has just ended, which is known without asking a worker; once."""
        return self._ended.pop(compiled.run_id(user_id, session_id), None)

    async def _queue_of_run(self, compiled: Durable, user_id: str, session_id: str) -> str | None:
        """The task queue of the run that is on its way, or waits, in a session."""
        client = await self.address.client()
        try:
            run = await client.get_workflow_handle(compiled.run_id(user_id, session_id)).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise self._unreachable(error) from error
        return run.task_queue if run.status == WorkflowExecutionStatus.RUNNING else None

    async def _begun(self, client: Client, compiled: Durable, asked: Asked) -> WorkflowUpdateHandle[Page]:
        """Start a run; its first page, which is on its way."""
        run_id = compiled.run_id(asked.user_id, asked.session_id)
        start = WithStartWorkflowOperation[Any, Any](
            "adk_fluent.run",
            asked,
            id=run_id,
            task_queue=compiled.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            task_timeout=TASK,
            execution_timeout=self._run_timeout,
            memo={"prompt": _told(asked)},
        )
        try:
            return await cast(Any, client).start_update_with_start_workflow(
                "read",
                args=[0, not asked.streaming],
                start_workflow_operation=start,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                rpc_timeout=self._worker_timeout,
                result_type=Page,
            )
        except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCError) as error:
            await _settled(start)
            if is_cancelled():
                await stopped(client.get_workflow_handle(run_id))
                raise asyncio.CancelledError from error
            if STUMBLED in str(error):  # a worker stumbled over its first task; it gets another one
                return await self._asked(client.get_workflow_handle(run_id), asked)
            if isinstance(error, RPCError) and error.status not in _LATE:
                raise self._unreachable(error) from error
            handle = client.get_workflow_handle(run_id)
            why = await stuck(handle)
            await stopped(handle)
            raise why or EngineError(
                f"No worker took up the run within {self._worker_timeout.total_seconds():g} s: none that has "
                f"this very expression listens on the task queue {compiled.queue!r} at {self.address.host}. "
                "Start one (adk-fluent worker TARGET), or run the expression that the workers have. "
                f"{_others_elsewhere(compiled.native.named.root)}The run was stopped."
            ) from error
        except WorkflowAlreadyStartedError as error:
            await _settled(start)
            if (known := await self._same(client, run_id, asked)) is not None:
                return known
            raise SessionConflictError(
                f"Session {asked.session_id!r} has a run that has not ended, or waits for approval. Wait for "
                "it, call resume(), or give another session_id."
            ) from error

    async def _same(self, client: Client, run_id: str, asked: Asked) -> WorkflowUpdateHandle[Page] | None:
        """The first page of the run that is on its way in the session, if it is of the same prompt."""
        handle = client.get_workflow_handle(run_id)
        described = await handle.describe()
        if await described.memo_value("prompt", "") != _told(asked):
            return None
        return await self._asked(handle, asked)

    async def _asked(self, handle: WorkflowHandle[Any, Any], asked: Asked) -> WorkflowUpdateHandle[Page]:
        """The first page of a run that has begun."""
        while True:
            try:
                return await cast(Any, handle).start_update(
                    "read",
                    args=[0, not asked.streaming],
                    wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                    result_type=Page,
                )
            except RPCError as error:
                if STUMBLED not in str(error):
                    raise self._unreachable(error) from error
            await decided(handle)

    def _unreachable(self, error: RPCError) -> EngineError:
        why = sentence(what_happened(error))
        return EngineError(f"The Temporal server at {self.address.host} refused: {why}")

    # --- sessions ---------------------------------------------------------------------------------

    async def session(
        self,
        compiled: Durable,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> StoredSession:
        """A session, as the session service of the workers has it.

        Raises:
            SessionError: there is none of that id.
        """
        _refuse(services)
        if (ended := self._just_ended(compiled, user_id, session_id)) is not None:
            return ended
        return session_of(await self._loaded(compiled, user_id, session_id), compiled.native)

    async def _loaded(self, compiled: Durable, user_id: str, session_id: str) -> Json:
        found = await self._sessions(compiled, {"do": "load", "user_id": user_id, "session_id": session_id})
        if found is None:
            raise SessionError(
                f"There is no session {session_id!r} of user {user_id!r} in the app {compiled.app!r} of "
                "these workers. Pass the user_id and app_name that the run had."
            )

        async def following(first: int) -> list[Json]:
            whose = {"user_id": user_id, "session_id": session_id}
            return await self._sessions(compiled, {"do": "events", **whose, "first": first})

        return await whole(found, following)

    async def _sessions(self, compiled: Durable, asked: dict[str, Any], *, wait: bool = True) -> Json:
        """What the session service of the workers gives."""
        client = await self.address.client()
        queue, told = compiled.queue, {"app_name": compiled.app, **asked}
        try:
            handle = await client.start_workflow(
                "adk_fluent.session",
                told,
                id=f"session-{uuid.uuid4()}",
                task_queue=queue,
                task_timeout=TASK,
                execution_timeout=timedelta(minutes=1),
            )
            return await handle.result() if wait else None
        except WorkflowFailureError as error:
            raise_failure(error, f"session {asked['session_id']!r}")
        except RPCError as error:
            raise self._unreachable(error) from error

    async def resume(
        self,
        compiled: Durable,
        *,
        session_id: str,
        approvals: Mapping[str, Any],
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer what a paused run waits for, and give the events that follow.

        Raises:
            SessionError: there is no such session, or it does not wait for one of these approvals.
            ArgumentError: an answer is neither `True`, `False` nor a JSON-able payload.
        """
        _refuse(services)
        stored = await self._loaded(compiled, user_id, session_id)
        answers = check_approvals(stored, approvals)
        client = await self.address.client()
        handle = client.get_workflow_handle(compiled.run_id(user_id, session_id))
        try:
            count: int = await cast(Any, handle).execute_update("approve", answers, result_type=int)
        except RPCError as error:
            raise SessionError(
                f"The run of session {session_id!r} waits no more: it was stopped, or took longer than "
                "run_timeout. Run the prompt again."
            ) from error
        run = Following(client, handle.id, reads_along=False)
        async with aclosing(run.events(count, None)) as events:
            async for event in events:
                yield event_of(event, compiled.native, session_id)

    async def rewind(
        self,
        compiled: Durable,
        *,
        session_id: str,
        before_invocation_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Undo a run and all after it.

        Raises:
            SessionError: there is no such session, or no such run in it.
        """
        _refuse(services)
        whose = {"user_id": user_id, "session_id": session_id}
        await self._sessions(
            compiled, {"do": "rewind", **whose, "before_invocation_id": before_invocation_id}
        )

    async def forget(
        self,
        compiled: Durable,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete a session that nobody can name any more; the workers do so in their own time."""
        self._just_ended(compiled, user_id, session_id)
        await self._sessions(
            compiled, {"do": "forget", "user_id": user_id, "session_id": session_id}, wait=False
        )


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


async def _settled(start: WithStartWorkflowOperation[Any, Any]) -> None:
    """Take note of what else became of a start that failed."""
    with suppress(Exception, asyncio.CancelledError):  # the start may have ended with either
        async with asyncio.timeout(0):
            await start.workflow_handle()


def _refuse(services: Mapping[str, Any] | None) -> None:
    """Refuse services of the caller, which no worker could reach."""
    for name in services or {}:
        raise BackendError(
            f"TemporalBackend runs on the services of its workers; leave {name} out, and give it to "
            f"run_worker({name}=)."
        )
