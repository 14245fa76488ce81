"""The servers that queues need: Temporal's for development, and brokers, on free ports of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.services import nats_server, pubsub_emulator, rabbitmq_server, redis_server

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer

collect_ignore_glob: list[str] = [] if find_spec("temporalio") else ["test_queue*.py"]

BROKERS = [
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
    pytest.param("nats", marks=pytest.mark.needs("nats-server")),
    pytest.param("rabbitmq", marks=pytest.mark.needs("rabbitmq-server")),
    pytest.param("pubsub", marks=pytest.mark.needs("cloud-pubsub-emulator")),
]


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """Temporal's server, on a file."""
    from adk_fluent.backends.temporal.server import DevServer

    with DevServer(tmp_path_factory.mktemp("temporal") / "runs.db") as server:
        yield server


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url.removesuffix("/0")


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker, one after the other."""
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
