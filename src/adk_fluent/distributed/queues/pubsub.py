"""Google Cloud Pub/Sub, through Google's own client: a queue is a topic with one subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import ANSWERS, AT_ONCE, REDELIVER_AFTER, Broker, Handler, Message

# By name, since the rule that keeps ADK to its backend cannot tell Google's packages apart.
_pubsub: Any = import_module("google.cloud.pubsub_v1")
_errors: Any = import_module("google.api_core.exceptions")

_GROUP: Final = "adk_fluent"
_LONGEST: Final = 1024
"""Bytes that an attribute holds at most."""


class PubSub:
    """A connection to Pub/Sub. Google's client knows where it is and who asks: the application's default
    credentials, or `PUBSUB_EMULATOR_HOST`.

    Args:
        project: the name of the project.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self._known: set[str] = set()
        self._publisher: Any = None
        self._subscriber: Any = None

    async def open(self) -> None:
        """Connect."""
        self._publisher = await asyncio.to_thread(_pubsub.PublisherClient)
        self._subscriber = await asyncio.to_thread(_pubsub.SubscriberClient)

    async def put(self, queue: str, message: Message) -> None:
        """Publish a message; a subscription keeps it until there are consumers."""
        await self._declare(queue)
        attributes = {name: _short(value) for name, value in message.headers.items()}
        sent = self._publisher.publish(
            self._topic(queue), message.body, retry=None, timeout=float(ANSWERS), **attributes
        )
        await asyncio.wrap_future(sent)

    async def take(self, queue: str, handler: Handler) -> None:
        """Handle messages as Google's client pulls them, in threads of its own."""
        await self._declare(queue)
        loop = asyncio.get_running_loop()
        flow: Any = _pubsub.types.FlowControl(
            max_messages=AT_ONCE, max_duration_per_lease_extension=REDELIVER_AFTER
        )

        def take(given: Any) -> None:
            message = Message(bytes(given.data), {str(k): str(v) for k, v in given.attributes.items()})
            work: Any = handler(message)
            asyncio.run_coroutine_threadsafe(work, loop).add_done_callback(partial(_settle, given))

        pull = self._subscriber.subscribe(self._subscription(queue), take, flow_control=flow)
        try:
            await asyncio.wrap_future(pull)
        finally:
            pull.cancel()
            with suppress(Exception):  # whatever ended one that is cancelled
                await asyncio.to_thread(pull.result, ANSWERS)

    async def _declare(self, queue: str) -> None:
        """Make a topic and its subscription."""
        if queue in self._known:
            return
        topic, name = self._topic(queue), self._subscription(queue)
        await self._ask(self._publisher.create_topic, name=topic)
        wanted = {"name": name, "topic": topic, "ack_deadline_seconds": REDELIVER_AFTER}
        await self._ask(self._subscriber.create_subscription, request=wanted)
        self._known.add(queue)

    async def _ask(self, method: Callable[..., Any], **given: Any) -> None:
        """Ask the service for something that may be so already."""
        with suppress(_errors.AlreadyExists):
            await asyncio.to_thread(partial(method, **given, retry=None, timeout=float(ANSWERS)))

    def _topic(self, queue: str) -> str:
        return f"projects/{self._project}/topics/{queue}"

    def _subscription(self, queue: str) -> str:
        return f"projects/{self._project}/subscriptions/{queue}.{_GROUP}"

    async def close(self) -> None:
        """Disconnect."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.stop)
            await asyncio.to_thread(self._subscriber.close)
            self._publisher.transport.close()


def _settle(given: Any, work: Future[None]) -> None:
    if work.cancelled() or work.exception() is not None:
        given.nack()
    else:
        given.ack()


def _short(text: str) -> str:
    """As much of a text as an attribute holds."""
    return text.encode()[:_LONGEST].decode(errors="ignore")


def connection(project: str) -> Broker:
    """A connection to the topics of a project."""
    return PubSub(project)
