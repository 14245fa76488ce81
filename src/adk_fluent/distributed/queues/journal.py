"""What workers of a queue have done, kept where a later delivery finds it: SQLite, or Redis for a fleet."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, Protocol

from adk_fluent._apart import Apart
from adk_fluent.errors import MissingExtraError

LEASE: Final = 5.0
"""Seconds after which a worker that gives no sign of life has lost what it held."""
KEPT: Final = 7 * 24 * 3600
"""Seconds that Redis keeps what was done."""


@dataclass(frozen=True, slots=True)
class Done:
    """What is known of a piece of work.

    Attributes:
        frames: what came back so far, in order.
        finished: whether that is all.
    """

    frames: Sequence[bytes] = ()
    finished: bool = False


class Journal(Protocol):
    """Keeps what was done. `add` and `finish` return when it is on disk, or with the server."""

    async def load(self, key: str) -> Done:
        """What is known of a piece of work."""
        ...

    async def attempt(self, key: str) -> int:
        """Count one more attempt at it; which one it is."""
        ...

    async def add(self, key: str, frame: bytes) -> None:
        """Keep one more thing that came back."""
        ...

    async def finish(self, key: str) -> None:
        """Keep that this was all."""
        ...

    async def hold(self, name: str, owner: str) -> bool:
        """Hold a name for the next `LEASE` seconds, or longer if it is held already; whether that went."""
        ...

    async def release(self, name: str, owner: str) -> None:
        """Let a name go."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...


@asynccontextmanager
async def held(journal: Journal, name: str) -> AsyncGenerator[None]:
    """Hold a name, such as a session, while the block runs; waits until nobody else does."""
    owner = uuid.uuid4().hex
    while not await journal.hold(name, owner):
        await asyncio.sleep(LEASE / 50)

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE / 4)
            await journal.hold(name, owner)

    keeping = asyncio.ensure_future(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        await journal.release(name, owner)


class SQLiteJournal:
    """A journal in a file, for workers of one machine.

    Args:
        path: the file; it is made.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = str(path)
        self._lock = asyncio.Lock()
        self._connection: sqlite3.Connection | None = None

    async def load(self, key: str) -> Done:
        """What is known of a piece of work."""
        frames = await self._do("SELECT body FROM frames WHERE key = ? ORDER BY seq", key)
        finished = await self._do("SELECT 1 FROM work WHERE key = ? AND finished = 1", key)
        return Done([row[0] for row in frames], bool(finished))

    async def attempt(self, key: str) -> int:
        """Count one more attempt at it."""
        done = await self._do(
            "INSERT INTO work (key, attempts) VALUES (?, 1) "
            "ON CONFLICT (key) DO UPDATE SET attempts = attempts + 1 RETURNING attempts",
            key,
        )
        return int(done[0][0])

    async def add(self, key: str, frame: bytes) -> None:
        """Keep one more thing that came back."""
        await self._do("INSERT INTO frames (key, body) VALUES (?, ?)", key, frame)

    async def finish(self, key: str) -> None:
        """Keep that this was all."""
        await self._do(
            "INSERT INTO work (key, attempts, finished) VALUES (?, 0, 1) "
            "ON CONFLICT (key) DO UPDATE SET finished = 1",
            key,
        )

    async def hold(self, name: str, owner: str) -> bool:
        """Hold a name."""
        now = time.time()
        rows = await self._do(
            "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "owner = excluded.owner, until = excluded.until "
            "WHERE leases.owner = excluded.owner OR leases.until < ? RETURNING owner",
            *(name, owner, now + LEASE, now),
        )
        return bool(rows)

    async def release(self, name: str, owner: str) -> None:
        """Let a name go."""
        await self._do("DELETE FROM leases WHERE name = ? AND owner = ?", name, owner)

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _do(self, statement: str, *values: Any) -> list[Any]:
        async with self._lock:
            return await asyncio.to_thread(self._execute, statement, values)

    def _execute(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        if self._connection is None:
            self._connection = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
            self._connection.executescript(
                "PRAGMA journal_mode = WAL;"
                "CREATE TABLE IF NOT EXISTS frames (seq INTEGER PRIMARY KEY, key TEXT, body BLOB);"
                "CREATE INDEX IF NOT EXISTS frames_of ON frames (key);"
                "CREATE TABLE IF NOT EXISTS work (key TEXT PRIMARY KEY, attempts INTEGER, finished INTEGER "
                "DEFAULT 0);"
                "CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, owner TEXT, until REAL);"
            )
        with self._connection:
            return self._connection.execute(statement, values).fetchall()


class RedisJournal:
    """A journal in a Redis server, for workers of many machines; what is in it is kept a week.

    Args:
        url: the server, such as `redis://host:6379/0`.
    """

    def __init__(self, url: str) -> None:
        try:
            from redis import asyncio as redis
        except ImportError as error:
            raise MissingExtraError(
                "A journal in Redis needs the redis client: pip install 'adk-fluent[redis]'."
            ) from error
        client: Any = redis.Redis
        self._client: Any = client.from_url(url)
        self._asking = Apart()

    async def load(self, key: str) -> Done:
        """What is known of a piece of work."""
        return await self._asking(self._load(key))

    async def _load(self, key: str) -> Done:
        frames: list[bytes] = await self._client.lrange(_of("frames", key), 0, -1)
        finished: int = await self._client.exists(_of("finished", key))
        return Done(frames, bool(finished))

    async def attempt(self, key: str) -> int:
        """Count one more attempt at it."""
        return await self._asking(self._attempt(key))

    async def _attempt(self, key: str) -> int:
        count = await self._client.incr(_of("attempts", key))
        await self._client.expire(_of("attempts", key), KEPT)
        return int(count)

    async def add(self, key: str, frame: bytes) -> None:
        """Keep one more thing that came back."""
        await self._asking(self._add(key, frame))

    async def _add(self, key: str, frame: bytes) -> None:
        await self._client.rpush(_of("frames", key), frame)
        await self._client.expire(_of("frames", key), KEPT)

    async def finish(self, key: str) -> None:
        """Keep that this was all."""
        await self._asking(self._client.set(_of("finished", key), 1, ex=KEPT))

    async def hold(self, name: str, owner: str) -> bool:
        """Hold a name."""
        return await self._asking(self._hold(_of("lease", name), owner))

    async def _hold(self, lease: str, owner: str) -> bool:
        if await self._client.set(lease, owner, nx=True, px=int(LEASE * 1000)):
            return True
        return bool(await self._client.eval(_RENEW, 1, lease, owner, int(LEASE * 1000)))

    async def release(self, name: str, owner: str) -> None:
        """Let a name go."""
        await self._asking(self._client.eval(_RELEASE, 1, _of("lease", name), owner))

    async def close(self) -> None:
        """Close the connection; what is asked ends first."""
        await self._asking.settled()
        await self._client.aclose()


def _of(what: str, key: str) -> str:
    return f"adk_fluent:{what}:{key}"


_RENEW: Final = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end"
)
_RELEASE: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"


def journal_of(where: str | PathLike[str]) -> Journal:
    """The journal in a file, or at a `redis://` address."""
    text = str(where)
    return RedisJournal(text) if text.startswith(("redis://", "rediss://")) else SQLiteJournal(where)
