"""Queues at Google Cloud Pub/Sub: Google's own client against Google's own emulator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from adk_fluent import Agent
from adk_fluent.distributed import DistributedBackend, TransportConfig
from adk_fluent.distributed.queues.brokers import Broker, Message, broker_of
from adk_fluent.errors import ArgumentError, SegmentError
from adk_fluent.testing import mock_backend
from tests.services import pubsub_emulator

pytestmark = [pytest.mark.newest, pytest.mark.needs("cloud-pubsub-emulator")]


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    """The emulator's address, which Google's client finds."""
    with pubsub_emulator() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", address)
        yield address


async def _connected(topic: str) -> Broker:
    made = broker_of(f"pubsub://projects/shop/topics/{topic}")
    await made.start()
    return made


async def test_messages_wait_for_their_reader(emulator: str) -> None:
    """It comes after them, and gets each of them once."""
    heard: list[str] = []
    done = asyncio.Event()

    async def hear(message: Message) -> None:
        heard.append(message.body.decode())
        if len(heard) == 5:
            done.set()

    reader = broker_of("pubsub://projects/shop/topics/orders")
    reader.handle("orders", hear, at_once=10, redeliver_after=10)
    writer = await _connected("orders")
    for number in range(5):
        await writer.publish("orders", Message(str(number).encode(), {"session": "ann"}))
    await reader.start()
    await done.wait()
    await reader.close()
    await writer.close()
    assert sorted(heard) == ["0", "1", "2", "3", "4"]


async def test_a_message_comes_again_until_it_is_done(emulator: str) -> None:
    """What its reader does not get through is delivered once more."""
    heard: list[bytes] = []
    done = asyncio.Event()

    async def hear(message: Message) -> None:
        heard.append(message.body)
        if len(heard) == 1:
            raise ValueError("not yet")
        done.set()

    reader = broker_of("pubsub://projects/shop/topics/again")
    reader.handle("again", hear, at_once=1, redeliver_after=10)
    await reader.start()
    await reader.publish("again", Message(b"x", {"session": "ann"}))
    await done.wait()
    await reader.close()
    assert heard == [b"x", b"x"]


async def test_no_more_messages_than_can_be_handled(emulator: str) -> None:
    """The rest stays with the broker."""
    at_work, most, all_done = 0, 0, asyncio.Event()
    heard: list[bytes] = []

    async def hear(message: Message) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(20):
            await asyncio.sleep(0)
        at_work -= 1
        heard.append(message.body)
        if len(heard) == 20:
            all_done.set()

    reader = broker_of("pubsub://projects/shop/topics/slow")
    reader.handle("slow", hear, at_once=2, redeliver_after=10)
    await reader.start()
    writer = await _connected("slow")
    await asyncio.gather(
        *(writer.publish("slow", Message(b"%d" % n, {"session": str(n)})) for n in range(20))
    )
    await all_done.wait()
    await reader.close()
    await writer.close()
    assert most <= 2


async def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue and what to do, in one line."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    queue = TransportConfig(endpoint="pubsub://projects/shop/topics/heavy")
    pipeline = Agent("clerk") >> Agent("heavy").execution_boundary(transport=queue)
    with pytest.raises(SegmentError, match="The queue of segment 'heavy' is not there: ") as found:
        await pipeline.run("Go", backend=DistributedBackend(mock_backend(default="x")))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("endpoint", ["pubsub://heavy", "pubsub://projects/shop/topics/1", "pubsub://p/t/x"])
def test_an_endpoint_that_names_no_topic(endpoint: str) -> None:
    """What one looks like is said."""
    with pytest.raises(ArgumentError, match="pubsub://projects/PROJECT/topics/TOPIC"):
        broker_of(endpoint)
