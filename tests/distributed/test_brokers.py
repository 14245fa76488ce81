"""Queues at real brokers: Redis, NATS and RabbitMQ, started and ended by these tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from adk_fluent import Agent
from adk_fluent.distributed import DistributedBackend, QueueWorker, TransportConfig
from adk_fluent.distributed.queues.brokers import Message, broker_of
from adk_fluent.distributed.queues.journal import held, journal_of
from adk_fluent.errors import SegmentError
from adk_fluent.testing import mock_backend
from tests.distributed import served
from tests.services import nats_server, pubsub_emulator, rabbitmq_server, redis_server

pytestmark = pytest.mark.newest
BROKERS = [
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
    pytest.param("nats", marks=pytest.mark.needs("nats-server")),
    pytest.param("rabbitmq", marks=pytest.mark.needs("rabbitmq-server")),
    pytest.param("pubsub", marks=pytest.mark.needs("cloud-pubsub-emulator")),
]


@pytest.fixture(scope="module", params=BROKERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker."""
    starts: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "redis": lambda: redis_server(tmp_path_factory.mktemp("redis")),
        "nats": lambda: nats_server(tmp_path_factory.mktemp("nats")),
        "rabbitmq": rabbitmq_server,
        "pubsub": _pubsub,
    }
    with starts[request.param]() as url:
        yield url


@contextmanager
def _pubsub() -> Generator[str]:
    with pubsub_emulator() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", address)
        yield "pubsub://projects/shop/topics"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


async def test_work_goes_through_a_real_broker(server: str, tmp_path: Path) -> None:
    """Runs at the same time, a worker that comes after the work, and a poisoned message in between."""
    queue = TransportConfig(type="queue", endpoint=f"{server}/heavy")
    heavy = Agent("heavy").instruct("{task}").writes("result").execution_boundary(transport=queue)
    pipeline = Agent("clerk").writes("task") >> heavy
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    caller = DistributedBackend(script)
    early = asyncio.ensure_future(pipeline.run("Go", backend=caller))
    other = broker_of(f"{server}/heavy")
    await other.start()
    await other.publish("heavy", Message(b"no crossing", {"from": "a stranger"}))
    dead = asyncio.Queue[Message]()

    async def bury(message: Message) -> None:
        dead.put_nowait(message)

    mourner = broker_of(f"{server}/heavy")
    mourner.handle("heavy.dead", bury, at_once=1, redeliver_after=60)
    await mourner.start()
    worker = QueueWorker(pipeline, backend=script, journal=tmp_path / "journal.db")
    await worker.start()
    try:
        results = await asyncio.gather(early, *(pipeline.run("Go", backend=caller) for _ in range(5)))
        assert [result.text for result in results] == ["42"] * 6
        assert len(script.calls["heavy"]) == 6
        letter = await dead.get()
        assert (letter.body, letter.headers["from"]) == (b"no crossing", "a stranger")
    finally:
        await caller.close()
        await worker.stop()
        await other.close()
        await mourner.close()


@pytest.mark.needs("redis-server")
async def test_another_worker_goes_on_where_one_was_killed(redis: str, tmp_path: Path) -> None:
    """A process is killed between two steps: another finishes the work; the first is not repeated."""
    start = (
        "import asyncio, sys; from tests.distributed import served; asyncio.run(served.serve(*sys.argv[1:3]))"
    )
    command = [sys.executable, "-c", start, redis, redis, "to be killed"]
    paths = os.pathsep.join(filter(None, sys.path))
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    caller = DistributedBackend()
    pipeline = served.pipeline(redis)
    assert first.stdout is not None
    try:
        run = asyncio.ensure_future(pipeline.run("Go", backend=caller))
        await asyncio.to_thread(first.stdout.readline)
        first.kill()
        second = QueueWorker(pipeline, redeliver_after=0.5)
        await second.start()
        result = await run
        await second.stop()
    finally:
        first.kill()
        first.communicate()
        await caller.close()
    assert (result.state["began"], result.state["ended"]) == (first.pid, os.getpid())


async def test_a_broker_that_is_not_there_is_one_clear_line() -> None:
    """The queue and what to do, within a moment."""
    queue = TransportConfig(endpoint="redis://127.0.0.1:1/heavy")
    pipeline = Agent("clerk") >> Agent("heavy").execution_boundary(transport=queue)
    with pytest.raises(SegmentError, match="The queue of segment 'heavy' is not there: ConnectionError"):
        await pipeline.run("Go", backend=DistributedBackend(mock_backend(default="x")))


@pytest.mark.needs("redis-server")
async def test_journals_keep_what_was_done(redis: str, tmp_path: Path) -> None:
    """In a file as in Redis: frames in order, attempts, an end, and names that one holds at a time."""
    for where in (tmp_path / "journal.db", redis):
        one, other = journal_of(where), journal_of(where)
        await one.add("k", b"first")
        await one.add("k", b"second")
        assert [await one.attempt("k"), await other.attempt("k")] == [1, 2]
        assert (list((await other.load("k")).frames), (await other.load("k")).finished) == (
            [b"first", b"second"],
            False,
        )
        await one.finish("k")
        assert (await other.load("k")).finished
        async with held(one, "session"):
            assert not await other.hold("session", "somebody")
        assert await other.hold("session", "somebody")
        await one.close()
        await other.close()
