"""The stores of `cache`: what is kept, for how long, and that nothing that is read runs code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import traceback
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.errors import ArgumentError, MissingExtraError, install
from adk_fluent.middleware import cache, stores
from adk_fluent.middleware.stores import (
    ENTRIES,
    FolderStore,
    MemoryStore,
    RedisStore,
    Store,
    StoreError,
    store_of,
)
from adk_fluent.testing import mock_backend
from tests.clock import still
from tests.conftest import open_in
from tests.limits import LIMIT
from tests.services import cancelled_after, redis_server

TEXTS = ["", "plain", "é\n\0", "x" * 200_000, '{"a": 1}']


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server for the tests of this file."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield f"{url}?socket_timeout={LIMIT:g}"  # not the two seconds of the library


async def keeps_texts(store: Store) -> None:
    """What every store does."""
    assert await store.get("k") is None
    for text in TEXTS:
        await store.set("k", text, None)
        assert await store.get("k") == text
    await store.set("other", "more", 1000.0)
    assert (await store.get("k"), await store.get("other")) == (TEXTS[-1], "more")
    await store.close()
    assert await store.get("other") == "more"
    await store.close()


async def test_memory_keeps_texts() -> None:
    """Memory gives back the texts it was given, the last one under each key."""
    await keeps_texts(store_of("memory"))


async def test_a_folder_keeps_texts(tmp_path: Path) -> None:
    """So does a folder, and another store on the same folder finds them."""
    await keeps_texts(store_of(tmp_path / "kept"))
    again = store_of(str(tmp_path / "kept"))
    assert await again.get("other") == "more"
    await again.close()


@pytest.mark.needs("redis-server")
async def test_redis_keeps_texts(redis_url: str) -> None:
    """So does a Redis server."""
    await keeps_texts(store_of(redis_url))


@pytest.mark.needs("redis-server")
def test_one_redis_store_serves_many_loops(redis_url: str) -> None:
    """A store outlives the loop it was used on: each `ask` has one of its own."""
    store = store_of(redis_url)

    async def put() -> None:
        await store.set("loops", "kept", None)
        await store.close()

    async def look() -> str | None:
        try:
            return await store.get("loops")
        finally:
            await store.close()

    asyncio.run(put())
    assert [asyncio.run(look()) for _ in range(3)] == ["kept"] * 3


@pytest.mark.needs("redis-server")
async def test_no_cancellation_of_a_redis_command_is_lost(redis_url: str) -> None:
    """Whatever it was about to do, who is cancelled ends; and once closed, no connection is left."""
    before = open_in(asyncio.get_running_loop())
    for steps in range(60):
        for _ in range(5):
            store = store_of(redis_url)
            await cancelled_after(steps, store.get("other"))
            await store.close()
    assert open_in(asyncio.get_running_loop()) == before


@pytest.mark.needs("redis-server")
async def test_redis_entries_end(redis_url: str) -> None:
    """Redis itself is told when an entry is over, so that none stays for ever."""
    from redis import asyncio as redis

    clients: Any = redis.Redis
    store = store_of(redis_url)
    await store.set("short", "x", 7.5)
    async with clients.from_url(redis_url) as client:
        left = await client.pttl("adk_fluent:cache:short")
        assert 0 < left <= 7500
        await client.delete("adk_fluent:cache:short")
    assert await store.get("short") is None
    await store.close()


async def _expiring() -> list[str | None]:
    store = MemoryStore()
    await store.set("k", "x", 10)
    seen = [await store.get("k")]
    await asyncio.sleep(9.5)
    seen.append(await store.get("k"))
    await asyncio.sleep(1)
    return [*seen, await store.get("k")]


def test_memory_entries_end() -> None:
    """An entry is there until its seconds are over."""
    assert still(_expiring()) == ["x", "x", None]


async def test_folder_entries_end(tmp_path: Path) -> None:
    """A folder is told when an entry is over."""
    store = FolderStore(tmp_path)
    await store.set("past", "x", -1.0)
    await store.set("future", "y", 1000.0)
    assert (await store.get("past"), await store.get("future")) == (None, "y")
    await store.close()


async def test_memory_is_bounded() -> None:
    """Of many entries those used last stay."""
    store = MemoryStore()
    for number in range(ENTRIES):
        await store.set(str(number), "x", None)
    await store.get("0")
    for number in range(ENTRIES, 2 * ENTRIES - 1):
        await store.set(str(number), "x", None)
    assert len(store) == ENTRIES
    assert (await store.get("0"), await store.get("1")) == ("x", None)


class Bomb:
    """Something whose unpickling would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("mode", [1, 2, 3, 4, 5])
