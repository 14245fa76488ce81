"""Redis Streams, NATS JetStream and RabbitMQ through FastStream."""

from __future__ import annotations

import uuid
from typing import Any, Final

from faststream import AckPolicy, Context
from redis import asyncio as redis

from adk_fluent.distributed.queues.brokers import Handler, Message

_GROUP: Final = "adk_fluent"
_MESSAGE: Any = Context("message")


def _taking(handler: Handler) -> Any:
    async def take(message: Any = _MESSAGE) -> None:
        headers = {str(name): str(value) for name, value in message.headers.items()}
        await handler(Message(bytes(message.body), headers))

    return take


class _FastStream:
    """What the three have in common: a broker of FastStream's."""

    _broker: Any

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        await self._broker.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._broker.stop()


class Redis(_FastStream):
    """Redis Streams: a topic is a stream, its readers are one consumer group.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.redis import RedisBroker

        quiet: Any = None
        self._broker = RedisBroker(url, logger=quiet)
        self._url, self._consumer = url, uuid.uuid4().hex
        self._handled: set[str] = set()
        self._known: set[str] = set()

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a stream, and those that another reader has left."""
        from faststream.redis import StreamSub

        self._handled.add(topic)
        idle = int(redeliver_after * 1000)
        sources = (
            StreamSub(topic, group=_GROUP, consumer=self._consumer, last_id=">", max_records=1),
            StreamSub(topic, group=_GROUP, consumer=self._consumer, min_idle_time=idle, max_records=1),
        )
        for source in sources:
            self._broker.subscriber(
                stream=source, max_workers=at_once, ack_policy=AckPolicy.NACK_ON_ERROR, no_reply=True
            )(_taking(handler))

    async def publish(self, topic: str, message: Message) -> None:
        """Add a message to a stream, whose readers get it even if none has come yet."""
        await self._declare(topic)
        await self._broker.publish(message.body, stream=topic, headers=dict(message.headers), maxlen=100_000)

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        await self._broker.connect()
        for topic in self._handled:
            await self._declare(topic)
        await super().start()

    async def _declare(self, topic: str) -> None:
        """Make a stream and its group of readers, who read it from its beginning."""
        if topic in self._known:
            return
        clients: Any = redis.Redis
        client = clients.from_url(self._url)
        try:
            await client.xgroup_create(topic, _GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        finally:
            await client.aclose()
        self._known.add(topic)


class Nats(_FastStream):
    """NATS JetStream: a topic is a stream of one subject, its readers are one durable consumer.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.nats import NatsBroker

        self._broker = NatsBroker(url, logger=None)
        self._known: set[str] = set()

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a subject."""
        from faststream.nats import PullSub
        from nats.js.api import ConsumerConfig

        name = _stream(topic)
        self._known.add(name)
        self._broker.subscriber(
            name,
            stream=name,
            durable=_GROUP,
            pull_sub=PullSub(batch_size=1, timeout=1),
            config=ConsumerConfig(ack_wait=redeliver_after, max_ack_pending=at_once),
            max_workers=at_once,
            ack_policy=AckPolicy.NACK_ON_ERROR,
            no_reply=True,
        )(_taking(handler))

    async def publish(self, topic: str, message: Message) -> None:
        """Add a message to a subject."""
        name = _stream(topic)
        if name not in self._known:
            await self._broker.connection.jetstream().add_stream(name=name, subjects=[name])
            self._known.add(name)
        await self._broker.publish(message.body, name, headers=dict(message.headers), stream=name)


def _stream(topic: str) -> str:
    return topic.replace(".", "-")


class Rabbit(_FastStream):
    """RabbitMQ: a topic is a durable queue.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.rabbit import RabbitBroker

        self._broker = RabbitBroker(url, logger=None)
        self._known: set[str] = set()

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a queue; what is left when a connection ends goes to others."""
        from faststream.rabbit import Channel, RabbitQueue

        self._known.add(topic)
        self._broker.subscriber(
            RabbitQueue(topic, durable=True),
            channel=Channel(prefetch_count=at_once),
            ack_policy=AckPolicy.NACK_ON_ERROR,
            no_reply=True,
        )(_taking(handler))

    async def publish(self, topic: str, message: Message) -> None:
        """Add a message to a queue."""
        from faststream.rabbit import RabbitQueue

        if topic not in self._known:
            await self._broker.declare_queue(RabbitQueue(topic, durable=True))
            self._known.add(topic)
        await self._broker.publish(message.body, topic, headers=dict(message.headers), persist=True)
