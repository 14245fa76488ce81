"""Redis Streams, NATS JetStream and RabbitMQ through FastStream."""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from faststream import AckPolicy, Context
from redis import asyncio as redis

from adk_fluent._apart import Apart
from adk_fluent.distributed.queues.brokers import DAY, Handler, Message, caller_in

_GROUP: Final = "adk_fluent"
_GRACE: Final = 15.0
"""Seconds that work has to finish when its worker stops."""
_SIGN_OF_LIFE: Final = 3600.0
"""Seconds after which a caller says again that it waits for answers."""
_MESSAGE: Any = Context("message")


Sign = Callable[[Any], Coroutine[Any, Any, object]]
"""Says of a message that somebody is at work on it."""


class _FastStream(ABC):
    """What the three have in common: a broker of FastStream's.

    Attributes:
        _answers: the topics for answers that this reads.
        _at_work: what handles messages now.
        _sending: what is sent now.
    """

    _broker: Any

    def __init__(self) -> None:
        self._answers: list[str] = []
        self._at_work, self._sending = Apart(), Apart()

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a topic."""
        if caller_in(topic):
            self._answers.append(topic)
        self._subscribe(topic, handler, at_once, redeliver_after)

    @abstractmethod
    def _subscribe(self, topic: str, handler: Handler, at_once: int, redeliver_after: float) -> None:
        """Have FastStream take the messages of a topic."""

    async def publish(self, topic: str, message: Message) -> None:
        """Put a message into a topic."""
        await self._sending(self._publish(topic, message))

    @abstractmethod
    async def _publish(self, topic: str, message: Message) -> None:
        """Put a message into a topic, as this server has it."""

    @abstractmethod
    async def _let_go(self, topic: str) -> None:
        """Have the server forget a topic for answers."""

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        await self._broker.start()

    async def close(self) -> None:
        """Disconnect; what is at work ends first, and topics for answers go."""
        await self._stop_taking()
        if self._broker.running:
            for topic in self._answers:
                await self._let_go(topic)
        await self._broker.stop()

    def _taking(self, handler: Handler, sign: Sign | None = None, every: float = 0.0) -> Any:
        """What FastStream calls with a message.

        Args:
            sign: what is said while the handler is at work, so that nobody else gets the message.
            every: seconds between two times.
        """

        async def take(message: Any = _MESSAGE) -> None:
            # FastStream cancels this again and again, which would let nothing that is at work clear up.
            await self._at_work(self._work_on(handler, message, sign, every))

        return take

    async def _stop_taking(self) -> None:
        """Take no more messages, and end what is still at work after a while.

        FastStream cancels it then, and does not wait; what ended after the connection is closed would connect
        again.
        """
        readers = [task for each in self._broker.subscribers for task in getattr(each, "tasks", ())]
        await asyncio.gather(*(each.stop() for each in self._broker.subscribers))
        await asyncio.gather(*readers, return_exceptions=True)
        self._at_work.cancel()
        await self._at_work.settled()
        await self._sending.settled()

    async def _work_on(self, handler: Handler, message: Any, sign: Sign | None, every: float) -> None:
        headers = {str(name): str(value) for name, value in message.headers.items()}
        signs = None if sign is None else asyncio.ensure_future(self._saying(sign, message, every))
        try:
            await handler(Message(bytes(message.body), headers))
        finally:
            if signs is not None:
                signs.cancel()
                await asyncio.gather(signs, return_exceptions=True)  # without it, the message goes to others

    async def _saying(self, sign: Sign, message: Any, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            await self._sending(sign(message))


class Redis(_FastStream):
    """Redis Streams: a topic is a stream, its readers are one consumer group.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.redis import RedisBroker

        super().__init__()
        quiet: Any = None
        self._broker = RedisBroker(url, logger=quiet, graceful_timeout=_GRACE)
        self._consumer = uuid.uuid4().hex
        self._handled: set[str] = set()
        self._known: set[str] = set()
        self._living: asyncio.Future[None] | None = None

    def _subscribe(self, topic: str, handler: Handler, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a stream, and those that another reader has left."""
        from faststream.redis import StreamSub

        self._handled.add(topic)
        idle = int(redeliver_after * 1000)
        sources = (
            StreamSub(topic, group=_GROUP, consumer=self._consumer, last_id=">", max_records=1),
            StreamSub(topic, group=_GROUP, consumer=self._consumer, min_idle_time=idle, max_records=1),
        )

        async def sign(message: Any) -> None:
            held = message.raw_message["message_ids"]
            await self._client.xclaim(topic, _GROUP, self._consumer, 0, held, justid=True)

        for source in sources:
            self._broker.subscriber(
                stream=source, max_workers=at_once, ack_policy=AckPolicy.NACK_ON_ERROR, no_reply=True
            )(self._taking(handler, sign, redeliver_after / 3))

    async def _publish(self, topic: str, message: Message) -> None:
        """Add a message to a stream, whose readers get it even if none has come yet."""
        answers = caller_in(topic) is not None
        if not answers:
            await self._declare(topic)
        await self._broker.publish(message.body, stream=topic, headers=dict(message.headers), maxlen=100_000)
        if answers:  # whose caller may be gone
            await self._client.expire(topic, DAY)

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        self._client: Any = await self._broker.connect()
        for topic in self._handled:
            await self._declare(topic)
        await super().start()
        if self._answers:
            await self._live()
            self._living = asyncio.ensure_future(self._go_on_living())

    async def _stop_taking(self) -> None:
        """Take no more messages, and no longer say that this caller is there."""
        if self._living is not None:
            self._living.cancel()
            await asyncio.gather(self._living, return_exceptions=True)
        await super()._stop_taking()

    async def _live(self) -> None:
        for topic in self._answers:
            await self._client.expire(topic, DAY)

    async def _go_on_living(self) -> None:
        """Keep the answers of this caller for as long as it is there."""
        while True:
            await asyncio.sleep(_SIGN_OF_LIFE)
            with suppress(redis.RedisError):  # it is said again
                await self._sending(self._live())

    async def _let_go(self, topic: str) -> None:
        with suppress(redis.RedisError):  # it goes by itself, too
            await self._client.delete(topic)

    async def _declare(self, topic: str) -> None:
        """Make a stream and its group of readers, who read it from its beginning."""
        if topic in self._known:
            return
        try:
            await self._client.xgroup_create(topic, _GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._known.add(topic)


class Nats(_FastStream):
    """NATS JetStream: a topic is a stream of one subject, its readers are one durable consumer.

    All callers of a queue share a stream for answers, in which each has a subject and a consumer of its own.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.nats import NatsBroker

        super().__init__()
        self._broker = NatsBroker(url, logger=None, graceful_timeout=_GRACE)
        self._known: set[str] = set()

    def _subscribe(self, topic: str, handler: Handler, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a subject."""
        from faststream.nats import JStream, PullSub
        from nats.js.api import ConsumerConfig

        async def sign(message: Any) -> None:
            await message.raw_message.in_progress()

        stream, subject, reader = _placed(topic)
        answers = caller_in(topic) is not None
        self._known |= set[str]() if answers else {stream}
        self._broker.subscriber(
            subject,
            stream=JStream(stream, declare=not answers),
            durable=reader,
            pull_sub=PullSub(batch_size=1, timeout=1),
            config=ConsumerConfig(
                ack_wait=redeliver_after,
                max_ack_pending=-1,  # which would count those of all readers together
                inactive_threshold=DAY if answers else None,
            ),
            max_workers=at_once,
            ack_policy=AckPolicy.NACK_ON_ERROR,
            no_reply=True,
        )(self._taking(handler, sign, redeliver_after / 3))

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        await self._broker.connect()
        for topic in self._answers:
            await self._declare(topic)
        await super().start()

    async def _publish(self, topic: str, message: Message) -> None:
        """Add a message to a subject."""
        await self._declare(topic)
        stream, subject, _ = _placed(topic)
        await self._broker.publish(message.body, subject, headers=dict(message.headers), stream=stream)

    async def _declare(self, topic: str) -> None:
        stream, subject, _ = _placed(topic)
        if stream in self._known:
            return
        answers: dict[str, Any] = {"subjects": [f"{stream}.*"], "max_age": DAY}
        kept = answers if caller_in(topic) else {"subjects": [subject]}
        await self._broker.connection.jetstream().add_stream(name=stream, **kept)
        self._known.add(stream)

    async def _let_go(self, topic: str) -> None:
        stream, subject, reader = _placed(topic)
        manager = self._broker.connection.jsm()
        await manager.delete_consumer(stream, reader)
        await manager.purge_stream(stream, subject=subject)


def _placed(topic: str) -> tuple[str, str, str]:
    """The stream of a topic, its subject there, and the consumer that reads it."""
    queue, caller = caller_in(topic) or (topic, "")
    stream = queue.replace(".", "-")
    return (stream, f"{stream}.{caller}", caller) if caller else (stream, stream, _GROUP)


class Rabbit(_FastStream):
    """RabbitMQ: a topic is a durable queue.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        from faststream.rabbit import RabbitBroker

        super().__init__()
        self._broker = RabbitBroker(url, logger=None, graceful_timeout=_GRACE)
        self._known: set[str] = set()

    def _subscribe(self, topic: str, handler: Handler, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a queue; what is left when a connection ends goes to others."""
        from faststream.rabbit import Channel

        self._known.add(topic)
        self._broker.subscriber(
            _queue(topic),
            channel=Channel(prefetch_count=at_once),
            ack_policy=AckPolicy.NACK_ON_ERROR,
            no_reply=True,
        )(self._taking(handler))

    async def _publish(self, topic: str, message: Message) -> None:
        """Add a message to a queue."""
        if topic not in self._known:
            await self._broker.declare_queue(_queue(topic))
            self._known.add(topic)
        await self._broker.publish(message.body, topic, headers=dict(message.headers), persist=True)

    async def _let_go(self, topic: str) -> None:
        queue = await self._broker.declare_queue(_queue(topic))
        await queue.delete(if_unused=False, if_empty=False)


def _queue(topic: str) -> Any:
    """A durable queue; one for answers goes when nobody has read it for a day."""
    from faststream.rabbit import RabbitQueue

    kept: Any = {"x-expires": DAY * 1000} if caller_in(topic) else None
    return RabbitQueue(topic, durable=True, arguments=kept)
