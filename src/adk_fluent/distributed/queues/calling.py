"""The caller of a queue: says that there is work, and reads from the engine what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from adk_fluent.distributed.formats import CONTENT_TYPES, from_bytes, to_bytes
from adk_fluent.distributed.queues.brokers import Message, broker_of, connection_to, disconnect, why
from adk_fluent.distributed.queues.serving import task_queue_of, work_in
from adk_fluent.distributed.working import check_files, crossing_of, events_of
from adk_fluent.errors import SegmentError

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import segments
    from adk_fluent.backends.temporal import turns
    from adk_fluent.backends.temporal.connecting import Address
    from adk_fluent.backends.temporal.policy import StepPolicy
    from adk_fluent.distributed.segments import Segment

MOST: Final = 100
"""Pieces of work that one caller has at a queue at the same time; the others wait in the caller."""
SEND_AGAIN: Final = 5.0
"""Seconds after which a message that no worker has taken is sent again, in case the broker lost it."""
_LOOKS: Final = (0.02, 1.0)
"""Seconds between two looks whether work was taken: at first, and at most while few others look."""
_SHARE: Final = 0.02
"""Seconds between two looks for each piece of work that is not taken yet: 50 looks a second in all."""


class Queue:
    """Runs a segment by its queue.

    Args:
        segment: the segment.
        address: the Temporal server that the workers use.
        patience: seconds until a worker must have taken the work.
        policy: how the engine does its steps.
    """

    def __init__(self, segment: Segment, address: Address, patience: float, policy: StepPolicy) -> None:
        from adk_fluent.backends.temporal.turns import Turnstile

        self._segment, self._patience = segment, patience
        self._policy = json.dumps(asdict(policy))
        self._engine = Turnstile(address)
        self._endpoint = segment.endpoint
        broker_of(self._endpoint)  # which says what is wrong with it before anything runs
        self._lines = WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]()

    async def run(self, work: segments.Work) -> AsyncGenerator[segments.Came, None]:
        """What happens in the segment; who stops waiting leaves the work to the engine.

        Raises:
            SegmentError: the broker is not there, or no worker has taken the work in time.
            EngineError: the Temporal server does not answer.
            RunError: what goes in is more than the engine holds.
            BackendError: it uses artifacts, and the caller keeps those in memory.
        """
        from adk_fluent.backends.temporal.sizes import SMALLER, check_size

        segment, form = self._segment, self._segment.boundary.serialization
        check_files(segment, work.services.get("artifact_service"))
        crossing = crossing_of(segment, work)
        data = to_bytes(crossing, form)
        check_size(b64encode(data).decode(), f"What goes into segment {segment.name!r}", SMALLER)
        headers = {
            "content-type": CONTENT_TYPES[form],
            "sent": f"{time.time():.0f}",
            "policy": self._policy,
        }
        named = work_in(segment.queue, crossing)
        line = self._lines.setdefault(asyncio.get_running_loop(), _Line())
        async with line.turns.setdefault(named.session, asyncio.Lock()), line.slots:
            await self._handed_over(line, named, Message(data, headers))
            pieces, error = await self._engine.result(
                named, task_queue_of(segment.queue, segment.ir_hash), self._patience
            )
        for piece in pieces:
            for came in events_of(segment, from_bytes(b64decode(piece), form)):
                yield came
        if error is not None:
            raise error

    async def _handed_over(self, line: _Line, work: turns.Work, message: Message) -> None:
        """Put a message into the queue; returns when the engine has the work."""
        engine, end = self._engine, time.monotonic() + self._patience
        wait, again, failure = _LOOKS[0], 0.0, None
        with line.looking():
            while not await engine.is_started(work):
                now = time.monotonic()
                if now >= again and (again == 0.0 or not await engine.is_busy(work)):
                    again = now + SEND_AGAIN
                    try:
                        await connection_to(self._endpoint, self).put(self._segment.queue, message)
                        failure = None
                    except Exception as error:  # noqa: BLE001  # a transport may raise anything; it is told below
                        failure, again = error, now + 1.0
                if now >= end and not await engine.is_busy(work) and await engine.forbid(work):
                    raise self._not_taken(failure) from failure
                await asyncio.sleep(max(wait, line.lookers * _SHARE))
                wait = min(wait * 1.5, _LOOKS[1])

    def _not_taken(self, failure: Exception | None) -> SegmentError:
        if failure is not None:
            return SegmentError(
                f"The queue of segment {self._segment.name!r} is not there: {why(failure)}. Start the "
                "broker, or correct TransportConfig(endpoint=...)."
            )
        return SegmentError(
            f"No worker took the work of segment {self._segment.name!r} from the queue "
            f"{self._segment.queue!r} within {self._patience:g} seconds; none will. Start one (adk-fluent "
            f"worker TARGET --segment {self._segment.name}), or give it more time: "
            "DistributedBackend(patience=seconds)."
        )

    async def close(self) -> None:
        """Disconnect this event loop from the broker, unless other queues use the connection."""
        self._lines.pop(asyncio.get_running_loop(), None)
        await disconnect(self._endpoint, self)


@dataclass(eq=False)
class _Line:
    """The pieces of work of one event loop that are at the queue or wait for it.

    Attributes:
        slots: how much work may be at the queue.
        turns: session → what its next piece of work waits for: those before it.
        lookers: how many pieces of work are not taken yet.
    """

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST))
    turns: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary[str, asyncio.Lock]
    )
    lookers: int = 0

    @contextmanager
    def looking(self) -> Generator[None]:
        """Inside, one more piece of work is not taken yet."""
        self.lookers += 1
        try:
            yield
        finally:
            self.lookers -= 1
