"""The brokers that queues need, on free ports of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
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
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """What starts a broker for the first test of this process that needs it, and gives its URL.

    For Pub/Sub it gives the address of the emulator.
    """
    starts: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "redis": lambda: redis_server(tmp_path_factory.mktemp("redis")),
        "nats": lambda: nats_server(tmp_path_factory.mktemp("nats")),
        "rabbitmq": rabbitmq_server,
        "pubsub": pubsub_emulator,
    }
    with ExitStack() as stack:

        @cache
        def url(name: str) -> str:
            return stack.enter_context(starts[name]())

        yield url


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.needs(program)) for name, program in NEEDED.items()]
)
def broker(
    request: pytest.FixtureRequest, started: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URL of a broker, one after the other."""
    return _url(request.param, started, monkeypatch)


@pytest.fixture(
    params=[
        pytest.param(names, marks=[pytest.mark.needs(NEEDED[name]) for name in names])
        for names in (["redis", "nats", "rabbitmq"], ["pubsub"])
    ],
    ids=["redis, nats, rabbitmq", "pubsub"],
)
def together(
    request: pytest.FixtureRequest, started: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The URLs of brokers that are there at the same time."""
    return [_url(name, started, monkeypatch) for name in request.param]


def _url(name: str, started: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> str:
    if name != "pubsub":
        return started(name)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", started(name))  # by which Google's client finds it
    return "pubsub://projects/shop/topics"


@pytest.fixture(scope="session")
def redis(started: Callable[[str], str]) -> str:
    """The URL of a Redis server."""
    return started("redis").removesuffix("/0")
