"""RabbitMQ, through aio-pika: durable queues, persistent messages, publisher confirms."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import ANSWERS, AT_ONCE, Broker, Handler, Message

_pika: Any = import_module("aio_pika")

_BEAT: Final = 10
"""Seconds after which a connection on which nothing comes, not even a heartbeat, is lost."""


_opening: ContextVar[bool] = ContextVar("adk_fluent_opening", default=False)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a log line of the client says more than the error that opening a connection raises."""
    return not (_opening.get() and record.levelno == logging.ERROR)


logging.getLogger("aiormq.connection").addFilter(_is_news)


class Rabbit:
    """A connection to a RabbitMQ server.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._link: Any = None
        self._channel: Any = None
        self._known: set[str] = set()

    async def open(self) -> None:
        """Connect."""
        token = _opening.set(True)
        try:
            self._link = await _pika.connect(self._url, timeout=ANSWERS, heartbeat=_BEAT)
        finally:
            _opening.reset(token)
        self._channel = await self._link.channel(publisher_confirms=True)
        await self._channel.set_qos(prefetch_count=AT_ONCE)

    async def put(self, queue: str, message: Message) -> None:
        """Add a message to a queue."""
        if queue not in self._known:
            await self._channel.declare_queue(queue, durable=True)
            self._known.add(queue)
        given = _pika.Message(
            message.body, headers=dict(message.headers), delivery_mode=_pika.DeliveryMode.PERSISTENT
        )
        await self._channel.default_exchange.publish(given, queue, timeout=ANSWERS)

    async def take(self, queue: str, handler: Handler) -> None:
        """Handle messages; what is not acknowledged when the connection ends goes to others."""
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        declared = await self._channel.declare_queue(queue, durable=True)

        async def handle(given: Any) -> None:
            try:
                await handler(Message(bytes(given.body), {str(k): str(v) for k, v in given.headers.items()}))
                await given.ack()
            except Exception as error:  # noqa: BLE001  # the loop that connects again says it
                if not lost.done():
                    lost.set_exception(error)

        def closed(sender: object, error: BaseException | None) -> None:
            if not lost.done():
                lost.set_exception(error or ConnectionError("The broker closed the connection."))

        self._channel.close_callbacks.add(closed)
        try:
            await declared.consume(handle)
            await lost
        finally:
            if not lost.cancel() and not lost.cancelled():
                lost.exception()  # else asyncio logs it as never retrieved

    async def close(self) -> None:
        """Disconnect."""
        if self._link is not None:
            await self._link.close()


def connection(url: str) -> Broker:
    """A connection to the server at a URL."""
    return Rabbit(url)
