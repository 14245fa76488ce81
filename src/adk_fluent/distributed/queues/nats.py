"""NATS JetStream, through nats-py: a queue is a stream of one subject, which one durable consumer reads."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import (
    ANSWERS,
    AT_ONCE,
    REDELIVER_AFTER,
    Broker,
    Handler,
    Message,
    together,
)

# By name, since this module has the name of the package.
_nats: Any = import_module("nats")
_api: Any = import_module("nats.js.api")
_errors: Any = import_module("nats.errors")

_GROUP: Final = "adk_fluent"
_WAIT: Final = 2.0
"""Seconds that one fetch waits for messages."""


class Nats:
    """A connection to a NATS server, which must have JetStream.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._known: set[str] = set()

    async def open(self) -> None:
        """Connect; a connection that is lost is not made again, since its owner makes another one."""
        errors: list[Exception] = []

        async def note(error: Exception) -> None:
            errors[:] = [error]

        try:
            self._client = await _nats.connect(
                self._url,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # else it would try to connect for two minutes
                reconnect_time_wait=0,
                connect_timeout=ANSWERS,
                ping_interval=ANSWERS / 2,
                max_outstanding_pings=2,
                error_cb=note,
            )
        except _errors.NoServersError:
            if errors:  # which say why
                raise errors[-1] from None
            raise

    async def put(self, queue: str, message: Message) -> None:
        """Add a message to a subject."""
        await self._declare(queue)
        stream = self._client.jetstream(timeout=ANSWERS)
        await stream.publish(_name(queue), message.body, headers=dict(message.headers) or None)

    async def take(self, queue: str, handler: Handler) -> None:
        """Fetch messages."""
        await self._declare(queue)
        stream = self._client.jetstream(timeout=ANSWERS)
        config = _api.ConsumerConfig(ack_wait=REDELIVER_AFTER)
        reader = await stream.pull_subscribe(_name(queue), durable=_GROUP, stream=_name(queue), config=config)
        while True:
            try:
                found = await reader.fetch(AT_ONCE, timeout=_WAIT)
            except (TimeoutError, _errors.TimeoutError):
                if not self._client.is_connected:
                    raise
                continue
            await together(self._handle(handler, each) for each in found)

    async def _handle(self, handler: Handler, given: Any) -> None:
        headers: dict[str, str] = dict(given.headers or {})
        try:
            await handler(Message(bytes(given.data), headers))
        except BaseException as error:
            with suppress(Exception):  # without the nak, it comes again only later
                await given.nak(delay=1 if isinstance(error, Exception) else None)
            raise
        await given.ack_sync(timeout=ANSWERS)

    async def _declare(self, queue: str) -> None:
        if (name := _name(queue)) not in self._known:
            manager = self._client.jetstream(timeout=ANSWERS)
            await manager.add_stream(name=name, subjects=[name], retention=_api.RetentionPolicy.WORK_QUEUE)
            self._known.add(name)

    async def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            await self._client.close()


def _name(queue: str) -> str:
    """The name of a queue where dots separate parts of a subject."""
    return queue.replace(".", "-")


def connection(url: str) -> Broker:
    """A connection to the server at a URL."""
    return Nats(url)
