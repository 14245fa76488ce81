"""Queues at real brokers: Redis, NATS and RabbitMQ, started and ended by these tests."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, S
from adk_fluent.distributed import DistributedBackend, QueueWorker, TransportConfig
from adk_fluent.distributed.queues import calling, journal
from adk_fluent.distributed.queues.brokers import Message, broker_of
from adk_fluent.distributed.queues.journal import held, journal_of
from adk_fluent.errors import SegmentError
from adk_fluent.state import declares
from adk_fluent.testing import mock_backend
from tests.distributed import served
from tests.services import cancelled_after, nats_server, pubsub_emulator, rabbitmq_server, redis_server

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


HEARD: list[tuple[str, str]] = []


@declares(reads=["task"], writes=["done"])
async def work(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that others could come in between of."""
    HEARD.append((state["task"], "begins"))
    for _ in range(50):
        await asyncio.sleep(0)
    HEARD.append((state["task"], "ends"))
    return {"done": state["task"]}


async def test_runs_of_a_session_stay_in_order(server: str, tmp_path: Path) -> None:
    """Of several workers none begins with a run of a session before the one in front of it has ended."""
    HEARD.clear()
    queue = TransportConfig(endpoint=f"{server}/ordered")
    pipeline = S.capture("task") >> S.fn(work).execution_boundary(transport=queue)
    workers = [QueueWorker(pipeline, journal=tmp_path / "journal.db", redeliver_after=10) for _ in range(2)]
    for worker in workers:
        await worker.start()
    caller = DistributedBackend()
    numbers = [str(number) for number in range(6)]
    try:
        await asyncio.gather(*(pipeline.run(n, session_id="ann", backend=caller) for n in numbers))
    finally:
        await caller.close()
        for worker in workers:
            await worker.stop()
    assert [(number, what) for number in numbers for what in ("begins", "ends")] == HEARD


BOTH: list[asyncio.Barrier] = []


