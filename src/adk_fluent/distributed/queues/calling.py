"""The caller of a queue: puts work in, and hears what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from adk_fluent.distributed.formats import CONTENT_TYPES, from_bytes, to_bytes
from adk_fluent.distributed.queues.brokers import Broker, Message, answers_for, broker_of
from adk_fluent.distributed.queues.serving import endpoint_of, not_there
from adk_fluent.distributed.working import check_failed, check_files, crossing_of, events_of
from adk_fluent.errors import SegmentError

if TYPE_CHECKING:
    from adk_fluent.backends.adk.steps.segment import Came, Work
    from adk_fluent.distributed.segments import Segment

MOST: Final = 100
"""Pieces of work that one caller has in a queue at the same time; the others wait with it."""


class Queue:
    """Runs a segment through its queue; work of a session is put in when that before it has come back.

    Args:
        segment: the segment.
        patience: seconds until a worker must have taken the work.
    """

    def __init__(self, segment: Segment, patience: float) -> None:
        self._segment, self._patience = segment, patience
        self._endpoint = endpoint_of(segment)
        broker_of(self._endpoint)  # which says what is wrong with it before anything runs
        self._lines = WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]()

    async def run(self, work: Work) -> AsyncGenerator[Came, None]:
        """What happens in the segment.

        Raises:
            SegmentError: the broker is not there, or no worker has taken the work in time.
            BackendError: it uses artifacts, and the caller keeps those in memory.
        """
        segment, form = self._segment, self._segment.boundary.serialization
        check_files(segment, work.services.get("artifact_service"))
        crossing = crossing_of(segment, work)
        line = await self._line()
        async with line.turn_of(f"{work.user_id}/{work.session_id}"), line.slots:
            heard = line.heard[crossing.key] = asyncio.Queue[Message]()
            try:
                await line.broker.publish(
                    segment.queue,
                    Message(
                        to_bytes(crossing, form),
                        {
                            "reply": line.reply,
                            "session": work.session_id,
                            "expires": str(time.time() + self._patience),
                            "content-type": CONTENT_TYPES[form],
                        },
                    ),
                )
                async for data in self._frames(heard):
                    back = from_bytes(data, form)
                    check_failed(segment, back)
                    for came in events_of(segment, back):
                        yield came
            finally:
                del line.heard[crossing.key]

    async def _frames(self, heard: asyncio.Queue[Message]) -> AsyncGenerator[bytes, None]:
        """What came back, each once and in order, however often and in which order it was delivered."""
        waiting: dict[int, Message] = {}
        following = 0
        limit: float | None = self._patience
        while True:
            try:
                async with asyncio.timeout(limit):
                    message = await heard.get()
            except TimeoutError:
                raise SegmentError(
                    f"No worker took the work of segment {self._segment.name!r} from the queue "
                    f"{self._segment.queue!r} within {self._patience:g} seconds. Start one with QueueWorker, "
                    "or give it more time: DistributedBackend(patience=seconds)."
                ) from None
            limit = None
            waiting[int(message.headers["seq"])] = message
            while (next_one := waiting.pop(following, None)) is not None:
                if next_one.headers["last"] == "yes":
                    return
                following += 1
                yield next_one.body

    async def close(self) -> None:
        """Disconnect this event loop."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            assert line.starting is not None
            await asyncio.gather(line.starting, return_exceptions=True)
            await line.broker.close()

    async def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line(broker_of(self._endpoint), answers_for(self._segment.queue))
            line.broker.handle(line.reply, line.hear, at_once=1, redeliver_after=3600)
            line.starting = asyncio.ensure_future(line.start())
        assert line.starting is not None
        try:
            await asyncio.shield(line.starting)
        except Exception as error:
            if self._lines.get(loop) is line:
                del self._lines[loop]
            raise not_there(self._segment, error) from error
        return line


@dataclass(eq=False)
class _Line:
    """A connection of one event loop.

    Attributes:
        broker: what it talks to.
        reply: the topic in which it hears.
        heard: key of a piece of work → what was heard of it.
        slots: how much work it may have in the queue.
        turns: session → what its next piece of work waits for.
        starting: its connecting.
    """

    broker: Broker
    reply: str
    heard: dict[str, asyncio.Queue[Message]] = field(default_factory=dict[str, "asyncio.Queue[Message]"])
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST))
    turns: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary[str, asyncio.Lock]
    )
    starting: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Connect; what does not succeed leaves no connection."""
        try:
            await self.broker.start()
        except Exception:
            await self.broker.close()
            raise

    def turn_of(self, session: str) -> asyncio.Lock:
        """What the next piece of work of a session waits for: those before it."""
        return self.turns.setdefault(session, asyncio.Lock())

    async def hear(self, message: Message) -> None:
        """Pass on what a worker said; what nobody waits for any more is dropped."""
        if (waiting := self.heard.get(message.headers.get("key", ""))) is not None:
            waiting.put_nowait(message)