async def test_a_pickle_in_the_folder_is_not_loaded(tmp_path: Path, mode: int) -> None:
    """Whoever can write into the folder cannot make us run code: what is no text is not there."""
    trace = tmp_path / "trace"
    store = FolderStore(tmp_path / "kept")
    await store.set("k", "x", None)
    await store.close()
    with sqlite3.connect(tmp_path / "kept" / "cache.db") as database:
        bomb = sqlite3.Binary(pickle.dumps(Bomb(trace)))
        database.execute("UPDATE Cache SET value = ?, mode = ?", (bomb, mode))
    database.close()
    assert await store.get("k") is None
    await store.close()
    assert not trace.exists()


async def test_a_pickled_key_in_the_folder_is_not_loaded(tmp_path: Path) -> None:
    """Nor are keys unpickled, whatever the database says of them."""
    trace = tmp_path / "trace"
    store = FolderStore(tmp_path / "kept")
    await store.set("k", "x", None)
    await store.close()
    with sqlite3.connect(tmp_path / "kept" / "cache.db") as database:
        bomb = sqlite3.Binary(pickle.dumps(Bomb(trace)))
        database.execute("UPDATE Cache SET key = ?, raw = 0", (bomb,))
    database.close()
    assert await store.get("k") is None
    await store.set("k", "y", None)
    assert await store.get("k") == "y"
    await store.close()
    assert not trace.exists()


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("mongodb://x", "knows no mongodb:// stores"),
        ("http://x/y", "knows no http:// stores"),
        ("", "is 'memory', a folder, or a redis:// URL, not ''"),
        (3, "not 3"),
        (None, "not None"),
        ("redis://localhost:port/0", "cache\\(store='redis://\\.\\.\\.'\\): no address of Redis"),
    ],
)
def test_stores_that_are_none(store: object, message: str) -> None:
    """What is no store is one clear line."""
    with pytest.raises(ArgumentError, match=message):
        store_of(store)  # pyright: ignore[reportArgumentType]  # what a hurried user types


