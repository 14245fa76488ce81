"""Runs a segment with what crossed into it: in this process, or for another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adk_fluent import errors
from adk_fluent.backends.adk.api import places, segments
from adk_fluent.backends.adk.durable.failures import raised
from adk_fluent.distributed.crossing import Crossing, inward, outward
from adk_fluent.distributed.formats import from_bytes, to_bytes
from adk_fluent.errors import BackendError, SegmentError
from adk_fluent.state.delta import unpack

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService

    from adk_fluent.backends.adk.api import ADKBackend, Compiled
    from adk_fluent.distributed.segments import Segment


class InProcess:
    """Runs a segment in this process, as an app of its own; what it needs and does crosses as bytes.

    Args:
        segment: the segment.
        backend: what it runs on.
    """

    def __init__(self, segment: Segment, backend: ADKBackend) -> None:
        self._segment = segment
        self._worker = Worker(segment, backend)

    async def run(self, work: segments.Work) -> AsyncGenerator[segments.Came, None]:
        """What happens in the segment."""
        segment, form = self._segment, self._segment.boundary.serialization
        data = to_bytes(crossing_of(segment, work), form)
        async for back in self._worker.run(from_bytes(data, form), work.services):
            for came in events_of(segment, from_bytes(to_bytes(back, form), form)):
                yield came


class Worker:
    """Runs a segment with what crossed into it.

    Args:
        segment: the segment.
        backend: what it runs on.
    """

    def __init__(self, segment: Segment, backend: ADKBackend) -> None:
        self.segment = segment
        self._backend = backend
        self._compiled: Compiled | None = None
        self._nowhere = places.NoPlace(not_shared(segment))

    @property
    def compiled(self) -> Compiled:
        """The segment as a native app; compiled once."""
        if self._compiled is None:
            segment = self.segment
            made = self._backend.compile(segment.node, segment.config, state=None, origins=segment.origins)
            self._compiled = segments.continuing(made, segment.hears.authors | segment.hears.earlier)
        return self._compiled

    async def run(
        self, crossing: Crossing, services: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[Crossing, None]:
        """What comes back, event by event.

        Args:
            services: where artifacts and memories are, by name; by default those of the backend.

        Raises:
            SegmentError: the caller has another version of the segment.
            BackendError: it uses artifacts, and this process keeps its own in memory.
            SerializationError: it wrote what is no data.
        """
        if crossing.ir_hash != self.segment.ir_hash:
            raise SegmentError(
                f"Segment {self.segment.name!r} is another version here ({self.segment.ir_hash[:8]}) than at "
                f"its caller ({crossing.ir_hash[:8]}). Deploy the same pipeline on both sides; one that "
                "stands in a script which is run is another than in a module that is imported."
            )
        work = work_of(self.segment, crossing)
        given = self._backend.services(services)
        if services is None:
            check_files(self.segment, given.artifact_service)
            if not places.is_shared(given.artifact_service):  # a function may use one that nobody knows of
                given = replace(given, artifact_service=self._nowhere)
        async for came in segments.run_segment(self.compiled, work, given, self.segment.reads):
            yield outward(self.segment, crossing, [came])


def check_files(segment: Segment, service: BaseArtifactService | None) -> None:
    """Refuse to run a segment elsewhere with artifacts that stay in the memory of one process.

    Raises:
        BackendError: it uses artifacts, and this is where they are kept.
    """
    if segment.files and not places.is_shared(service):
        raise BackendError(not_shared(segment))


def not_shared(segment: Segment) -> str:
    """The refusal of artifacts that stay in the memory of one process."""
    named = ", ".join(map(repr, filter(None, segment.files))) or "artifacts"
    return (
        f"Segment {segment.name!r} uses {named}, and artifacts in the memory of one process do not cross."
        " Keep them in a folder or bucket that both name: artifact_service=FileArtifactService(...), "
        "and --artifacts PLACE for a worker."
    )


def crossing_of(segment: Segment, work: segments.Work) -> Crossing:
    """What goes into a segment, of what its caller knows."""
    return inward(
        segment,
        state=work.state,
        history=work.history,
        events=work.events,
        message=work.message,
        run_id=work.run_id,
        user_id=work.user_id,
        session_id=work.session_id,
        own=work.own,
        answer=work.answer,
        streaming=work.streaming,
    )


def work_of(segment: Segment, crossing: Crossing) -> segments.Work:
    """What a segment is given, of what crossed."""
    return segments.Work(
        run_id=crossing.run_id,
        user_id=crossing.user_id,
        session_id=crossing.session_id,
        state=unpack(crossing.state, segment.fields),
        message=crossing.message,
        history=[happened.event for happened in crossing.history],
        events=[happened.event for happened in crossing.events],
        own=[(happened.event, unpack(happened.delta, segment.fields)) for happened in crossing.own],
        answer=crossing.answer,
        streaming=crossing.streaming,
    )


def events_of(segment: Segment, back: Crossing) -> list[segments.Came]:
    """What happened in a segment, of what came back."""
    return [(happened.event, unpack(happened.delta, segment.fields)) for happened in back.events]


def check_failed(segment: Segment, back: Crossing) -> None:
    """Raise what a segment failed with somewhere else: its own error where that is one of adk-fluent's.

    Raises:
        ADKFluentError: it did; what caused it there is its `__cause__`.
    """
    if back.error is None:
        return
    error = raised(back.error)
    module, _, name = str(back.error["type"]).partition(":")
    if module == errors.__name__ and type(error).__qualname__ == name:
        raise error from error.__cause__
    raise SegmentError(
        f"Segment {segment.name!r} failed: {name.rpartition('.')[2]}: {back.error['message']}"
    ) from error
