"""Redis Streams, through redis-py: a queue is a stream, its consumers are one group."""

from __future__ import annotations

import json
import uuid
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import (
    ANSWERS,
    AT_ONCE,
    REDELIVER_AFTER,
    Broker,
    Handler,
    Message,
    end_if_cancelled,
    together,
)

# By name, since this module has the name of the package.
_redis: Any = import_module("redis.asyncio")
_errors: Any = import_module("redis.exceptions")

_GROUP: Final = "adk_fluent"
_CONSUMER: Final = uuid.uuid4().hex
"""The name of this process among the consumers."""
_CONNECTIONS: Final = 10
"""Connections of one caller; what needs another waits for one of them."""
_BLOCK: Final = 2000
"""Milliseconds that one read waits for messages."""


class Redis:
    """A connection to a Redis server.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        pool: Any = _redis.BlockingConnectionPool
        self._client: Any = _redis.Redis.from_pool(
            pool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=None,
                socket_timeout=ANSWERS,
                socket_connect_timeout=ANSWERS,
            )
        )

    async def open(self) -> None:
        """Connect."""
        await self._client.ping()

    async def put(self, queue: str, message: Message) -> None:
        """Add a message to a stream."""
        await self._client.xadd(queue, {"body": message.body, "headers": json.dumps(dict(message.headers))})

    async def take(self, queue: str, handler: Handler) -> None:
        """Read new messages, and those that a consumer left unacknowledged."""
        try:
            await self._client.xgroup_create(queue, _GROUP, id="0", mkstream=True)
        except _errors.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        left: list[Any] = await self._read(queue, "0")  # what this process took before it lost its connection
        while True:
            await together(self._handle(queue, handler, *each) for each in left)
            end_if_cancelled()  # redis-py swallows that at times
            idle = REDELIVER_AFTER * 1000
            claimed = await self._client.xautoclaim(queue, _GROUP, _CONSUMER, idle, count=AT_ONCE)
            left = claimed[1] or await self._read(queue, ">")

    async def _read(self, queue: str, after: str) -> list[Any]:
        read: Any = await self._client.xreadgroup(
            _GROUP, _CONSUMER, {queue: after}, count=AT_ONCE, block=_BLOCK
        )
        entries: list[Any] = [each for _, found in read for each in found]
        return [each for each in entries if each[1] is not None]

    async def _handle(self, queue: str, handler: Handler, name: bytes, fields: dict[bytes, bytes]) -> None:
        headers = fields.get(b"headers", b"{}")
        await handler(Message(fields.get(b"body", b""), _strings(headers)))
        async with self._client.pipeline(transaction=True) as both:
            both.xack(queue, _GROUP, name)
            both.xdel(queue, name)
            await both.execute()

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


def _strings(data: bytes) -> dict[str, str]:
    try:
        found: Any = json.loads(data)
        return {str(name): str(value) for name, value in found.items()}
    except (ValueError, AttributeError):  # whoever put it there uses other headers
        return {}


def connection(url: str) -> Broker:
    """A connection to the server at a URL."""
    return Redis(url)
