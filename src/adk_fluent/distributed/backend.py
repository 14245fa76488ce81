"""`DistributedBackend`: runs each segment of a pipeline where its boundary says."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from adk_fluent.backends.adk.api import DEFAULT_USER, BackendOver, segments
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.distributed.processes import Processes
from adk_fluent.distributed.segments import Segment, cut
from adk_fluent.distributed.working import InProcess
from adk_fluent.errors import BackendError, SessionError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import Named
from adk_fluent.middleware.arguments import of_type, positive

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent
    from temporalio.client import TLSConfig

    from adk_fluent.backends.adk.api import ADKBackend, Compiled
    from adk_fluent.backends.events import AgentEvent, RunResult
    from adk_fluent.backends.protocol import StoredSession
    from adk_fluent.backends.temporal.policy import StepPolicy
    from adk_fluent.distributed.queues.calling import Queue
    from adk_fluent.expr.base import Expr

T = TypeVar("T")

_LOCAL: Final = ("127.0.0.1:7233", "default", False, None)
"""The address, namespace, encryption and key that nobody has to give."""


class DistributedBackend(BackendOver):
    """Runs each segment of a pipeline as an app of its own, where its execution boundary says.

    The caller keeps the session: it runs the steps before the first boundary, gives each segment what it
    needs as bytes, and takes over its events as they come. So sessions, approvals, streams and results are as
    without boundaries.

    Args:
        backend: what segments in this process run on, such as `mock_backend(...)`; by default ADK itself.
        target: the pipeline, as `module:attribute`, for segments whose boundary says `isolation="process"`.
        patience: seconds until a worker must have taken work from the queue of a segment.
        policy: how long and how often workers of queues try a step, as for `TemporalBackend`.
        address: host and port of the Temporal server that the workers of queues use.
        namespace: the namespace on it.
        tls: whether to encrypt; a `temporalio.client.TLSConfig` names certificates.
        api_key: what Temporal Cloud is told.
        services: where sessions and artifacts are kept, as for `ADKBackend`. A segment in a process of
            its own finds artifacts that are kept in a folder or bucket; one that uses any is refused where
            they are in memory. Workers of a queue are told where by `--artifacts`.

    Raises:
        ArgumentError: an argument is of another type, a time is not positive, or `address` is not HOST:PORT.
        BoundaryError: when compiling, a boundary stands where a pipeline cannot be cut.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> heavy = Agent("heavy").instruct("Work on {task}.").execution_boundary()
        >>> script = mock_backend({"clerk": "sums", "heavy": "42"})
        >>> run = (Agent("clerk").writes("task") >> heavy).run("Go", backend=DistributedBackend(script))
        >>> asyncio.run(run).text
        '42'

        Workers of queues begin each step up to three times, each time for two minutes at most:

        >>> from adk_fluent.backends import StepPolicy
        >>> backend = DistributedBackend(script, policy=StepPolicy(timeout=120, attempts=3))
    """

    def __init__(
        self,
        backend: ADKBackend | None = None,
        *,
        target: str | None = None,
        patience: float = 30.0,
        policy: StepPolicy | None = None,
        address: str = "127.0.0.1:7233",
        namespace: str = "default",
        tls: bool | TLSConfig = False,
        api_key: str | None = None,
        **services: Any,
    ) -> None:
        super().__init__(backend, **services)
        self._target: str | None = of_type(target, str | None, "DistributedBackend(target=)", "text")
        self._patience = positive(patience, "DistributedBackend(patience=)")
        self._policy, self._engine = policy, (address, namespace, tls, api_key)
        if policy is not None or tls is not False or self._engine != _LOCAL:  # else the extra is not needed
            self._check_engine()
        self._open: list[Processes | Queue] = []
        self._left: str | None = None

    def _check_engine(self) -> None:
        from adk_fluent.backends.temporal.connecting import Address
        from adk_fluent.backends.temporal.policy import policy_of

        Address(*self._engine)
        policy_of(self._policy, "DistributedBackend")

    # --- compiling ----------------------------------------------------------------------------------

    def compiled_tree(self, named: Named, config: ExecutionConfig) -> BaseAgent:
        """Native agents: the first segment, and one for each that runs elsewhere."""
        inside, limit = segments.inside_limit(named, config)
        parts = cut(inside, config)
        taken = {node.name for node in walk(named.root)}
        agents = [
            self._agent(part, taken) if part.is_cut_off else self._here(part, named, config) for part in parts
        ]
        whole = len(agents) == 1 and not parts[0].is_cut_off
        root = agents[0] if whole else segments.in_turn(_free("segments", taken), agents)
        return root if limit is None else segments.in_time(root, limit)

    def _here(self, segment: Segment, named: Named, config: ExecutionConfig) -> BaseAgent:
        return self.native_tree(Named(self.first(segment.node), named.origins), config)

    def first(self, node: Node) -> Node:
        """The first segment as it runs here."""
        return node

    def _agent(self, segment: Segment, taken: set[str]) -> BaseAgent:
        authors = frozenset(node.name for node in walk(segment.node))
        name = _free(f"segment_{segment.name}", taken)
        return segments.segment_agent(name, self.place(segment), segment.hears, authors)

    def place(self, segment: Segment) -> segments.Elsewhere:
        """What runs a segment: its isolation says.

        Raises:
            BackendError: it is to run in a process of its own, and this has no target.
        """
        transport = segment.boundary.transport
        if transport is not None and transport.endpoint is not None:
            from adk_fluent.backends.temporal.connecting import Address
            from adk_fluent.backends.temporal.policy import policy_of
            from adk_fluent.distributed.queues.calling import Queue

            policy = policy_of(self._policy, "DistributedBackend")
            self._open.append(Queue(segment, Address(*self._engine), self._patience, policy))
            return self._open[-1]
        if segment.boundary.isolation == "none":
            return InProcess(segment, self._inner)
        if segment.boundary.isolation == "container":
            raise BackendError(
                f"Segment {segment.name!r} runs in a container, which takes its work from a queue. Give its "
                "boundary a transport=TransportConfig(endpoint=...), and start the container."
            )
        if self._target is None:
            raise BackendError(
                f"Segment {segment.name!r} runs in a process of its own, which has to load the pipeline. "
                "Say from where: DistributedBackend(target='module:attribute')."
            )
        self._open.append(Processes(segment, self._target))
        return self._open[-1]

    # --- coming back ----------------------------------------------------------------------------------

    async def come_back(
        self,
        pipeline: Expr[T],
        run_id: str,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        config: ExecutionConfig | None = None,
    ) -> RunResult[T]:
        """Go on with a run whose caller left: what is done is not done again, nor is what a queue has taken.

        The run must have been made with `ExecutionConfig(resumable=True)`, and its session must be one that
        this backend finds, as in a database.

        Args:
            pipeline: the pipeline of the run.
            run_id: the run, as in `AgentEvent.invocation_id`.
            session_id: its session.

        Raises:
            SessionError: there is no such session, no such run in it, or the run noted nothing to go on from.
        """
        again = copy.copy(self)
        again._left = run_id
        config = replace(execution_config(config), resumable=True)
        return await pipeline.resume(
            session_id=session_id, approvals={}, user_id=user_id, config=config, backend=again
        )

    async def resume(
        self,
        compiled: Compiled,
        *,
        session_id: str,
        approvals: Mapping[str, Any],
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer what a paused run waits for, and give the events that follow."""
        options: dict[str, Any] = {"session_id": session_id, "user_id": user_id, "services": services}
        if self._left is None:
            source = super().resume(compiled, approvals=approvals, **options)
        else:
            stored = await self.session(compiled, **options)
            check_left(stored, self._left, session_id)
            source = self.go_on(compiled, invocation_id=self._left, streaming=False, **options)
        async with aclosing(source) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """End the processes that were started, and leave queues; what runs later opens them again."""
        for each in self._open:
            await each.close()


def check_left(stored: StoredSession, run_id: str, session_id: str) -> None:
    """Refuse to go on with a run that is not there, or that noted nothing.

    Raises:
        SessionError: it is one of these.
    """
    if run_id not in stored.runs:
        raise SessionError(
            f"Session {session_id!r} has no run {run_id!r}. Pass the session that the run had."
        )
    actions = [event.raw.actions for event in stored.runs[run_id] if event.raw is not None]
    if not any(each.agent_state is not None or each.end_of_agent for each in actions):
        raise SessionError(
            f"Run {run_id!r} of session {session_id!r} noted nothing to go on from. Run the pipeline with "
            "ExecutionConfig(resumable=True) where its caller may leave."
        )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
