"""Message brokers, as little of each as "there is work" needs: named queues with at-least-once delivery."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol
from weakref import WeakSet

from adk_fluent._redaction import safe_url
from adk_fluent._tasks import PerLoop
from adk_fluent.errors import ArgumentError, MissingExtraError, install
from adk_fluent.ir.endpoints import ENGINE, place_of_queue

AT_ONCE: Final = 50
"""Messages that one consumer handles at the same time; the rest stays with the broker."""
REDELIVER_AFTER: Final = 30
"""Seconds after which a message that its consumer has not acknowledged goes to another one."""
ANSWERS: Final = 10
"""Seconds that a broker has to answer; then the connection counts as lost."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts to connect to a broker that is away: at first, and at most."""
logger: Final = logging.getLogger("adk_fluent.queues")


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        body: what it holds.
        headers: text about it.
    """

    body: bytes
    headers: Mapping[str, str]


Handler = Callable[[Message], Awaitable[None]]
"""Takes a message. It is acknowledged when this returns; what raises is delivered again."""


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do work at the same time; when one fails, or this is cancelled, all have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def end_if_cancelled() -> None:
    """End the task that runs here if it was cancelled: some clients lose that, or raise another error.

    Raises:
        CancelledError: it was.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Broker(Protocol):
    """A connection to a message broker, of one event loop."""

    async def open(self) -> None:
        """Connect."""
        ...

    async def put(self, queue: str, message: Message) -> None:
        """Put a message into a queue, which is made; returns when the broker has it."""
        ...

    async def take(self, queue: str, handler: Handler) -> None:
        """Handle the messages of a queue, until cancelled or until the connection is lost."""
        ...

    async def close(self) -> None:
        """Disconnect; messages that were not acknowledged go to others."""
        ...


def broker_of(endpoint: str) -> Broker:
    """The broker of an endpoint, not yet connected.

    Raises:
        ArgumentError: no broker serves its scheme, or it names no queue.
        MissingExtraError: the client library is not installed.
    """
    place = place_of_queue(endpoint)
    if place.scheme == ENGINE:
        raise ArgumentError(
            f"TransportConfig(endpoint={safe_url(endpoint)!r:.80}) names a task queue of Temporal, not "
            "a broker: run the pipeline on TemporalBackend."
        )
    kind, extra = _KINDS[place.scheme]
    try:
        module = import_module(f"adk_fluent.distributed.queues.{kind}")
    except ImportError as error:
        raise MissingExtraError(
            f"A queue at {place.scheme}:// needs its client: {install(extra)}."
        ) from error
    made: Any = module.connection(place.server)
    return made


_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "redis": ("redis", "queues"),
    "rediss": ("redis", "queues"),
    "nats": ("nats", "queues"),
    "amqp": ("rabbit", "queues"),
    "amqps": ("rabbit", "queues"),
    "pubsub": ("pubsub", "pubsub"),
}


class Outage:
    """Whether a broker, or the engine behind it, is away. One log line says so, another one that it is back.

    Args:
        what: what is away, as the lines name it.

    Attributes:
        error: the last error while it is away.
        pause: seconds until the next attempt; more after each one that failed.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.error: Exception | None = None
        self.pause: float = FIRST_PAUSE

    def failed(self, error: Exception) -> None:
        """Note an attempt that failed."""
        if self.error is None:
            logger.warning("%s is away, waiting for it: %s", self._what, why(error))
        else:
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        self.error = error

    def succeeded(self) -> None:
        """Note an attempt that did not fail."""
        if self.error is not None:
            logger.warning("%s is back.", self._what)
        self.error, self.pause = None, FIRST_PAUSE


class BrokerConnection:
    """The connection of one event loop to the broker of an endpoint, for all that put messages there.

    If it is lost, the next message makes it again. While that fails, attempts are made one at a time, with
    pauses between them; other messages fail with the error of the last attempt.
    """

    def __init__(self, endpoint: str) -> None:
        self.users: WeakSet[object] = WeakSet()
        self._endpoint = endpoint
        self._alone = asyncio.Lock()
        self._broker: Broker | None = None
        self._outage = Outage(f"The broker of {safe_url(endpoint)}")
        self._again = 0.0

    async def put(self, queue: str, message: Message) -> None:
        """Put a message into a queue.

        Raises:
            Exception: whatever the client of the broker raises.
        """
        broker = await self._opened()
        try:
            await broker.put(queue, message)
        except Exception:
            if self._broker is broker:
                await self.close()
            raise

    async def _opened(self) -> Broker:
        async with self._alone:
            if self._broker is not None:
                return self._broker
            if self._outage.error is not None and time.monotonic() < self._again:
                raise self._outage.error.with_traceback(None)
            broker = broker_of(self._endpoint)
            try:
                await broker.open()
            except BaseException as error:
                await _closed(broker)
                if isinstance(error, Exception):
                    self._outage.failed(error)
                    self._again = time.monotonic() + self._outage.pause
                raise
            self._outage.succeeded()
            self._broker = broker
            return broker

    async def close(self) -> None:
        """Disconnect; the next message connects again."""
        if self._broker is not None:
            broker, self._broker = self._broker, None
            await _closed(broker)


def connection_to(endpoint: str, user: object) -> BrokerConnection:
    """The connection of this event loop to the broker of an endpoint; it closes at the end of the loop.

    Args:
        user: what uses it, until it leaves.
    """
    here = _connections.here()
    server = place_of_queue(endpoint).server
    connection = here.setdefault(server, BrokerConnection(endpoint))
    connection.users.add(user)
    return connection


async def disconnect(endpoint: str, user: object) -> None:
    """Take a user from the connection of this event loop, which is closed when it has none left."""
    connection = _connections.here().get(place_of_queue(endpoint).server)
    if connection is not None:
        connection.users.discard(user)
        if not connection.users:
            await connection.close()


async def _closed(broker: Broker) -> None:
    with suppress(Exception):  # it may be closed, or never have been open
        await broker.close()


async def _all_closed(connections: Mapping[str, BrokerConnection]) -> None:
    for connection in connections.values():
        await connection.close()


_connections: Final = PerLoop(dict[str, BrokerConnection], close=_all_closed)


SECRET: Final = re.compile(r"(?<=://)[^/@\s]*@")
"""The user and password in a URL."""


def why(error: BaseException) -> str:
    """An error of a client in one line, without passwords."""
    text = " ".join(SECRET.sub("", str(error)).split())
    return f"{type(error).__name__}: {text:.160}"