@declares(reads=[], writes=["met"])
async def meet(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that ends only when another one is at work, too."""
    await BOTH[-1].wait()
    return {"met": "yes"}


@pytest.mark.parametrize("server", BROKERS[:3], indirect=True)  # Pub/Sub's emulator fills one reader first
async def test_each_worker_adds_what_it_can_do_at_once(server: str, tmp_path: Path) -> None:
    """Two workers that take one piece of work at a time have two sessions at work."""
    BOTH.append(asyncio.Barrier(2))
    queue = TransportConfig(endpoint=f"{server}/meeting")
    pipeline = S.capture("task") >> S.fn(meet).execution_boundary(transport=queue)
    workers = [QueueWorker(pipeline, journal=tmp_path / "journal.db", at_once=1) for _ in range(2)]
    for worker in workers:
        await worker.start()
    caller = DistributedBackend()
    try:
        results = await asyncio.gather(*(pipeline.run("Go", backend=caller) for _ in range(2)))
        assert [result.state["met"] for result in results] == ["yes", "yes"]
    finally:
        await caller.close()
        for worker in workers:
            await worker.stop()


@declares(reads=["task"], writes=["met"])
async def linger(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that may be long."""
    if state["task"] == "long":
        await BOTH[-1].wait()
    return {"met": "yes"}


@pytest.mark.parametrize("server", BROKERS[:3], indirect=True)
async def test_long_work_stays_with_its_worker(server: str, tmp_path: Path) -> None:
    """It is not given to others again and again meanwhile, who would wait for it instead of working."""
    BOTH.append(asyncio.Barrier(2))
    queue = TransportConfig(endpoint=f"{server}/long")
    pipeline = S.capture("task") >> S.fn(linger).execution_boundary(transport=queue)
    where = tmp_path / "journal.db"
    workers = [QueueWorker(pipeline, journal=where, at_once=1, redeliver_after=1.5) for _ in range(2)]
    for worker in workers:
        await worker.start()
    caller = DistributedBackend(patience=10)
    try:
        long = asyncio.ensure_future(pipeline.run("long", backend=caller))
        end = time.monotonic() + 4
        while time.monotonic() < end:
            await pipeline.run("short", backend=caller)
            assert not long.done()
        await BOTH[-1].wait()
        assert (await long).state["met"] == "yes"
    finally:
        await caller.close()
        for worker in workers:
            await worker.stop()


@declares(reads=["task"], writes=["done"])
async def begin(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that the first worker does not finish, and that takes a moment to end."""
    HEARD.append((state["task"], "begins"))
    try:
        await BOTH[-1].wait()
    finally:
        for _ in range(50):
            await asyncio.sleep(0)
        HEARD.append((state["task"], "ends"))
    return {"done": "yes"}


async def test_a_worker_that_stops_has_ended_its_work(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it has stopped nothing of it runs, its session is free, and another one does what is left."""
    monkeypatch.setattr(import_module("adk_fluent.distributed.queues.faststream"), "_GRACE", 0.1)
    HEARD.clear()
    BOTH.append(asyncio.Barrier(2))
    pipeline = S.capture("task") >> S.fn(begin).execution_boundary(
        transport=TransportConfig(endpoint=f"{server}/stopped")
    )
    where = server if server.startswith("redis") else tmp_path / "journal.db"
    first, second = (QueueWorker(pipeline, journal=where, redeliver_after=0.5) for _ in range(2))
    caller = DistributedBackend()
    run = asyncio.ensure_future(pipeline.run("Go", session_id="ann", backend=caller))
    kept = journal_of(where)
    try:
        await first.start()
        while not HEARD:
            await asyncio.sleep(0.01)
        await first.stop()
        assert HEARD == [("Go", "begins"), ("Go", "ends")]
        assert await kept.hold("stopped/user/ann", "another")
        await kept.release("stopped/user/ann", "another")
        await second.start()
        await BOTH[-1].wait()
        assert (await run).state["done"] == "yes"
    finally:
        await kept.close()
        await caller.close()
        await first.stop()
        await second.stop()


ANSWERS = f"answers.replies.{'0' * 32}"
"""The topic for answers of the caller in a test."""


async def _kept(server: str) -> str:
    """How long the broker keeps the answers of a caller that is gone; nothing if it has none."""
    import aio_pika
    from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

    scheme = server.partition("://")[0]
    if scheme == "redis":
        client: Any = import_module("redis.asyncio").from_url(server)
        seconds: int = await client.ttl(ANSWERS)
        await client.aclose()
        return "" if seconds == -2 else f"{round(seconds / 3600)} hours"
    if scheme == "nats":
        connection: Any = await import_module("nats").connect(server)
        found = await connection.jsm().consumers_info("answers-replies")
        stream = await connection.jsm().stream_info("answers-replies")
        await connection.close()
        assert stream.state.messages == 0 or found
        kept: set[Any] = {stream.config.max_age, *(each.config.inactive_threshold for each in found)}
        return "" if not found else " ".join(f"{round(seconds / 3600)} hours" for seconds in kept)
    if scheme == "amqp":
        async with await aio_pika.connect(server) as link:
            try:  # which says what it finds where that is not what it is asked for
                await (await link.channel()).declare_queue(ANSWERS, durable=True, passive=True)
                await (await link.channel()).declare_queue(ANSWERS, durable=True)
            except ChannelNotFoundEntity:
                return ""
            except ChannelPreconditionFailed as error:
                told = re.search(r"'x-expires' .* the value '(\d+)'", str(error))
                return "" if told is None else f"{round(int(told[1]) / 3_600_000)} hours"
        return "for ever"
    subscriber: Any = import_module("google.cloud.pubsub_v1").SubscriberClient()
    with subscriber:
        path = f"projects/shop/subscriptions/{ANSWERS}.adk_fluent"
        try:
            found_there: Any = subscriber.get_subscription(subscription=path)
        except import_module("google.api_core.exceptions").NotFound:
            return ""
        return f"{round(found_there.expiration_policy.ttl.total_seconds() / 3600)} hours"


async def test_answers_go_with_their_caller(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that closes leaves nothing at the broker; what one that dies has left goes within a day."""

    def answers(queue: str) -> str:
        return ANSWERS

    monkeypatch.setattr(calling, "answers_for", answers)
    queue = TransportConfig(endpoint=f"{server}/answers")
    pipeline = Agent("clerk").writes("task") >> Agent("heavy").execution_boundary(transport=queue)
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    caller = DistributedBackend(script)
    worker = QueueWorker(pipeline, backend=script, journal=tmp_path / "journal.db")
    await worker.start()
    try:
        assert (await pipeline.run("Go", backend=caller)).text == "42"
        assert await _kept(server) == "24 hours"
        await caller.close()
        assert await _kept(server) == ""
    finally:
        await caller.close()
        await worker.stop()


@pytest.mark.parametrize("server", BROKERS[:3], indirect=True)  # Pub/Sub's emulator takes up to a minute
async def test_another_worker_goes_on_where_one_was_killed(server: str, tmp_path: Path) -> None:
    """A process is killed between two steps: another finishes the work; the first is not repeated."""
    where = server if server.startswith("redis") else str(tmp_path / "journal.db")
    start = (
        "import asyncio, sys; from tests.distributed import served; asyncio.run(served.serve(*sys.argv[1:3]))"
    )
    command = [sys.executable, "-c", start, server, where, "to be killed"]
    paths = os.pathsep.join(filter(None, sys.path))
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    caller = DistributedBackend()
    pipeline = served.pipeline(server)
    assert first.stdout is not None
    try:
        run = asyncio.ensure_future(pipeline.run("Go", backend=caller))
        await asyncio.to_thread(first.stdout.readline)
        first.kill()
        second = QueueWorker(pipeline, journal=where, redeliver_after=0.5)
        await second.start()
        result = await run
        await second.stop()
    finally:
        first.kill()
        first.communicate()
        await caller.close()
    assert (result.state["began"], result.state["ended"]) == (first.pid, os.getpid())


EFFECTS = 14
"""What a worker does for a piece of work with two steps: counts it, says so, keeps and tells each of five
events, keeps that it is done, and tells that."""


@pytest.mark.needs("redis-server")
async def test_a_worker_may_be_killed_between_any_two_effects(
    redis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another finishes, and the caller hears all of it once; a step whose end is kept is not run again."""
    monkeypatch.setattr(journal, "LEASE", 0.5)
    starting = get_context("forkserver")
    starting.set_forkserver_preload(["tests.distributed.served", "google.adk.runners", "faststream.redis"])

    async def run(at: int) -> tuple[bool, list[str], dict[str, Any], list[str]]:
        endpoint, log = f"{redis}/killed{at}", tmp_path / f"{at}.log"
        pipeline = served.noting(endpoint)
        first = starting.Process(target=served.die, args=(endpoint, at))
        first.start()
        caller = DistributedBackend(patience=60)
        try:
            running = asyncio.ensure_future(pipeline.run(str(log), backend=caller))
            ended = asyncio.ensure_future(asyncio.to_thread(first.join))
            await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
            killed = ended.done()
            second = QueueWorker(pipeline, redeliver_after=0.5)
            await second.start()
            result = await running
            await second.stop()
        finally:
            first.kill()
            await asyncio.to_thread(first.join)
            await caller.close()
        wrote = [key for event in result for key in event.state_delta if key in ("one", "two")]
        return killed, wrote, dict(result.state), log.read_text().split()

    again: list[list[str]] = []
    for at, (killed, wrote, state, ran) in enumerate(await asyncio.gather(*map(run, range(1, EFFECTS + 1)))):
        assert killed, at
        assert wrote == ["one", "two"], at
        assert (state["one"], state["two"]) == ("done", "done"), at
        again += [ran] if ran != ["one", "two"] else []
    assert again == [["one", "one", "two"], ["one", "two", "two"]]  # killed before what they wrote was kept


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


@pytest.mark.needs("redis-server")
async def test_no_cancellation_in_a_journal_is_lost(redis: str) -> None:
    """Whatever it was about to note, who is cancelled ends: one who went on would keep a lease for ever."""
    for steps in range(60):
        for _ in range(3):
            journal = journal_of(redis)
            await cancelled_after(steps, journal.hold("session", "somebody"))
            await journal.close()
