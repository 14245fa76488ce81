"""Message brokers, as little of each as "there is work" needs: named queues with at-least-once delivery."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from adk_fluent._redaction import safe_url
from adk_fluent.errors import ArgumentError, MissingExtraError
from adk_fluent.ir.endpoints import ENGINE, place_of_queue

AT_ONCE: Final = 50
"""Messages that one consumer handles at the same time; the rest stays with the broker."""
REDELIVER_AFTER: Final = 30
"""Seconds after which a message that its consumer has not acknowledged goes to another one."""
ANSWERS: Final = 10
"""Seconds that a broker has to answer; then the connection counts as lost."""


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
            f"A queue at {place.scheme}:// needs its client: pip install 'adk-fluent[{extra}]'."
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

SECRET: Final = re.compile(r"(?<=://)[^/@\s]*@")
"""The user and password in a URL."""


def why(error: BaseException) -> str:
    """An error of a client in one line, without passwords."""
    text = " ".join(SECRET.sub("", str(error)).split())
    return f"{type(error).__name__}: {text:.160}"
