"""Segments on the durable engine: each is a child workflow on a task queue of its own."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.backends.adk.api import Services, places, segments
from adk_fluent.backends.adk.durable.compiling import DurableBackend
from adk_fluent.backends.adk.durable.steps import current
from adk_fluent.backends.temporal.engine import TemporalEngine
from adk_fluent.backends.temporal.policy import config_json, config_of
from adk_fluent.backends.temporal.workflow import serve, serve_segment
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed.backend import DistributedBackend
from adk_fluent.distributed.formats import from_bytes, to_bytes
from adk_fluent.distributed.queues.serving import task_queue_of
from adk_fluent.distributed.segments import Segment, cut
from adk_fluent.distributed.working import Worker, crossing_of, events_of, not_shared
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import resolve_names
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import Compiled
    from adk_fluent.backends.temporal.worker import Host


def hosting(segment: str | None = None) -> Host:
    """What lets a worker run all segments of an expression, or one of them.

    Args:
        segment: its name.
    """

    def host(node: Node, queue: str, backend: DurableBackend) -> Sequence[str]:
        parts = cut(resolve_names(node), ExecutionConfig())
        names = [part.name for part in parts]
        if segment is not None and segment not in names:
            known = ", ".join(map(repr, names))
            near = did_you_mean(segment, names)
            raise ArgumentError(f"There is no segment {segment!r}.{near} The pipeline has {known}.")
        wanted = [part for part in parts if segment in (None, part.name)]
        return [name for part in wanted for name in _serve(part, node, queue, backend)]

    return host


def queued(node: Node, segment: str | None = None) -> list[Segment]:
    """The segments of an expression, or the one of a name, whose work comes through a message broker."""
    parts = cut(resolve_names(node), ExecutionConfig())
    return [part for part in parts if part.is_queued and segment in (None, part.name)]


def shared_services(node: Node, segment: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The services of a worker; behind a queue, artifacts in the memory of one process are refused.

    Args:
        segment: the name of the segment to work on; by default all.
        given: service by name, as it was given.
    """
    parts = queued(node, segment)
    if not parts or places.is_shared(given.get("artifact_service")):
        return dict(given)
    using = next((part for part in parts if part.files), parts[0])
    return {**given, "artifact_service": places.NoPlace(not_shared(using))}


def _serve(segment: Segment, node: Node, queue: str, backend: DurableBackend) -> list[str]:
    """Let this process run a segment; the task queues of its workflows.

    The first segment runs in the workflow of the whole, unless a boundary stands before it.
    """
    names = list[str]()
    if segment.index == 0:
        is_whole = segment.next is None and not segment.is_cut_off
        serve(queue, node, backend if is_whole else Parent(backend, queue))
        names.append(queue)
    if segment.is_cut_off:
        names.append(_queue_of(segment, queue))
        serve_segment(names[-1], partial(_run, node, segment.name, backend))
    if segment.is_queued:
        names.append(segment.queue)  # where the work of each session takes turns, whatever its version
    return names


def _queue_of(segment: Segment, queue: str) -> str:
    """The task queue of a segment: the one that its boundary names, or one below that of the whole."""
    transport = segment.boundary.transport
    if transport is not None and transport.endpoint:
        return task_queue_of(segment.queue, segment.ir_hash)
    return f"{queue}/{segment.name}"


class Parent(DistributedBackend):
    """Runs the first segment as steps, and each of the others as a child workflow.

    Args:
        backend: what makes steps.
        queue: the task queue of the whole.
    """

    def __init__(self, backend: DurableBackend, queue: str) -> None:
        super().__init__(backend)
        self._durable, self._queue = backend, queue

    def compile(
        self,
        node: Node,
        config: ExecutionConfig | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> Compiled:
        """A native app whose effects are steps, and whose later segments are child workflows."""
        return self._durable.in_steps(super().compile(node, config, state=state, origins=origins))

    def first(self, node: Node) -> Node:
        """The first segment, which tells of itself what this worker tells of runs, as all others do."""
        return self._durable.telling(node)

    def services(self, given: Mapping[str, Any] | None = None) -> Services:
        """The services of a run."""
        return self._durable.services(given)

    def place(self, segment: Segment) -> segments.Elsewhere:
        """What runs a segment: a child workflow, wherever its workers are."""
        return Child(segment, _queue_of(segment, self._queue))


class Child:
    """Has a segment run as a child workflow; what it needs and does crosses as bytes."""

    def __init__(self, segment: Segment, queue: str) -> None:
        self._segment, self._queue = segment, queue

    async def run(self, work: segments.Work) -> AsyncGenerator[segments.Came, None]:
        """What happens in the segment."""
        segment, engine = self._segment, cast(TemporalEngine, current())
        form = segment.boundary.serialization
        asked = {
            "data": b64encode(to_bytes(crossing_of(segment, work), form)).decode(),
            "config": config_json(segment.config),
            "streaming": work.streaming,
        }
        child = engine.child("adk_fluent.segment", asked, self._queue, f"segment {segment.name!r}")
        async with aclosing(child) as told:
            async for pieces in told:
                for piece in [pieces] if isinstance(pieces, str) else pieces:
                    for came in events_of(segment, from_bytes(b64decode(piece), form)):
                        yield came


async def _run(
    node: Node, name: str, backend: DurableBackend, asked: Mapping[str, Any]
) -> AsyncGenerator[str, None]:
    """Run a segment with what crossed into it, and give what crosses back, event by event."""
    parts = cut(resolve_names(node), config_of(asked["config"]))
    segment = next(part for part in parts if part.name == name)
    form = segment.boundary.serialization
    crossing = from_bytes(b64decode(asked["data"]), form)
    async with aclosing(Worker(segment, backend).run(crossing)) as back:
        async for piece in back:
            yield b64encode(to_bytes(piece, form)).decode()
