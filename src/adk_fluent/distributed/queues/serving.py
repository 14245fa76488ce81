"""A worker of a queue: takes pieces of work, never does again what is done, and says what came of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from adk_fluent.distributed.crossing import Crossing, Happened, failed
from adk_fluent.distributed.formats import CONTENT_TYPES, from_bytes, to_bytes
from adk_fluent.distributed.queues.brokers import Broker, Message, broker_of
from adk_fluent.distributed.queues.journal import LEASE, Journal, held, journal_of
from adk_fluent.distributed.segments import Segment, split
from adk_fluent.distributed.working import Worker
from adk_fluent.errors import ArgumentError, SegmentError, SerializationError

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.backend import ADKBackend

DEAD: Final = ".dead"
"""What follows the name of a queue in that of its dead letters."""
MAX_ATTEMPTS: Final = 5
"""Deliveries of a piece of work that nobody lives through, after which it is a dead letter."""


class QueueWorker:
    """Runs a segment for whoever puts work into its queue; see `TransportConfig`.

    Each step that is finished is kept in the journal before the caller hears of it. So when a worker dies,
    the next delivery goes on behind the last finished step; when all was done, it only says so again. Two
    deliveries of one session never run at the same time. Work that no worker lives through, and messages that
    are none, go to the queue's dead letters (`<queue>.dead`), and the caller is told.

    Args:
        pipeline: the pipeline, or one segment of it.
        segment: the name of the segment; not needed where there is one with a queue.
        backend: what it runs on; by default ADK itself.
        journal: a file, or a `redis://` address; by default the queue's own server where that is Redis.
        at_once: pieces of work at the same time; the others stay with the broker.
        max_attempts: deliveries after which a piece of work is given up.
        redeliver_after: seconds after which work of a worker that died goes to another.

    Raises:
        ArgumentError: there is no such segment, it has no queue, or no journal is given.
        MissingExtraError: what talks to its broker is not installed.
    """

    def __init__(
        self,
        pipeline: object,
        *,
        segment: str | None = None,
        backend: ADKBackend | None = None,
        journal: str | PathLike[str] | Journal | None = None,
        at_once: int = 10,
        max_attempts: int = MAX_ATTEMPTS,
        redeliver_after: float = 2 * LEASE,
    ) -> None:
        from adk_fluent.backends.adk.running.backend import ADKBackend

        self.segment: Segment = _chosen(pipeline, segment)
        endpoint = endpoint_of(self.segment)
        self._broker: Broker = broker_of(endpoint)
        self._journal = _journal(journal, endpoint)
        self._worker = Worker(self.segment, backend or ADKBackend(), resumable=True)
        self._max_attempts = max_attempts
        self._sessions = WeakValueDictionary[str, asyncio.Lock]()
        self._broker.handle(self.segment.queue, self._take, at_once=at_once, redeliver_after=redeliver_after)

    async def start(self) -> None:
        """Begin to take work; returns when the broker is there.

        Raises:
            SegmentError: the broker, or where work is noted, is not there.
        """
        try:
            await self._broker.start()
        except Exception as error:
            await self._broker.close()
            raise not_there(self.segment, error) from error

    async def stop(self) -> None:
        """Take no more work; what is not finished goes to other workers.

        Except with Pub/Sub, which gives it to others at once, it has 15 seconds to finish.
        """
        await self._broker.close()
        await self._journal.close()

    # --- one message --------------------------------------------------------------------------------

    async def _take(self, message: Message) -> None:
        form = self.segment.boundary.serialization
        try:
            crossing = from_bytes(message.body, form)
        except SerializationError as error:
            await self._bury(message, str(error))
            return
        reply = message.headers.get("reply", "")
        session = f"{crossing.user_id}/{crossing.session_id}"
        lock = self._sessions.setdefault(session, asyncio.Lock())
        async with lock, held(self._journal, f"{self.segment.queue}/{session}"):
            await self._do(message, crossing, reply)

    async def _do(self, message: Message, crossing: Crossing, reply: str) -> None:
        """Do a piece of work, or what is left of it, and tell all of it."""
        key = f"{self.segment.queue}/{crossing.key}"
        done = await self._journal.load(key)
        for seq, frame in enumerate(done.frames):
            await self._tell(reply, crossing, seq, frame)
        if not done.finished:
            if not done.frames and time.time() > float(message.headers.get("expires", "inf")):
                return  # the caller has given it up, and was told that nobody had taken it
            attempts = await self._journal.attempt(key)
            if attempts > self._max_attempts:
                await self._give_up(message, crossing, reply, key, len(done.frames))
                return
            await self._tell(reply, crossing, -1, b"")  # somebody works on it
            await self._run(crossing, reply, key, done.frames)
        total = len((await self._journal.load(key)).frames)
        await self._tell(reply, crossing, total, b"", last=True)

    async def _run(self, crossing: Crossing, reply: str, key: str, before: Any) -> None:
        form = self.segment.boundary.serialization
        done = [from_bytes(frame, form) for frame in before]
        seq = len(done)
        try:
            async for back in self._worker.run(_after(crossing, done)):
                frame = to_bytes(back, form)
                await self._journal.add(key, frame)
                await self._tell(reply, crossing, seq, frame)
                seq += 1
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller is told, once and for all
            frame = to_bytes(failed(crossing, error), form)
            await self._journal.add(key, frame)
            await self._tell(reply, crossing, seq, frame)
        await self._journal.finish(key)

    async def _give_up(self, message: Message, crossing: Crossing, reply: str, key: str, seq: int) -> None:
        why = (
            f"Segment {self.segment.name!r} was given up after {self._max_attempts} deliveries that no "
            f"worker lived through; it is among the dead letters {self.segment.queue + DEAD!r}."
        )
        await self._bury(message, why)
        frame = to_bytes(failed(crossing, SegmentError(why)), self.segment.boundary.serialization)
        await self._journal.add(key, frame)
        await self._journal.finish(key)
        await self._tell(reply, crossing, seq, frame)
        await self._tell(reply, crossing, seq + 1, b"", last=True)

    async def _bury(self, message: Message, why: str) -> None:
        headers = {**message.headers, "reason": why}
        await self._broker.publish(self.segment.queue + DEAD, Message(message.body, headers))

    async def _tell(
        self, reply: str, crossing: Crossing, seq: int, frame: bytes, *, last: bool = False
    ) -> None:
        if not reply:
            return
        headers = {"key": crossing.key, "seq": str(seq), "last": "yes" if last else "no"}
        headers["content-type"] = CONTENT_TYPES[self.segment.boundary.serialization]
        await self._broker.publish(reply, Message(frame or b"-", headers))


def _after(crossing: Crossing, done: list[Crossing]) -> Crossing:
    """What is left of a piece of work of which some steps are finished."""
    if not done:
        return crossing
    own = list(crossing.own)
    if crossing.answer is not None:
        own.append(Happened({"author": "user", "content": crossing.answer}))
    own += [happened for back in done for happened in back.events]
    return replace(crossing, own=tuple(own), answer=None)


def _chosen(pipeline: object, name: str | None) -> Segment:
    parts = [pipeline] if isinstance(pipeline, Segment) else split(pipeline)
    queued = [part for part in parts if part.boundary.transport is not None]
    known = ", ".join(part.name for part in queued) or "none"
    chosen = [part for part in parts if part.name == name] if name is not None else queued
    if len(chosen) != 1:
        raise ArgumentError(
            f"QueueWorker(segment={name!r}): name one of the segments that have a queue; there is {known}."
        )
    return chosen[0]


def not_there(segment: Segment, error: BaseException) -> SegmentError:
    """What is said of a broker that cannot be reached."""
    return SegmentError(
        f"The queue of segment {segment.name!r} is not there: {type(error).__name__}: {error!s:.120}. "
        "Start the broker, or correct TransportConfig(endpoint=...)."
    )


def endpoint_of(segment: Segment) -> str:
    """Where the queue of a segment is.

    Raises:
        ArgumentError: its boundary does not say.
    """
    transport = segment.boundary.transport
    if transport is None or transport.endpoint is None:
        raise ArgumentError(
            f"Segment {segment.name!r} has no queue: give its boundary a "
            "transport=TransportConfig(endpoint='redis://host:6379/queue')."
        )
    return transport.endpoint


def _journal(given: str | PathLike[str] | Journal | None, endpoint: str) -> Journal:
    if given is None and endpoint.startswith(("redis://", "rediss://")):
        given = endpoint.rpartition("/")[0]
    if given is None:
        raise ArgumentError("QueueWorker(journal=) names a file, or a redis:// address, where work is noted.")
    return journal_of(given) if isinstance(given, str | PathLike) else given
