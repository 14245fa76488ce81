"""Queues while brokers are away, and workers are killed, paused or blocked."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import RunError
from tests.distributed import served
from tests.distributed.queues import a_queue, caller, until
from tests.distributed.served import Crew

pytestmark = pytest.mark.newest


@pytest.fixture(autouse=True)
def soon_dead() -> Iterator[None]:
    """Workers of these tests count as dead soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served.turns, "StepPolicy", served.turns.StepPolicy)
        served.soon_dead()
        yield


@asynccontextmanager
async def crew(address: str, server: str, folder: Path, kind: str = "pipeline") -> AsyncGenerator[Any]:
    """Worker processes, and what calls them; a pipeline whose queue nobody has used before."""
    endpoint = str(a_queue(server).endpoint)
    made = Crew(address, endpoint, folder, kind)
    pipeline = {"pipeline": served.pipeline, "computing": served.computing}[kind](endpoint)
    try:
        async with caller(address, patience=100) as backend:

            def run(task: str) -> asyncio.Future[Any]:
                return asyncio.ensure_future(pipeline.run(task, backend=backend))

            yield made, run
    finally:
        made.end()


async def test_a_step_that_blocks_the_event_loop_runs_once(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """It computes for three heartbeats: the worker is not taken for dead, and the caller gets the answer."""
    async with crew(temporal.address, redis, tmp_path, "computing") as (workers, run):
        workers.start()
        assert (await run("sums")).state["computed"] == "sums"
        assert workers.count("compute begins sums") == 1


async def test_a_paused_worker_runs_nothing_twice(redis: str, temporal: DevServer, tmp_path: Path) -> None:
    """Stopped in a step until it counts as dead, it joins the step that still runs when it goes on."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.hold("two")
        process = workers.start()
        running = run("sums")
        await workers.until("two begins sums")
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3 * served.HEARTBEAT)  # the pause is what is tested
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(served.HEARTBEAT)  # in which the next attempt comes
        workers.release("two")
        assert (await running).state["two"] == "sums"
        assert workers.count("two begins sums") == 1


@pytest.mark.faults
@pytest.mark.timeout(400)
async def test_a_poison_run_runs_alone_after_its_first_failure(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """It kills its worker each time; innocent runs end well, hit once at most, and its caller is told."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.hold("two")
        workers.start()
        names = [f"innocent{number}" for number in range(4)]
        innocent = [run(name) for name in names]
        poison = run("poison")
        for name in (*names, "poison"):
            await workers.until(f"two begins {name}")
        workers.release("two")

        async def replace() -> None:
            while True:
                await asyncio.to_thread(workers.workers[-1].wait)
                workers.start()

        replacing = asyncio.ensure_future(replace())
        try:
            results = await asyncio.gather(*innocent)
            with pytest.raises(RunError, match=r"'fn_2' was begun 5 times and never ended"):
                await poison
            assert (await run("after")).state["two"] == "after"
        finally:
            replacing.cancel()
            workers.end()
            await asyncio.gather(replacing, return_exceptions=True)
        assert [result.state["two"] for result in results] == names
        assert workers.count("two begins poison") == 5
        assert all(workers.count(f"two begins {name}") <= 2 for name in names)
        assert all(workers.count(f"one begins {name}") == 1 for name in names)


async def test_a_worker_with_a_blocked_loop_can_be_ended(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """A step that never gives the event loop back does not keep a process alive that is told twice to end."""
    async with crew(temporal.address, redis, tmp_path, "computing") as (workers, run):
        command = [Path(sys.executable).parent / "adk-fluent", "worker", "tests.distributed.served:chosen"]
        process = workers.start(*map(str, command), "--address", temporal.address)
        running = run("forever")
        await workers.until("compute begins forever")
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
        assert process.returncode == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# --- for minutes ---------------------------------------------------------------------------------------


class Proxy:
    """A way to a broker on this machine that a test can cut.

    Attributes:
        port: where it listens.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self._url, self._to = url, parts.port
        self._links: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The broker's URL by this way."""
        return self._url.replace(f":{self._to}", f":{self.port}")

    async def open(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._through, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Close all connections, and let none through."""
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.close()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._to)
        links = {writer, there}
        self._links |= links

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            except OSError:
                pass  # it was cut
            finally:
                target.close()

        await asyncio.gather(pass_on(reader, there), pass_on(there_reader, writer))
        self._links -= links


@asynccontextmanager
async def proxy(url: str) -> AsyncGenerator[Proxy]:
    """A way to a broker."""
    made = Proxy(url)
    await made.open()
    try:
        yield made
    finally:
        await made.cut()


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [3, 30])
@pytest.mark.parametrize("broker", ["redis", "nats", "rabbitmq"], indirect=True)
async def test_a_broker_that_is_away_loses_no_run(
    broker: str, temporal: DevServer, tmp_path: Path, seconds: int
) -> None:
    """Runs that are at work, and those that begin meanwhile, end well and run once; no error is recorded."""
    async with (
        proxy(broker) as way,
        crew(temporal.address, way.url, tmp_path) as (workers, run),
    ):
        workers.hold("two")
        workers.start()
        runs = [run("before")]
        await workers.until("two begins before")
        await way.cut()
        runs += [run(f"meanwhile{number}") for number in range(3)]
        await asyncio.sleep(seconds)  # the outage is what is tested
        workers.release("two")
        await way.open()
        names = ["before", *(f"meanwhile{number}" for number in range(3))]
        assert [result.state["two"] for result in await asyncio.gather(*runs)] == names
        assert all(workers.count(f"two begins {name}") == 1 for name in names)


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_500_runs_at_once_lose_nothing(redis: str, temporal: DevServer, tmp_path: Path) -> None:
    """One caller starts 500 runs at once: each ends well, and each step runs once."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.start()
        names = [f"task{number}" for number in range(500)]
        results = await asyncio.gather(*map(run, names))
        assert [result.state["two"] for result in results] == names
        assert all(workers.count(f"{step} begins {name}") == 1 for name in names for step in ("one", "two"))


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_no_finished_call_is_repeated_when_workers_are_killed(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """Workers are killed at random, 20 times: all runs end well, and no step that had ended runs again."""
    chance = random.Random(20)
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.start()
        results: list[Any] = []
        for number in range(20):
            names = [f"round{number}.{each}" for each in range(3)]
            workers.hold("two")
            runs = [run(name) for name in names]
            await workers.until(f"one begins {names[0]}")
            for name in names[: chance.randrange(4)]:
                await workers.until(f"two begins {name}")
            kept = [name for name in names if workers.count(f"two begins {name}")]
            workers.workers[-1].kill()
            workers.release("two")
            workers.start()
            results += await asyncio.gather(*runs)
            # The second step began, so the end of the first one was kept.
            assert all(workers.count(f"one begins {name}") == 1 for name in kept)
            assert all(workers.count(f"two ends {name}") == 1 for name in names)
        assert len(results) == 60


async def test_a_proxy_is_cut(redis: str) -> None:
    """What the tests of outages rely on: nothing comes through, then everything does."""
    async with proxy(redis) as way:
        await way.cut()
        with pytest.raises(OSError, match="onnect"):
            await asyncio.open_connection("127.0.0.1", way.port)
        await way.open()
        _, writer = await asyncio.open_connection("127.0.0.1", way.port)
        writer.close()
        await until(lambda: True)
