"""The worker of a queue: starts a workflow for each message, under the message's id."""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from adk_fluent._tracebacks import in_logs
from adk_fluent.distributed.crossing import Crossing
from adk_fluent.distributed.formats import from_bytes
from adk_fluent.distributed.queues.brokers import (
    Broker,
    Message,
    Outage,
    broker_of,
    end_if_cancelled,
    logger,
)
from adk_fluent.distributed.segments import Segment
from adk_fluent.errors import ArgumentError, EngineError, SerializationError

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.connecting import Address
    from adk_fluent.backends.temporal.turns import Turnstile, Work

DEAD: Final = ".dead"
"""What follows the name of a queue in that of its dead letters."""
_HASH: Final = re.compile("[0-9a-f]{12,}")


@asynccontextmanager
async def consuming(segments: Iterable[Segment], address: Address) -> AsyncGenerator[None]:
    """Inside, this process takes the messages of the queues of segments.

    Raises:
        EngineError: the Temporal server does not answer.
        ArgumentError: no broker serves the endpoint.
        MissingExtraError: the client library of a broker is not installed.
    """
    from adk_fluent.backends.temporal.turns import Turnstile

    engine = Turnstile(address)
    takers = [Taker(segment, engine, await engine.retention()) for segment in segments]
    tasks = [asyncio.ensure_future(taker.run()) for taker in takers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Taker:
    """Takes the messages of one queue.

    Each becomes a workflow under an id of its own, so that one that is delivered again joins the workflow it
    started before. A message is acknowledged when the engine has the work.

    Args:
        segment: the segment that has the queue.
        engine: where workflows are started.
        retention: seconds for which the engine knows a workflow that has ended; older messages are refused.
    """

    def __init__(self, segment: Segment, engine: Turnstile, retention: float) -> None:
        self._segment, self._engine, self._retention = segment, engine, retention
        self._broker: Broker = broker_of(segment.endpoint)
        self._outage = Outage(f"Queue {segment.queue!r}")
        self._engine_outage = Outage(f"The engine of queue {segment.queue!r}")
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def run(self) -> None:
        """Take messages until cancelled; wait for a broker that is away, and for the engine."""
        while True:
            try:
                await self._broker.open()
                self._outage.succeeded()
                await self._broker.take(self._segment.queue, self.take)
            except EngineError:
                pass  # take() noted it
            except Exception as error:  # noqa: BLE001  # a client may raise anything, also when it is cancelled
                end_if_cancelled()
                self._outage.failed(error)
            finally:
                with suppress(Exception):  # what is lost cannot be closed
                    await self._broker.close()
            end_if_cancelled()
            await asyncio.sleep(self._outage.pause)
            self._broker = broker_of(self._segment.endpoint)

    async def take(self, message: Message) -> None:
        """Start what a message asks for; returns when the engine has it, or when it is a dead letter.

        Raises:
            EngineError: the engine does not answer.
        """
        segment = self._segment
        try:
            crossing = from_bytes(message.body, segment.boundary.serialization)
            self._check(crossing, message)
            policy = _policy_of(message)
        except SerializationError as error:
            logger.error(
                "Queue %r: a message is a dead letter: %s",
                segment.queue,
                in_logs(error) if error.__cause__ else error,
            )
            headers = {**message.headers, "reason": str(error)}
            await self._broker.put(segment.queue + DEAD, Message(message.body, headers))
            return
        from adk_fluent.backends.temporal.policy import config_json

        asked = {
            "data": b64encode(message.body).decode(),
            "config": config_json(segment.config),
            "queued": True,
            "policy": policy,
        }
        work = work_in(segment.queue, crossing)
        turn = self._turns.setdefault(work.session, asyncio.Lock())
        try:
            async with turn:  # in the order in which they came
                await self._engine.start(work, task_queue_of(segment.queue, crossing.ir_hash), asked)
        except EngineError as error:  # here, since a broker may handle it and deliver the message again
            self._engine_outage.failed(error)
            raise
        self._engine_outage.succeeded()

    def _check(self, crossing: Crossing, message: Message) -> None:
        """Refuse what is no work for this segment, or older than what the engine remembers.

        Raises:
            SerializationError: it is.
        """
        if crossing.segment != self._segment.name:
            raise SerializationError(f"It is for segment {crossing.segment!r:.60}.")
        if not (crossing.run_id and crossing.session_id and _HASH.fullmatch(crossing.ir_hash)):
            raise SerializationError("It lacks the id of its run, its session, or the hash of its segment.")
        with suppress(ValueError):  # a sender of another kind says no time
            if time.time() - float(message.headers.get("sent", "inf")) > self._retention:
                raise SerializationError(
                    f"It is older than the {self._retention:g} s for which Temporal remembers runs, and may "
                    "have run before."
                )


def _policy_of(message: Message) -> dict[str, Any]:
    """How the caller wants steps to be done.

    Raises:
        SerializationError: it says that in a way which is not valid.
    """
    from adk_fluent.backends.temporal.policy import StepPolicy

    try:
        return asdict(StepPolicy(**json.loads(message.headers.get("policy", "{}"))))
    except (ValueError, TypeError, ArgumentError) as error:
        raise SerializationError(f"Its header policy is no StepPolicy: {error}") from error


def work_in(queue: str, crossing: Crossing) -> Work:
    """The work that crosses, as the engine names it."""
    from adk_fluent.backends.temporal.turns import Work

    return Work(queue, crossing.key, f"{crossing.user_id}\0{crossing.session_id}")


def task_queue_of(queue: str, ir_hash: str) -> str:
    """The task queue of the workers that have this version of a segment."""
    return f"{queue}@{ir_hash[:12]}"
