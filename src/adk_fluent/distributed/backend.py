"""`DistributedBackend`: runs each segment of a pipeline where its boundary says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adk_fluent.backends.adk.compile.boundaries import inside_limit
from adk_fluent.backends.adk.compile.compiler import compile_tree
from adk_fluent.backends.adk.running.over import BackendOver
from adk_fluent.backends.adk.steps.segment import Elsewhere, in_time, in_turn, segment_agent
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed.processes import Processes
from adk_fluent.distributed.segments import Segment, cut
from adk_fluent.distributed.working import InProcess
from adk_fluent.errors import BackendError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.naming import Named

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent

    from adk_fluent.backends.adk.running.backend import ADKBackend
    from adk_fluent.distributed.queues.calling import Queue


class DistributedBackend(BackendOver):
    """Runs each segment of a pipeline as an app of its own, where its execution boundary says.

    The caller keeps the session: it runs the steps before the first boundary, gives each segment what it
    needs as bytes, and takes over its events as they come. So sessions, approvals, streams and results are as
    without boundaries.

    Args:
        backend: what segments in this process run on, such as `mock_backend(...)`; by default ADK itself.
        target: the pipeline, as `module:attribute`, for segments whose boundary says `isolation="process"`.
        patience: seconds until a worker must have taken work from the queue of a segment.
        services: where sessions and artifacts are kept, as for `ADKBackend`. A segment in a process of
            its own finds artifacts that are kept in a folder or bucket; one that uses any is refused where
            they are in memory. Workers of a queue are told where by `--artifacts`.

    Raises:
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
    """

    def __init__(
        self,
        backend: ADKBackend | None = None,
        *,
        target: str | None = None,
        patience: float = 30.0,
        **services: Any,
    ) -> None:
        super().__init__(backend, **services)
        self._target, self._patience = target, patience
        self._open: list[Processes | Queue] = []

    # --- compiling ----------------------------------------------------------------------------------

    def compiled_tree(self, named: Named, config: ExecutionConfig) -> BaseAgent:
        """Native agents: the first segment, and one for each that runs elsewhere."""
        inside, limit = inside_limit(named, config)
        parts = cut(inside, config)
        here = Named(self.first(parts[0].node), named.origins)
        root = compile_tree(
            here,
            self.model_for,
            self.helper_for,
            self.another_model,
            self._overrides,
            self.remote_for,
            tools_in_threads=config.tools_in_threads,
        )
        if len(parts) > 1:
            taken = {node.name for node in walk(named.root)}
            others = [self._agent(part, taken) for part in parts[1:]]
            root = in_turn(_free("segments", taken), [root, *others])
        return root if limit is None else in_time(root, limit)

    def first(self, node: Node) -> Node:
        """The first segment as it runs here."""
        return node

    def _agent(self, segment: Segment, taken: set[str]) -> BaseAgent:
        authors = frozenset(node.name for node in walk(segment.node))
        name = _free(f"segment_{segment.name}", taken)
        return segment_agent(name, self.place(segment), segment.hears, authors)

    def place(self, segment: Segment) -> Elsewhere:
        """What runs a segment: its isolation says.

        Raises:
            BackendError: it is to run in a process of its own, and this has no target.
        """
        transport = segment.boundary.transport
        if transport is not None and transport.endpoint is not None:
            from adk_fluent.distributed.queues.calling import Queue

            self._open.append(Queue(segment, self._patience))
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

    async def close(self) -> None:
        """End the processes that were started, and leave queues; what runs later opens them again."""
        for each in self._open:
            await each.close()


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
