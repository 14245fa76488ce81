"""`TemporalBackend`: runs expressions on Temporal, where they outlive the process that started them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from temporalio.client import (
    TLSConfig,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent._tasks import is_cancelled
from adk_fluent.backends.adk.api import DEFAULT_USER, ADKBackend
from adk_fluent.backends.adk.durable.steps import Json, state_json
from adk_fluent.backends.adk.durable.values import check_approvals, event_of, prompt_json, session_of
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.protocol import StoredSession, gathered
from adk_fluent.backends.temporal.connecting import LOCAL, Address, queue_of
from adk_fluent.backends.temporal.following import Following, raise_failure, raise_refusal, stopped
from adk_fluent.backends.temporal.messages import READER, Asked
from adk_fluent.backends.temporal.policy import StepPolicy, check_seconds, config_json, policy_of
from adk_fluent.backends.temporal.sizes import check_size, whole
from adk_fluent.backends.temporal.starting import (
    TASK,
    Durable,
    Starting,
    check_version,
    check_worker,
    described_by,
    is_taken_up,
    no_worker,
    unreachable,
)
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import BackendError, EngineError, SessionConflictError, SessionError
from adk_fluent.ir.base import Node
from adk_fluent.middleware.arguments import of_type


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
        ArgumentError: `address` is not HOST:PORT, a time is not positive, or an argument is of another type.

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
        self._queue: str | None = of_type(queue, str | None, "TemporalBackend(queue=)", "text")
        self._policy = policy_of(policy, "TemporalBackend")
        check_seconds("TemporalBackend", "worker_timeout", worker_timeout)
        if run_timeout is not None:
            check_seconds("TemporalBackend", "run_timeout", run_timeout)
        self._worker_timeout = timedelta(seconds=worker_timeout)
        self._run_timeout = None if run_timeout is None else timedelta(seconds=run_timeout)
        self._ended: dict[str, StoredSession] = {}

    def compile(
        self,
        node: Node,
        config: ExecutionConfig | None = None,
        *,
        state: Mapping[str, Any] | None = MappingProxyType({}),
    ) -> Durable:
        """The expression as ADK runs it, so that what cannot run is known before any worker gets it.

        Args:
            state: what the contract check may take to be in the session; `None` if that is not known.

        Raises:
            CompileError: ADK cannot express something in it.
            BackendError: the configuration has what cannot be sent to a worker, or a middleware that goes by
                earlier runs stands where it cannot act in one.
        """
        compiled = ADKBackend().compile(node, config, state=state)
        compiled.check_places()
        return Durable(node, compiled, queue_of(node, self._queue), config_json(compiled.config))

    # --- workers ----------------------------------------------------------------------------------

    def _check_services(self, services: Mapping[str, Any] | None) -> None:
        """Refuse services of the caller, which no worker could reach."""
        for name in services or {}:
            raise BackendError(
                f"TemporalBackend runs on the services of its workers; leave {name} out, and give it to "
                f"run_worker({name}=)."
            )

    @asynccontextmanager
    async def _working(
        self, compiled: Durable, services: Mapping[str, Any] | None, user_id: str, session_id: str
    ) -> AsyncGenerator[Durable]:
        """The expression on the queue of its workers, which work as long as this is open."""
        yield compiled

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
        self._check_services(services)
        async with self._working(compiled, services, user_id, session_id) as here:
            asked = Asked(
                config=here.config,
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
            run = Following(client, here.run_id(user_id, session_id), streaming)
            timeout = self._worker_timeout.total_seconds()
            starting = Starting(client, self.address.host, here, asked, timeout, self._run_timeout)
            first = await starting.begun()
            async with aclosing(run.events(0, first)) as events:
                async for event in events:
                    yield event_of(event, here.native, session_id)
            if not streaming and run.page.status == "done":
                self._ended[run.name] = StoredSession(run.page.state)

    def _just_ended(self, compiled: Durable, user_id: str, session_id: str) -> StoredSession | None:
        """The session of a run that has just ended, which is known without asking a worker; once."""
        return self._ended.pop(compiled.run_id(user_id, session_id), None)

    async def is_open(self, compiled: Durable, *, session_id: str, user_id: str = DEFAULT_USER) -> bool:
        """Whether a run is on its way in a session, or waits.

        Raises:
            EngineError: no server answers.
        """
        return await self._queue_of_run(compiled, user_id, session_id) is not None

    async def _queue_of_run(self, compiled: Durable, user_id: str, session_id: str) -> str | None:
        """The task queue of the run that is on its way, or waits, in a session."""
        client = await self.address.client()
        handle = client.get_workflow_handle(compiled.run_id(user_id, session_id))
        found = await described_by(handle, self.address.host)
        return None if found is None else found.task_queue

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
        self._check_services(services)
        if (ended := self._just_ended(compiled, user_id, session_id)) is not None:
            return ended
        async with self._working(compiled, services, user_id, session_id) as here:
            return session_of(await self._loaded(here, user_id, session_id), here.native)

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
            return await self._in_time(handle, queue) if wait else None
        except WorkflowFailureError as error:
            raise_failure(error, f"session {asked['session_id']!r}", "")
        except RPCError as error:
            raise unreachable(self.address.host, error) from error

    async def _in_time(self, handle: WorkflowHandle[Any, Any], queue: str) -> Json:
        """What a workflow gives, which a worker must take up in time."""
        seconds = self._worker_timeout.total_seconds()
        result = asyncio.ensure_future(handle.result())
        try:
            if not (await asyncio.wait({result}, timeout=seconds))[0] and not await is_taken_up(handle):
                await stopped(handle)
                raise no_worker(queue, self.address.host, seconds, "Sessions are read by workers")
            return await result
        finally:
            result.cancel()
            await asyncio.gather(result, return_exceptions=True)

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
            EngineError: the run is one of another version of the expression, or no worker answers within
                `worker_timeout`; it waits on.
            ArgumentError: an answer is neither `True`, `False` nor a JSON-able payload.
        """
        self._check_services(services)
        async with self._working(compiled, services, user_id, session_id) as here:
            client = await self.address.client()
            handle = client.get_workflow_handle(here.run_id(user_id, session_id))
            waiting = await described_by(handle, self.address.host)
            if waiting is not None:
                check_version(waiting, here, session_id)
                within = self._worker_timeout.total_seconds()
                await check_worker(handle, here.queue, self.address.host, within)
            answers = check_approvals(await self._loaded(here, user_id, session_id), approvals)
            count = await self._approved(handle, answers, session_id)
            run = Following(client, handle.id, reads_along=False)
            async with aclosing(run.events(count, None)) as events:
                async for event in events:
                    yield event_of(event, here.native, session_id)

    async def _approved(
        self, handle: WorkflowHandle[Any, Any], answers: Mapping[str, Any], session_id: str
    ) -> int:
        """Hand over the answers; how many events the run had given until then."""
        within = self._worker_timeout + READER
        try:
            update = await cast(Any, handle).start_update(
                "approve",
                answers,
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                rpc_timeout=within,
                result_type=int,
            )
            count: int = await update.result(rpc_timeout=within)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if is_cancelled():
                raise asyncio.CancelledError from error
            raise EngineError(
                f"The run of session {session_id!r} took longer than {within.total_seconds():g} s to take "
                "the answers. They may still count: look at its session before you call resume() again."
            ) from error
        except WorkflowUpdateFailedError as error:
            raise_refusal(error)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise unreachable(self.address.host, error) from error
            raise SessionError(
                f"The run of session {session_id!r} waits no more: it was stopped, or took longer than "
                "run_timeout. Run the prompt again."
            ) from error
        if count < 0:
            raise SessionConflictError(
                f"The run of session {session_id!r} does not wait: another resume() was first, and it goes "
                "on. Wait for that one."
            )
        return count

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
        self._check_services(services)
        asked = {"user_id": user_id, "session_id": session_id, "before_invocation_id": before_invocation_id}
        async with self._working(compiled, services, user_id, session_id) as here:
            await self._sessions(here, {"do": "rewind", **asked})

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
