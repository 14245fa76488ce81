"""Google Cloud Pub/Sub, through Google's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Final

from adk_fluent.distributed.queues.brokers import DAY, Handler, Message, caller_in

# By name, since the rule that keeps ADK to its backend cannot tell Google's packages apart.
_pubsub: Any = import_module("google.cloud.pubsub_v1")
_errors: Any = import_module("google.api_core.exceptions")

_GROUP: Final = "adk_fluent"
_WAIT: Final = 10.0
"""Seconds that the service has to answer."""
_DEADLINES: Final = (10, 600)
"""Seconds between which the service lets a message be held before it goes to somebody else."""
_CALLER: Final = "caller"
"""The attribute of an answer that says whose it is."""
_LONGEST: Final = 1024
"""Bytes that an attribute holds at most."""


class PubSub:
    """Google Cloud Pub/Sub: a topic is a topic with one subscription.

    All callers of a queue share a topic for answers, at which each has a subscription of its own. Ordering
    keys are not used: callers put in the work of a session in turn. With keys a redelivery would repeat all
    that followed, and Google's emulator stops delivering once readers have left.

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
        self._at_work: set[asyncio.Task[None]] = set()
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
            await self._declare(topic, read=True)
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
            task = asyncio.run_coroutine_threadsafe(self._do(handler, message), loop)
            self._tasks.add(task)
            task.add_done_callback(partial(self._settle, given))

        return take

    async def _do(self, handler: Handler, message: Message) -> None:
        work = asyncio.current_task()
        assert work is not None
        self._at_work.add(work)
        try:
            await handler(message)
        finally:
            self._at_work.discard(work)

    async def _end_work(self) -> None:
        """Cancel what is at work, which goes to others, and wait until it has ended."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    def _settle(self, given: Any, task: Future[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            given.nack()
        else:
            given.ack()

    async def publish(self, topic: str, message: Message) -> None:
        """Put a message into a topic; work is kept even if nobody has come yet, answers for who waits."""
        to = caller_in(topic)
        await self._declare(topic, read=to is None)
        attributes = {name: _short(value) for name, value in message.headers.items()}
        if to is not None:
            attributes[_CALLER] = to[1]
        sent = self._publisher.publish(self._topic(topic), message.body, **attributes)
        await asyncio.wrap_future(sent)

    async def close(self) -> None:
        """Disconnect; what was not acknowledged goes to others, and subscriptions for answers go."""
        await self._end_work()
        for pull in self._pulls:
            pull.cancel()
        for pull in self._pulls:
            await asyncio.to_thread(pull.exception, _WAIT)  # whatever ended one that was cancelled
        self._pulls.clear()
        await self._end_work()  # what came meanwhile
        if self._publisher is None:
            return
        for topic in filter(caller_in, self._handled):
            name = self._subscription(topic)
            await self._ask(self._subscriber.delete_subscription, _errors.NotFound, subscription=name)
        await asyncio.to_thread(self._publisher.stop)
        await asyncio.to_thread(self._subscriber.close)
        self._publisher.transport.close()
        self._publisher = None

    async def _declare(self, topic: str, *, read: bool) -> None:
        """Make a topic, and where it is read, or is to wait for its readers, its subscription."""
        path = self._topic(topic)
        if path not in self._known:
            await self._ask(self._publisher.create_topic, _errors.AlreadyExists, name=path)
            self._known.add(path)
        name = self._subscription(topic)
        if not read or name in self._known:
            return
        wanted: dict[str, Any] = {
            "name": name,
            "topic": path,
            "ack_deadline_seconds": _DEADLINES[0],
        }
        if (to := caller_in(topic)) is not None:  # and may have died
            wanted["filter"] = f'attributes.{_CALLER} = "{to[1]}"'
            wanted["expiration_policy"] = {"ttl": {"seconds": DAY}}
            wanted["message_retention_duration"] = {"seconds": DAY}
        await self._ask(self._subscriber.create_subscription, _errors.AlreadyExists, request=wanted)
        self._known.add(name)

    async def _ask(self, method: Callable[..., Any], well: type[Exception], **given: Any) -> None:
        """Ask the service for something that may be so already."""
        with suppress(well):
            await asyncio.to_thread(partial(method, **given, retry=None, timeout=_WAIT))

    def _topic(self, topic: str) -> str:
        shared = caller_in(topic)
        return f"projects/{self._project}/topics/{shared[0] if shared else topic}"

    def _subscription(self, topic: str) -> str:
        return f"projects/{self._project}/subscriptions/{topic}.{_GROUP}"


def _short(text: str) -> str:
    """As much of a text as an attribute holds."""
    return text.encode()[:_LONGEST].decode(errors="ignore")
