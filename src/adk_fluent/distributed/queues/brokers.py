"""Message brokers, each as little as work and answers need: topics with at-least-once delivery."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from adk_fluent.errors import ArgumentError, MissingExtraError

SCHEMES: Final = ("redis", "rediss", "nats", "amqp", "amqps", "pubsub")
"""The schemes of endpoints that a broker serves."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        body: what it holds.
        headers: text about it.
    """

    body: bytes
    headers: Mapping[str, str]


DAY: Final = 24 * 3600
"""Seconds that a broker keeps the answers for a caller that gives no sign of life any more."""
_REPLIES: Final = ".replies"
_ANSWERS: Final = re.compile(rf"(.+{re.escape(_REPLIES)})\.([0-9a-f]{{32}})")


def answers_for(queue: str) -> str:
    """A new topic for what comes back of a queue to one caller, at whose end its broker lets it go."""
    return f"{queue}{_REPLIES}.{uuid.uuid4().hex}"


def caller_in(topic: str) -> tuple[str, str] | None:
    """The name that the topics of all callers of a queue begin with, and the caller; `None` of work."""
    found = _ANSWERS.fullmatch(topic)
    return None if found is None else (found[1], found[2])


Handler = Callable[[Message], Awaitable[None]]
"""Takes a message. It is acknowledged when this returns; what raises is delivered again."""


class Broker(Protocol):
    """A connection to a message broker. Handlers are set before it starts."""

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a topic.

        Args:
            at_once: so many at the same time, and no more from the broker.
            redeliver_after: seconds after which what was not acknowledged goes to somebody else.
        """
        ...

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        ...

    async def publish(self, topic: str, message: Message) -> None:
        """Put a message into a topic; returns when the broker has it."""
        ...

    async def close(self) -> None:
        """Disconnect; what was not acknowledged goes to others, and topics for answers go."""
        ...


def broker_of(endpoint: str) -> Broker:
    """The broker of an endpoint; the end of its path, which names the queue, does not count.

    Raises:
        ArgumentError: no broker serves its scheme.
        MissingExtraError: what talks to it is not installed.
    """
    scheme, _, rest = endpoint.partition("://")
    if scheme not in SCHEMES:
        other = " Temporal's are served by TemporalBackend." if scheme == "temporal" else ""
        raise ArgumentError(
            f"TransportConfig(endpoint={endpoint!r}): queues are at {', '.join(s + '://' for s in SCHEMES)}."
            f"{other}"
        )
    if scheme == "pubsub":
        return _pubsub(endpoint)
    server = f"{scheme}://{rest.rstrip('/').rpartition('/')[0] or rest}"
    try:
        from adk_fluent.distributed.queues import faststream
    except ImportError as error:
        raise MissingExtraError(
            f"A queue at {scheme}:// needs FastStream: pip install 'adk-fluent[queues]'."
        ) from error
    made: dict[str, Callable[[str], Any]] = {"nats": faststream.Nats, "amqp": faststream.Rabbit}
    return made.get(scheme.removesuffix("s") if scheme == "amqps" else scheme, faststream.Redis)(server)


_TOPIC: Final = re.compile(r"pubsub://projects/([^/]+)/topics/[A-Za-z][\w.~+%-]{2,200}")


def _pubsub(endpoint: str) -> Broker:
    found = _TOPIC.fullmatch(endpoint)
    if found is None:
        raise ArgumentError(
            f"TransportConfig(endpoint={endpoint!r}): a topic is at pubsub://projects/PROJECT/topics/TOPIC; "
            "its name begins with a letter and has three or more."
        )
    try:
        from adk_fluent.distributed.queues.pubsub import PubSub
    except ImportError as error:
        raise MissingExtraError(
            "A queue at pubsub:// needs Google's client: pip install 'adk-fluent[pubsub]'."
        ) from error
    return PubSub(found[1])