@pytest.mark.parametrize(("store", "extra"), [("redis://localhost", "redis"), ("folder", "diskcache")])
def test_a_missing_package_is_named(store: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the extra that brings it is named."""
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(MissingExtraError, match=re.escape(install(extra))):
        store_of(store)


def test_urls_of_redis() -> None:
    """Redis over TLS and over a local socket are Redis too."""
    for url in ("redis://localhost:6379/0", "rediss://localhost/1", "unix:///run/redis.sock"):
        assert isinstance(store_of(url), RedisStore)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter22@host:port/0",
        "redis://ann:hunt/er22@host:6379/0",
        "redis://ann:hunt#er22@host:6379/0",
        "rediss://:hunter22@[bad/0",
        "redis://:hunter22@host:6379/0?socket_timeout=hunter22",
        "unix://:hunter22@/run/redis.sock?db=hunter22&socket_timeout=x",
        "mysql://ann:hunter22@host/0",
    ],
)
def test_the_error_for_an_address_has_no_password(url: str) -> None:
    """What is raised for an address that is none has no part of its password, nor does what caused it."""
    with pytest.raises(ArgumentError) as caught:
        cache(url)
    assert "er22" not in "".join(traceback.format_exception(caught.value))


# --- stores that are down -------------------------------------------------------------------------


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, list[object]]]:
    """The URL of a server that accepts connections and never answers, and the connections that it got."""
    accepted: list[object] = []
    ended = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", accepted
    ended.set()
    server.close()
    await server.wait_closed()


async def test_a_redis_that_never_answers(
    silent: tuple[str, list[object]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run asks the model, says so once, and later runs do not ask the store until a while has passed."""
    url, accepted = silent
    monkeypatch.setattr(stores, "ANSWERS", 0.05)
    middleware = cache(url)
    agent = Agent("a").middleware(middleware)
    backend = mock_backend(default="answer", stores="real")
    async with agent:
        for _ in range(3):
            assert await agent.ask_async("hi", backend=backend) == "answer"
        assert len(accepted) == 1
        (message,) = [each for each in caplog.messages if "store" in each]
        assert message.startswith("a: the store of cache() could not be read: ")
        assert message.endswith(" Redis is not asked for 30 s.")
        monkeypatch.setattr(stores, "PAUSE", 0.0)
        store: Any = vars(middleware)["_store"]
        store._asking._paused_until = 0.0
        assert await agent.ask_async("hi", backend=backend) == "answer"
        assert len(accepted) > 1
        assert len([each for each in caplog.messages if "store" in each]) == 1


@pytest.mark.needs("redis-server")
async def test_a_redis_that_answers_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once the pause is over one call tries; when the server answers, the store is used again."""
    caplog.set_level(logging.INFO, "adk_fluent.middleware")
    with redis_server(tmp_path) as url:
        store: Any = store_of(url)
        await store.set("k", "x", None)
        await store.close()
    with pytest.raises(StoreError, match=r"Redis is not asked for 30 s\.$"):
        await store.get("k")
    assert await store.get("k") is None
    with redis_server(tmp_path) as url:
        again: Any = store_of(url)
        again._asking = store._asking
        assert await again.get("k") is None
        again._asking._paused_until = 0.0
        await again.set("k", "x", None)
        assert await again.get("k") == "x"
        await again.close()
    assert caplog.messages == ["Redis answers again, so cache() uses it."]


async def test_only_one_call_tries_a_store_that_was_down() -> None:
    """Of several calls after the pause one tries, and the others go on without the store."""
    store: Any = store_of("redis://127.0.0.1:1/0")
    with pytest.raises(StoreError):
        await store.get("k")
    tried = 0

    async def asking() -> str:
        nonlocal tried
        tried += 1
        await asyncio.sleep(0)
        return "x"

    store._asking._paused_until = 0.0
    assert await asyncio.gather(*(store._asking(asking) for _ in range(3))) == ["x", None, None]
    assert tried == 1
    await store.close()


def _connections(url: str) -> int:
    """How many connections a Redis server has, besides the one that asks."""

    async def count() -> int:
        from redis import asyncio as redis

        clients: Any = redis.Redis
        async with clients.from_url(url) as client:
            return len(await client.client_list()) - 1

    return asyncio.run(count())


@pytest.mark.needs("redis-server")
def test_no_connection_is_left_by_ask(redis_url: str) -> None:
    """Each `ask` has an event loop of its own, and closes the connections of a cache that it opened."""
    agent = Agent("a").middleware(cache(redis_url))
    backend = mock_backend(default="answer", stores="real")
    before = _connections(redis_url)
    for number in range(5):
        assert agent.ask(f"hi {number}", backend=backend) == "answer"
    assert _connections(redis_url) == before


@pytest.mark.needs("redis-server")
async def test_no_connection_is_left_by_a_cache_of_a_request(redis_url: str) -> None:
    """A cache that nobody holds any more closes its connections, although nobody has closed it."""
    before = open_in(asyncio.get_running_loop())
    for number in range(3):
        store = store_of(redis_url)
        await store.set(str(number), "x", None)
        del store
        gc.collect()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*tasks, return_exceptions=True)
    assert open_in(asyncio.get_running_loop()) == before


@pytest.mark.needs("redis-server")
def test_no_event_loop_is_left_by_a_redis_cache(redis_url: str) -> None:
    """The loop of an `ask` is collected after it, although the cache lives on."""
    store = store_of(redis_url)
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def use() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await store.set("k", "x", None)

    for _ in range(3):
        asyncio.run(use())
    gc.collect()
    assert [each() for each in loops] == [None] * 3


FORKS = """
import asyncio, os, sys
from adk_fluent.middleware.stores import store_of

store = store_of(sys.argv[1])
asyncio.run(store.set("k", "of the parent", None))
child = os.fork()
if child == 0:
    print(asyncio.run(store.get("k")), flush=True)
    asyncio.run(store.set("k", "of the child", None))
    asyncio.run(store.close())
    os._exit(0)
os.waitpid(child, 0)
print(asyncio.run(store.get("k")), flush=True)
asyncio.run(store.close())
"""


@pytest.mark.parametrize("kind", ["folder", pytest.param("redis", marks=pytest.mark.needs("redis-server"))])
def test_a_store_that_was_used_before_a_fork(kind: str, tmp_path: Path, request: Any) -> None:
    """Parent and child go on with it, each with a thread and connections of its own."""
    where = str(tmp_path) if kind == "folder" else request.getfixturevalue("redis_url")
    program = [sys.executable, "-c", FORKS, where]
    done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.stdout, done.stderr) == ("of the parent\nof the child\n", "")


async def test_a_folder_that_another_process_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which another process writes for too long is not waited for."""
    monkeypatch.setattr(stores, "_LOCKED", 0.05)
    store = FolderStore(tmp_path)
    await store.set("k", "x", None)
    other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    try:
        other.execute("begin exclusive")
        with pytest.raises(StoreError, match=r"the folder is not asked for 30 s\.$"):
            await store.set("k", "y", None)
        assert await store.set("k", "z", None) is None
    finally:
        other.close()
        await store.close()
