"""Where `cache` keeps answers: in memory, in a folder, or on a Redis server; always as text."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from adk_fluent._redaction import safe_url
from adk_fluent._tasks import DetachedTasks, PerLoop
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    MissingExtraError,
    install,
    sentence,
    what_happened,
)

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

ENTRIES: Final = 1024
"""How many answers are kept in memory; the least recently used goes first."""

PAUSE: Final = 30.0
"""Seconds for which a store that fails is not asked again."""

_PREFIX: Final = "adk_fluent:cache:"


class Store(Protocol):
    """Keeps texts under keys, each for a number of seconds, or for as long as there is room."""

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        ...

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key for `ttl` seconds; `None` for as long as there is room."""
        ...

    async def close(self) -> None:
        """Give back what it holds open; it can be used again after that."""
        ...


def store_of(store: str | os.PathLike[str]) -> Store:
    """The store that `cache(store=)` names.

    Raises:
        ArgumentError: it is neither `"memory"`, a path, nor a `redis://` URL.
        MissingExtraError: the package it needs is not installed.
    """
    where: Any = store
    if not isinstance(store, str | os.PathLike) or not str(where).strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"cache(store=) is 'memory', a folder, or a redis:// URL, not {where!r:.40}.")
    if where == "memory":
        return MemoryStore()
    scheme = str(where).partition("://")[0].lower() if "://" in str(where) else ""
    if scheme in ("redis", "rediss", "unix"):
        _need("redis", "redis", "a Redis server")
        return RedisStore(str(where))
    if scheme:
        raise ArgumentError(
            f"cache(store=) knows no {scheme}:// stores; it is 'memory', a folder, or a redis:// URL."
        )
    _need("diskcache", "diskcache", "a folder")
    return FolderStore(Path(where))


def _need(package: str, extra: str, what: str) -> None:
    if find_spec(package) is None:
        raise MissingExtraError(f"cache(store=) in {what} needs the package {package}; run: {install(extra)}")


# --- in memory ------------------------------------------------------------------------------------


class MemoryStore:
    """Keeps the 1,024 texts that were used last, in this process."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, tuple[str, float | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        found = self._texts.pop(key, None)
        if found is None or (found[1] is not None and found[1] <= _now()):
            return None
        self._texts[key] = found
        return found[0]

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key."""
        self._texts.pop(key, None)
        self._texts[key] = (text, None if ttl is None else _now() + ttl)
        while len(self._texts) > ENTRIES:
            self._texts.popitem(last=False)

    async def close(self) -> None:
        """Nothing is held open; what is kept stays for the next run."""


def _now() -> float:
    return asyncio.get_running_loop().time()


# --- stores that may be down ----------------------------------------------------------------------


class StoreError(ADKFluentError):
    """A store fails, so it is not asked for a while; the `__cause__` says why."""


