"""Google Cloud Pub/Sub, with Google's client: a queue is a topic with one subscription."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import (
    ANSWERS,
    AT_ONCE,
    REDELIVER_AFTER,
    Broker,
    Handler,
    Message,
)

# By name, because the import rule for google.adk cannot distinguish Google's packages.
_pubsub: Any = import_module("google.cloud.pubsub_v1")
_errors: Any = import_module("google.api_core.exceptions")

_GROUP: Final = "adk_fluent"
_LONGEST: Final = 1024
"""The largest size of an attribute, in bytes."""
_BEAT: Final = 30.0
"""Seconds without a request after which an empty one keeps a stream open, as Google's own consumer does."""
_STEADY: Final = 30.0
"""Seconds after which a lost stream is opened again in silence, since the service ends each after a while."""


class PubSub:
    """A connection to Pub/Sub, with the application's default credentials, or to `PUBSUB_EMULATOR_HOST`.

    Args:
        project: the name of the project.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self._known: set[str] = set()
        self._publisher: Any = None
        self._subscriber: Any = None
        self._stream: _Stream | None = None
        self._reading: asyncio.Future[None] | None = None
        self._handling: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect."""
        self._publisher = await asyncio.to_thread(_pubsub.PublisherClient)
        self._subscriber = await asyncio.to_thread(_pubsub.SubscriberClient)

    async def put(self, queue: str, message: Message) -> None:
        """Publish a message; the subscription keeps it until there are consumers."""
        await self._declare(queue)
        attributes = {name: _short(value) for name, value in message.headers.items()}
        sent = self._publisher.publish(
            self._topic(queue), message.body, retry=None, timeout=float(ANSWERS), **attributes
        )
        await asyncio.wrap_future(sent)

    async def take(self, queue: str, handler: Handler) -> None:
        """Handle the messages of a stream, which a thread reads."""
        await self._declare(queue)
        while True:
            began = time.monotonic()
            lost: Exception = ConnectionError("The server closed the stream.")
            try:
                await asyncio.shield(self._read(self._subscription(queue), handler))
            except _errors.ServerError as error:
                lost = error
            if time.monotonic() - began < _STEADY:
                raise lost

    def _read(self, subscription: str, handler: Handler) -> asyncio.Future[None]:
        """Open a stream; return what is done when it has ended."""
        loop = asyncio.get_running_loop()
        stream = self._stream = _Stream(self._subscriber, subscription)

        def start(given: Any) -> None:
            stream.unhandled.add(given.ack_id)
            if stream.is_ending:
                return
            work = asyncio.ensure_future(_handle(stream, handler, given))
            self._handling.add(work)
            work.add_done_callback(self._handling.discard)

        reading = asyncio.to_thread(stream.read, lambda given: loop.call_soon_threadsafe(start, given))
        self._reading = asyncio.ensure_future(reading)
        return self._reading

    async def _declare(self, queue: str) -> None:
        """Create a topic and its subscription."""
        if queue in self._known:
            return
        topic, name = self._topic(queue), self._subscription(queue)
        await self._ask(self._publisher.create_topic, name=topic)
        wanted = {"name": name, "topic": topic, "ack_deadline_seconds": REDELIVER_AFTER}
        await self._ask(self._subscriber.create_subscription, request=wanted)
        self._known.add(queue)

    async def _ask(self, method: Callable[..., Any], **given: Any) -> None:
        """Create something that may exist already."""
        with suppress(_errors.AlreadyExists):
            await asyncio.to_thread(partial(method, **given, retry=None, timeout=float(ANSWERS)))

    def _topic(self, queue: str) -> str:
        return f"projects/{self._project}/topics/{queue}"

    def _subscription(self, queue: str) -> str:
        return f"projects/{self._project}/subscriptions/{queue}.{_GROUP}"

    async def close(self) -> None:
        """Disconnect."""
        if self._stream is not None and self._reading is not None:
            await self._end(self._stream, self._reading)
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.stop)
            await asyncio.to_thread(self._subscriber.close)
            self._publisher.transport.close()

    async def _end(self, stream: _Stream, reading: asyncio.Future[None]) -> None:
        """End a stream; other consumers get the messages that are not handled."""
        stream.is_ending = True
        for work in self._handling:
            work.cancel()
        await asyncio.gather(*self._handling, return_exceptions=True)
        stream.end()
        if not (await asyncio.wait({reading}, timeout=ANSWERS))[0]:
            stream.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        with suppress(Exception):  # they come again later
            await asyncio.to_thread(stream.give_back)


class _Stream:
    """A stream of the messages of a subscription.

    It ends when the server has closed it in answer to `end`. Google's own consumer cancels its stream, and
    the emulator keeps delivering to a cancelled stream: messages would reach other consumers late.

    Args:
        subscriber: Google's client.
        subscription: the full name of the subscription.

    Attributes:
        unhandled: the ids of the messages that are neither acknowledged nor postponed.
        is_ending: whether its consumer takes no more messages.
    """

    def __init__(self, subscriber: Any, subscription: str) -> None:
        self.unhandled: set[str] = set()
        self.is_ending: bool = False
        self._subscriber, self._subscription = subscriber, subscription
        self._requests = SimpleQueue[dict[str, Any] | None]()
        self._call: Any = None
        first = {"subscription": subscription, "stream_ack_deadline_seconds": REDELIVER_AFTER}
        self._requests.put({**first, "max_outstanding_messages": AT_ONCE})

    def read(self, take: Callable[[Any], object]) -> None:
        """Pass each message to `take` until the stream ends, which blocks this thread."""
        try:
            self._call = self._subscriber.streaming_pull(requests=self._given(), retry=None, timeout=None)
            for answer in self._call:
                for given in answer.received_messages:
                    take(given)
        finally:
            self.end()

    def _given(self) -> Iterator[Any]:
        while True:
            try:
                request = self._requests.get(timeout=_BEAT)
            except Empty:
                request = {}
            if request is None:
                return
            yield _pubsub.types.StreamingPullRequest(request)

    def acknowledge(self, message: str) -> None:
        """Tell the server that a message is handled."""
        self.unhandled.discard(message)
        self._requests.put({"ack_ids": [message]})

    def postpone(self, message: str) -> None:
        """Let the server deliver a message again in a second."""
        self.unhandled.discard(message)
        self._requests.put({"modify_deadline_ack_ids": [message], "modify_deadline_seconds": [1]})

    def give_back(self) -> None:
        """Let the server deliver the unhandled messages to others at once, which blocks this thread."""
        if self.unhandled:
            self._subscriber.modify_ack_deadline(
                subscription=self._subscription,
                ack_ids=[*self.unhandled],
                ack_deadline_seconds=0,
                retry=None,
                timeout=float(ANSWERS),
            )

    def end(self) -> None:
        """Close this side of the stream; the server then closes the other."""
        self._requests.put(None)

    def cancel(self) -> None:
        """Stop a stream that the server does not close."""
        if self._call is not None:
            self._call.cancel()


async def _handle(stream: _Stream, handler: Handler, given: Any) -> None:
    headers = {str(key): str(value) for key, value in given.message.attributes.items()}
    try:
        await handler(Message(bytes(given.message.data), headers))
    except Exception:  # noqa: BLE001  # any failure: the message comes again
        stream.postpone(given.ack_id)
    else:
        stream.acknowledge(given.ack_id)


def _short(text: str) -> str:
    """Return a text shortened to the size of an attribute."""
    return text.encode()[:_LONGEST].decode(errors="ignore")


def connection(project: str) -> Broker:
    """Return a connection to the topics of a project."""
    return PubSub(project)
