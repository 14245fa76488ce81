"""Queues while their brokers are away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from adk_fluent.backends.temporal.server import DevServer, free_port
from adk_fluent.distributed.queues import brokers
from adk_fluent.distributed.queues.brokers import Message, broker_of
from tests.clock import Clock
from tests.distributed.queues import a_queue, consumer, crew, put
from tests.limits import LIMIT, within_limit
from tests.processes import run
from tests.services import pubsub_emulator

pytestmark = pytest.mark.newest


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
        if self._server is None or not self._server.is_serving():  # it was cut meanwhile
            writer.close()
            there.close()

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


@asynccontextmanager
async def reached(broker: str) -> AsyncGenerator[tuple[Proxy, str]]:
    """A way to a broker, and the URL by which callers and workers go there."""
    variable = "PUBSUB_EMULATOR_HOST"  # by which Google's client finds it
    if not broker.startswith("pubsub:"):
        async with proxy(broker) as way:
            yield way, way.url
        return
    async with proxy(f"grpc://{os.environ[variable]}") as way:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, f"127.0.0.1:{way.port}")
            yield way, broker


@pytest.mark.faults
@pytest.mark.timeout(300)
async def test_a_broker_that_is_away_loses_no_run(
    together: list[str], temporal: DevServer, tmp_path: Path
) -> None:
    """Runs that are at work, and those that begin meanwhile, end well and run once; no error is recorded.

    Brokers are away for 3 s and for 30 s, side by side; Pub/Sub, whose client knows one address, for 30 s.
    """
    async with asyncio.TaskGroup() as group:
        for broker in together:
            kind = urlsplit(broker).scheme
            for seconds in (30,) if kind == "pubsub" else (3, 30):
                folder = tmp_path / f"{kind}-{seconds}"
                group.create_task(_outage(broker, temporal.address, folder, seconds))


async def _outage(broker: str, address: str, folder: Path, seconds: int) -> None:
    folder.mkdir()
    async with reached(broker) as (way, url), crew(address, url, folder) as (workers, run):
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


@pytest.mark.parametrize("scheme", ["redis", "nats", "amqp"])
async def test_messages_wait_together_for_a_broker(
    scheme: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker is away, all callers share one attempt to connect, and the log has one line."""
    endpoint = f"{scheme}://127.0.0.1:{free_port()}/jobs"
    attempts: list[str] = []

    def made(place: str) -> brokers.Broker:
        attempts.append(place)
        return broker_of(place)

    monkeypatch.setattr(brokers, "broker_of", made)
    monkeypatch.setattr(brokers, "time", clock := Clock())
    users = [asyncio.Event() for _ in range(24)]
    for _ in range(3):
        sent = [brokers.connection_to(endpoint, user).put("jobs", Message(b"", {})) for user in users]
        assert all(
            isinstance(each, Exception) for each in await asyncio.gather(*sent, return_exceptions=True)
        )
        clock.now += brokers.LONGEST_PAUSE
    assert attempts == [endpoint] * 3
    assert [line.partition(" away")[0] for line in caplog.messages] == [f"The broker of {endpoint} is"]


async def test_messages_go_on_when_a_broker_is_back(
    redis: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was lost is made again, and the log has a line for each of the two."""
    monkeypatch.setattr(brokers, "time", clock := Clock())
    async with proxy(redis) as way:
        connection = brokers.connection_to(f"{way.url}/jobs", way)
        await connection.put("jobs", Message(b"before", {}))
        await way.cut()
        for _ in range(2):
            with pytest.raises(Exception, match="onnect"):
                await connection.put("jobs", Message(b"meanwhile", {}))
        await way.open()
        clock.now += brokers.LONGEST_PAUSE
        await connection.put("jobs", Message(b"after", {}))
        await brokers.disconnect(f"{way.url}/jobs", way)
    where = f"The broker of {way.url}/jobs is"
    assert [line.partition(",")[0] for line in caplog.messages] == [f"{where} away", f"{where} back."]


def test_a_program_that_ends_with_an_error_closes_its_connections(broker: str) -> None:
    """It need not call `close()`: its loop closes each broker, and only the error is printed."""
    done = run(
        """
import asyncio, sys
from adk_fluent.distributed.queues import brokers

made = brokers.broker_of

def reporting(endpoint):
    broker = made(endpoint)
    close = broker.close

    async def reported():
        await close()
        print("closed")

    broker.close = reported
    return broker

brokers.broker_of = reporting

async def main():
    await brokers.connection_to(sys.argv[1], asyncio).put("left", brokers.Message(b"x", {}))
    raise ValueError("leaves")

asyncio.run(main())
""",
        a_queue(broker).endpoint,
    )
    assert (done.returncode, done.stdout) == (1, "closed\n")
    assert done.stderr.startswith("Process ")
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.rstrip().endswith("ValueError: leaves")
    assert "destroyed" not in done.stderr


async def test_a_proxy_is_cut(redis: str) -> None:
    """What the tests of outages rely on: nothing comes through, then everything does."""
    async with proxy(redis) as way:
        await way.cut()
        with pytest.raises(OSError, match="onnect"):
            await asyncio.open_connection("127.0.0.1", way.port)
        await way.open()
        _, writer = await asyncio.open_connection("127.0.0.1", way.port)
        writer.close()


@pytest.mark.needs("cloud-pubsub-emulator")
@pytest.mark.parametrize("steady", [0, 60])
async def test_the_service_ends_a_stream(monkeypatch: pytest.MonkeyPatch, steady: int) -> None:
    """Pub/Sub ends every stream after a while: a consumer opens the next one, unless this one was short."""
    from google.api_core.exceptions import ServerError

    from adk_fluent.distributed.queues import pubsub

    monkeypatch.setattr(pubsub, "_STEADY", steady)
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(message: Message) -> None:
        await came.put(message.body)

    with pubsub_emulator() as address:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
        endpoint = str(a_queue("pubsub://projects/shop/topics").endpoint)
        async with reached(endpoint) as (way, _), consumer(endpoint, hear) as taking:
            await put(endpoint, Message(b"before", {}))
            assert await within_limit(came.get()) == b"before"
            await way.cut()
            await way.open()
            if steady:
                with pytest.raises(ServerError):
                    await within_limit(asyncio.shield(taking))
            async with asyncio.timeout(LIMIT):
                while not steady and came.empty():  # the emulator also delivers to the stream that was cut
                    with suppress(ServerError):  # gRPC's channels to one address may share what was cut
                        await put(endpoint, Message(b"after", {}))
            assert taking.done() is bool(steady)