class _Breaker:
    """Stops asking a store that fails: for `PAUSE` seconds at a time, until it answers again.

    Args:
        what: the store, for messages.
        seconds: how long it may take.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._paused_until: float | None = None

    async def __call__(self, asking: Callable[[], Awaitable[T]]) -> T | None:
        """What the store gives; `None` while it is not asked.

        Raises:
            StoreError: it fails. Only the first call of an outage raises this.
        """
        known_as_down = self._paused_until is not None
        if self._paused_until is not None:
            if monotonic() < self._paused_until:
                return None
            self._paused_until = monotonic() + PAUSE  # one call tries; the others do not wait for it
        try:
            async with asyncio.timeout(self._seconds):
                found = await asking()
        except Exception as error:
            fell = self._paused_until is None
            self._paused_until = monotonic() + PAUSE
            if known_as_down or not fell:
                return None
            late = isinstance(error, TimeoutError)
            said = f"it did not answer in {self._seconds:g} s" if late else what_happened(error)
            raise StoreError(f"{sentence(said)} {self._what} is not asked for {PAUSE:g} s.") from error
        if self._paused_until is not None:
            self._paused_until = None
            logger.info("%s answers again, so cache() uses it.", self._what)
        return found


# --- in a folder ----------------------------------------------------------------------------------


class FolderStore:
    """Keeps texts in a folder, through `diskcache`: a gigabyte of them, for all processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The files of a thread are closed by that thread alone, so there is one.
        self._thread: ThreadPoolExecutor | None = None
        self._cache: Any = None
        self._process = os.getpid()
        self._asking = _Breaker("the folder", 2 * _LOCKED)

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        found: object = await self._asking(lambda: self._there(lambda: self._open().get(key)))
        return found if isinstance(found, str) else None

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key."""
        await self._asking(lambda: self._there(lambda: self._open().set(key, text, expire=ttl)))

    async def close(self) -> None:
        """Close the files."""
        self._start_anew_after_a_fork()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._shut)
            thread.shutdown()

    async def _there(self, work: Callable[[], Any]) -> Any:
        self._start_anew_after_a_fork()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "adk_fluent_cache")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _start_anew_after_a_fork(self) -> None:
        """Forget the thread and the files of the parent process, whose thread is not in this one."""
        if self._process != os.getpid():
            self._process, self._thread, self._cache = os.getpid(), None, None

    def _open(self) -> Any:
        if self._cache is None:
            where = str(self._folder)
            self._cache = import_module("diskcache").Cache(where, timeout=_LOCKED, disk=_text_only())
        return self._cache

    def _shut(self) -> None:
        if self._cache is not None:
            self._cache.close()
            self._cache = None


def _text_only() -> type[Any]:
    """How `diskcache` reads and writes: text, and none of the pickles that it would load by itself.

    Whoever can write to the folder can put a pickle there, and loading one runs code.
    """
    base: Any = import_module("diskcache").Disk

    class TextOnly(base):
        def store(self, value: Any, read: Any, key: Any = None) -> Any:
            if not isinstance(value, str):
                raise TypeError("only text is stored")
            return base.store(self, value, read, key=key)

        def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
            text = mode == _RAW or (mode == _TEXT and filename is not None)
            return base.fetch(self, mode, filename, value, read) if text else None

        def get(self, key: Any, raw: Any) -> Any:
            return key

    return TextOnly


_LOCKED: Final = 5.0
"""Seconds to wait for another process that writes to the folder."""

_RAW: Final = 1
"""diskcache's mode of a text that is in its database."""

_TEXT: Final = 3
"""diskcache's mode of a text that has a file of its own."""


# --- on a Redis server ----------------------------------------------------------------------------


ANSWERS: Final = 2.0
"""Seconds that a Redis server has to answer, unless the URL says `?socket_timeout=`."""


class RedisStore:
    """Keeps texts on a Redis server, under keys that begin with `adk_fluent:cache:`."""

    def __init__(self, url: str) -> None:
        self._url = url
        # A connection belongs to the loop on which it was opened.
        self._clients = PerLoop(partial(_redis, url), _close)
        try:
            given = import_module("redis.asyncio.connection").parse_url(url)
        except ValueError as error:
            raise ArgumentError(
                f"cache(store={safe_url(url)!r}): no address of Redis ({type(error).__name__}). It is "
                "redis://user:password@host:port/database; write signs in the password as %40 for @."
            ) from None  # the error of the parser may hold the password
        self._asking = _Breaker("Redis", 2 * float(given.get("socket_timeout", ANSWERS)))

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        found: object = await self._ask("get", _PREFIX + key)
        return found.decode() if isinstance(found, bytes) else None

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key."""
        milliseconds = None if ttl is None else max(1, round(ttl * 1000))
        await self._ask("set", _PREFIX + key, text.encode(), px=milliseconds)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        if (opened := self._clients.take()) is not None:
            await _close(opened)

    async def _ask(self, command: str, *args: Any, **options: Any) -> Any:
        client, asking = self._clients.here()
        return await self._asking(lambda: asking(getattr(client, command)(*args, **options)))


def _redis(url: str) -> tuple[Any, DetachedTasks]:
    """A client, and what asks it. It tries again only where the server had closed the connection."""
    failures, retry = import_module("redis.exceptions"), import_module("redis.asyncio.retry")
    again = retry.Retry(import_module("redis.backoff").NoBackoff(), 1, (failures.ConnectionError,))
    limits = {"socket_timeout": ANSWERS, "socket_connect_timeout": ANSWERS}
    return import_module("redis.asyncio").Redis.from_url(url, retry=again, **limits), DetachedTasks()


async def _close(opened: tuple[Any, DetachedTasks]) -> None:
    client, asking = opened
    await asking.settled()
    await client.aclose()
