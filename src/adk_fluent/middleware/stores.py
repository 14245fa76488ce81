"""Where `cache` keeps answers: in memory, in a folder, or on a Redis server; always as text."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from adk_fluent._apart import Apart
from adk_fluent._redaction import safe_url
from adk_fluent.errors import ArgumentError, MissingExtraError

ENTRIES: Final = 1024
"""How many answers are kept in memory; the least recently used goes first."""

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
        raise MissingExtraError(
            f"cache(store=) in {what} needs the package {package}; run: pip install 'adk-fluent[{extra}]'"
        )


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


# --- in a folder ----------------------------------------------------------------------------------


class FolderStore:
    """Keeps texts in a folder, through `diskcache`: a gigabyte of them, for all processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The files of a thread are closed by that thread alone, so there is one.
        self._thread: ThreadPoolExecutor | None = None
        self._cache: Any = None

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        found = await self._there(lambda: self._open().get(key))
        return found if isinstance(found, str) else None

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key."""
        await self._there(lambda: self._open().set(key, text, expire=ttl))

    async def close(self) -> None:
        """Close the files."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._shut)
            thread.shutdown()

    async def _there(self, work: Callable[[], Any]) -> Any:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "adk_fluent_cache")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> Any:
        if self._cache is None:
            self._cache = import_module("diskcache").Cache(str(self._folder), disk=_text_only())
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


_RAW: Final = 1
"""diskcache's mode of a text that is in its database."""

_TEXT: Final = 3
"""diskcache's mode of a text that has a file of its own."""


# --- on a Redis server ----------------------------------------------------------------------------


class RedisStore:
    """Keeps texts on a Redis server, under keys that begin with `adk_fluent:cache:`."""

    def __init__(self, url: str) -> None:
        self._url = url
        # A connection belongs to the loop on which it was opened.
        self._clients = WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, Apart]]()
        try:
            import_module("redis.asyncio.connection").parse_url(url)
        except ValueError as error:
            raise ArgumentError(
                f"cache(store={safe_url(url)!r}): no address of Redis ({type(error).__name__}). It is "
                "redis://user:password@host:port/database; write signs in the password as %40 for @."
            ) from None  # the error of the parser may hold the password

    async def get(self, key: str) -> str | None:
        """The text under a key, unless its time is over."""
        client, asking = self._client()
        found = await asking(client.get(_PREFIX + key))
        return found.decode() if isinstance(found, bytes) else None

    async def set(self, key: str, text: str, ttl: float | None) -> None:
        """Keep a text under a key."""
        milliseconds = None if ttl is None else max(1, round(ttl * 1000))
        client, asking = self._client()
        await asking(client.set(_PREFIX + key, text.encode(), px=milliseconds))

    async def close(self) -> None:
        """Close the connections of the running loop."""
        here = self._clients.pop(asyncio.get_running_loop(), None)
        if here is not None:
            client, asking = here
            await asking.settled()
            await client.aclose()

    def _client(self) -> tuple[Any, Apart]:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = import_module("redis.asyncio").Redis.from_url(self._url), Apart()
        return self._clients[loop]
