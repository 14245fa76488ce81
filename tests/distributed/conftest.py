"""The brokers that queues need, on free ports of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec

import pytest

from tests.services import nats_server, pubsub_emulator, rabbitmq_server, redis_server

collect_ignore_glob: list[str] = [] if find_spec("temporalio") else ["test_queue*.py"]

NEEDED = {
    "redis": "redis-server",
    "nats": "nats-server",
    "rabbitmq": "rabbitmq-server",
    "pubsub": "cloud-pubsub-emulator",
}
"""Broker → the program that its tests start."""


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url.removesuffix("/0")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.needs(program)) for name, program in NEEDED.items()],
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker, one after the other."""
    with _broker(request.param, tmp_path_factory) as url:
        yield url


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(names, marks=[pytest.mark.needs(NEEDED[name]) for name in names])
        for names in (["redis", "nats", "rabbitmq"], ["pubsub"])
    ],
    ids=["redis, nats, rabbitmq", "pubsub"],
)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URLs of brokers that are there at the same time."""
    with ExitStack() as stack:
        yield [stack.enter_context(_broker(name, tmp_path_factory)) for name in request.param]


def _broker(name: str, folders: pytest.TempPathFactory) -> AbstractContextManager[str]:
    starts: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "redis": lambda: redis_server(folders.mktemp("redis")),
        "nats": lambda: nats_server(folders.mktemp("nats")),
        "rabbitmq": rabbitmq_server,
        "pubsub": _pubsub,
    }
    return starts[name]()


@pytest.fixture
def soon_dead() -> Iterator[None]:
    """Workers count as dead soon."""
    from tests.distributed import served

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served.turns, "StepPolicy", served.turns.StepPolicy)
        served.soon_dead()
        yield


@contextmanager
def _pubsub() -> Generator[str]:
    with pubsub_emulator() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", address)
        yield "pubsub://projects/shop/topics"
