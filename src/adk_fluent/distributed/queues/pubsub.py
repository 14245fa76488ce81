"""Google Cloud Pub/Sub, through Google's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import Handler, Message

# By name, since the rule that keeps ADK to its backend cannot tell Google's packages apart.
_pubsub: Any = import_module("google.cloud.pubsub_v1")
_errors: Any = import_module("google.api_core.exceptions")

_GROUP: Final = "adk_fluent"
_WAIT: Final = 10.0
"""Seconds that the service has to answer."""
_DEADLINES: Final = (10, 600)
"""Seconds between which the service lets a message be held before it goes to somebody else."""
_REPLIES: Final = ".replies."
"""What is in the name of a topic that ends with its caller."""
_DAY: Final = 24 * 3600
_LONGEST: Final = 1024
"""Bytes that an attribute holds at most."""


class PubSub:
    """Google Cloud Pub/Sub: a topic is a topic with one subscription.

    Ordering keys are not used: with them, a message that a killed reader held keeps those behind it waiting.
    Runs of a session take turns all the same, since workers hold its name in their journal.

    Where the service is and who asks, Google's client knows: the application's default credentials, or
    `PUBSUB_EMULATOR_HOST`.

    Args:
        project: the name of the project.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self._handled: dict[str, tuple[Handler, int, float]] = {}
        self._known: set[str] = set()
        self._pulls: list[Any] = []
        self._tasks: set[Future[None]] = set()
        self._publisher: Any = None
        self._subscriber: Any = None

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a topic."""
        self._handled[topic] = (handler, at_once, redeliver_after)

    async def start(self) -> None:
        """Connect, and begin to take messages."""
        self._publisher = await asyncio.to_thread(_pubsub.PublisherClient)
        self._subscriber = await asyncio.to_thread(_pubsub.SubscriberClient)
        loop = asyncio.get_running_loop()
        for topic, (handler, at_once, seconds) in self._handled.items():
            await self._declare(topic)
            held = int(min(max(seconds, _DEADLINES[0]), _DEADLINES[1]))
            flow: Any = _pubsub.types.FlowControl(
                max_messages=at_once,
                min_duration_per_lease_extension=_DEADLINES[0],
                max_duration_per_lease_extension=held,
            )
            self._pulls.append(
                self._subscriber.subscribe(
                    self._subscription(topic), self._taking(handler, loop), flow_control=flow
                )
            )

    def _taking(self, handler: Handler, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
        """What Google's client calls, in a thread of its own."""

        def take(given: Any) -> None:
            message = Message(bytes(given.data), {str(k): str(v) for k, v in given.attributes.items()})
            task = asyncio.run_coroutine_threadsafe(_handled(handler, message), loop)
            self._tasks.add(task)
            task.add_done_callback(partial(self._settle, given))

        return take

    def _settle(self, given: Any, task: Future[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            given.nack()
        else:
            given.ack()

    async def publish(self, topic: str, message: Message) -> None:
        """Put a message into a topic, whose subscription keeps it even if nobody has come yet."""
        await self._declare(topic)
        attributes = {name: _short(value) for name, value in message.headers.items()}
        sent = self._publisher.publish(self._topic(topic), message.body, **attributes)
        await asyncio.wrap_future(sent)

    async def close(self) -> None:
        """Disconnect; what was not acknowledged goes to others, and topics for answers are deleted."""
        for task in list(self._tasks):
            task.cancel()
        for pull in self._pulls:
            pull.cancel()
        for pull in self._pulls:
            await asyncio.to_thread(pull.exception, _WAIT)  # whatever ended one that was cancelled
        self._pulls.clear()
        if self._publisher is None:
            return
        for topic in self._handled:
            if _REPLIES in topic:
                name, gone = self._subscription(topic), _errors.NotFound
                await self._ask(self._subscriber.delete_subscription, gone, subscription=name)
                await self._ask(self._publisher.delete_topic, gone, topic=self._topic(topic))
        await asyncio.to_thread(self._publisher.stop)
        await asyncio.to_thread(self._subscriber.close)
        self._publisher.transport.close()
        self._publisher = None

    async def _declare(self, topic: str) -> None:
        """Make a topic and its subscription."""
        if topic in self._known:
            return
        path = self._topic(topic)
        await self._ask(self._publisher.create_topic, _errors.AlreadyExists, name=path)
        wanted: dict[str, Any] = {
            "name": self._subscription(topic),
            "topic": path,
            "ack_deadline_seconds": _DEADLINES[0],
        }
        if _REPLIES in topic:  # whose caller may have died
            wanted["expiration_policy"] = {"ttl": {"seconds": _DAY}}
            wanted["message_retention_duration"] = {"seconds": _DAY}
        await self._ask(self._subscriber.create_subscription, _errors.AlreadyExists, request=wanted)
        self._known.add(topic)

    async def _ask(self, method: Callable[..., Any], well: type[Exception], **given: Any) -> None:
        """Ask the service for something that may be so already."""
        with suppress(well):
            await asyncio.to_thread(partial(method, **given, retry=None, timeout=_WAIT))

    def _topic(self, topic: str) -> str:
        return f"projects/{self._project}/topics/{topic}"

    def _subscription(self, topic: str) -> str:
        return f"projects/{self._project}/subscriptions/{topic}.{_GROUP}"


async def _handled(handler: Handler, message: Message) -> None:
    await handler(message)


def _short(text: str) -> str:
    """As much of a text as an attribute holds."""
    return text.encode()[:_LONGEST].decode(errors="ignore")
