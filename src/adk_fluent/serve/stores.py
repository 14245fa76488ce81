"""Where a server keeps sessions and tasks: in memory, in an SQLite file, or in PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent._tracebacks import in_logs
from adk_fluent.a2a.protocol import sdk
from adk_fluent.errors import ArgumentError, MissingExtraError, ServerError, on_one_line
from adk_fluent.middleware.arguments import of_type
from adk_fluent.serve.owners import Owned

if TYPE_CHECKING:
    from google.adk.sessions import BaseSessionService

    from adk_fluent.backends.adk.api import sqlite

logger: logging.Logger = logging.getLogger("adk_fluent.serve")

_SQLITE: Final = "sqlite+aiosqlite:///"
_RUNNING: Final = frozenset({"submitted", "working", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"})


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a server keeps what it must not lose.

    Attributes:
        sessions: ADK's session service; `None` leaves it to the backend.
        tasks: a2a-sdk's task store.
        engine: SQLAlchemy's engine of the task store, which is closed with the server.
        place: where that is, without its password.
        is_shared: whether other servers may keep their tasks there, too.
    """

    sessions: BaseSessionService | None
    tasks: Any
    engine: Any = None
    place: str = ""
    is_shared: bool = False

    async def close(self) -> None:
        """Close the connections."""
        if self.engine is not None:
            await self.engine.dispose()
        close = getattr(self.sessions, "close", None)
        if close is not None:
            await close()

    async def hand_back(self, told: str, seconds: float) -> int:
        """End the tasks that a server left running when it died, and say so in them; how many there were.

        Args:
            told: what is said in them.
            seconds: how long a task may run; where others keep tasks, too, younger ones may be theirs.

        Raises:
            ServerError: the store cannot be reached, or cannot be made.
        """
        if self.engine is None:
            return 0
        with self._telling():
            return await self._hand_back(told, seconds)

    @contextmanager
    def _telling(self) -> Generator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            why = on_one_line(getattr(error, "orig", None) or error)
            raise ServerError(f"store={self.place!r} cannot be used: {why:.200}.") from error

    async def left_running(self) -> list[tuple[Any, str]]:
        """The tasks that a server left running when it died, each with the name of its user.

        Raises:
            ServerError: the store cannot be reached, or cannot be made.
        """
        with self._telling():
            await self.tasks.inner.initialize()
            return await self._left_running()

    async def _left_running(self) -> list[tuple[Any, str]]:
        from sqlalchemy import select

        model = self.tasks.task_model
        async with self.tasks.async_session_maker() as session:
            rows = (await session.execute(select(model.id, model.owner, model.status))).all()
        found = [(id, owner) for id, owner, status in rows if _state(status) in _RUNNING]
        return [(await self.tasks.get(id, sdk.call_of(owner)), owner) for id, owner in found]

    async def _hand_back(self, told: str, seconds: float) -> int:
        from sqlalchemy import select

        await self.tasks.inner.initialize()
        oldest = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=seconds if self.is_shared else 0)
        found = 0
        async with self.tasks.async_session_maker.begin() as session:
            for row in (await session.execute(select(self.tasks.task_model))).scalars():
                updated = getattr(row, "last_updated", None)
                if _state(row.status) in _RUNNING and (updated is None or updated <= oldest):
                    row.status = _failed(row.status, told)
                    found += 1
        return found


def stores(store: str | Path | None) -> Stores:
    """The stores at a place.

    Args:
        store: an SQLite file, the URL of a PostgreSQL database, or `None` for the memory of this process.

    Raises:
        ArgumentError: it is neither, or cannot become one.
        MissingExtraError: a package that it needs is not installed.
    """
    if store is None:
        from a2a.server.tasks import InMemoryTaskStore

        return Stores(None, _owned(InMemoryTaskStore()))
    url = str(of_type(store, str | Path, "store=", "the path of a file, or the URL of a database"))
    if "://" in url and not url.startswith(("postgresql+", _SQLITE)):
        raise ArgumentError(
            f"store= takes a file, or a postgresql+asyncpg URL, not {url.partition('://')[0]}://..."
        )
    try:
        return _opened(url if "://" in url else f"{_SQLITE}{url}")
    except ImportError as error:
        raise MissingExtraError(
            "store= needs SQLAlchemy and a driver: pip install 'google-adk[db]' 'sqlalchemy[asyncio]' "
            "and aiosqlite, or asyncpg for PostgreSQL."
        ) from error


def _opened(url: str) -> Stores:
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.ext.asyncio import create_async_engine

    from adk_fluent.backends.adk.api import sqlite

    if not url.startswith(_SQLITE):
        from google.adk.sessions.database_session_service import DatabaseSessionService

        engine = create_async_engine(url, pool_pre_ping=True)
        tasks = _Discreet(_owned(DatabaseTaskStore(engine)))
        place = engine.url.render_as_string(hide_password=True)
        return Stores(DatabaseSessionService(url, pool_pre_ping=True), tasks, engine, place, is_shared=True)
    place = url.removeprefix(_SQLITE)
    # Those who wait for a connection wait for the reads of others, which are short, however many they are.
    engine = create_async_engine(url, connect_args={"timeout": sqlite.BUSY}, pool_timeout=None)
    tasks = _Discreet(_owned(DatabaseTaskStore(engine)), sqlite.turns_of_file(place))
    try:
        sessions = sqlite.sqlite_sessions(Path(place))
        sqlite.use_write_ahead_log(place)
    except ArgumentError as error:
        raise ArgumentError(f"store={place!r} cannot be used: {error.__cause__}.") from error.__cause__
    return Stores(sessions, tasks, engine, place)


def _owned(tasks: Any) -> Any:
    return tasks if sdk.is_newer() else Owned(tasks)


_WRITES: Final = frozenset({"save", "delete"})


class _Discreet:
    """A task store whose failures tell a caller nothing of where it is; the log has them.

    Args:
        turns: the queue of those who write the same file, for a store that takes one writer at a time.
    """

    def __init__(self, store: Any, turns: sqlite.Turns | None = None) -> None:
        self.inner, self._turns = store, turns

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not iscoroutinefunction(found):
            return found
        return self._telling(found, self._turns if name in _WRITES else None)

    def _telling(self, method: Any, turns: sqlite.Turns | None) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            try:
                async with turns.taken() if turns is not None else nullcontext():
                    return await method(*arguments, **options)
            except Exception as error:
                logger.error("The task store failed: %s", in_logs(error))
                raise ServerError(
                    "The tasks of this server cannot be reached. Send it again later."
                ) from error

        return call


def _state(status: Any) -> str:
    held: Any = (
        cast("Mapping[str, Any]", status).get("state") if isinstance(status, Mapping) else status.state
    )
    return str(getattr(held, "value", held))


def _failed(status: Any, told: str) -> Any:
    """The status of a task that has failed, as the store's version of the protocol has it."""
    if sdk.is_newer():
        parts = [{"text": told}]
        message = {"messageId": "handed-back", "role": "ROLE_AGENT", "parts": parts}
        return {**cast("Mapping[str, Any]", status), "state": "TASK_STATE_FAILED", "message": message}
    import a2a.types

    known: Any = a2a.types
    said = known.Message(message_id="handed-back", role="agent", parts=[known.TextPart(text=told)])
    return known.TaskStatus(state=known.TaskState.failed, message=said)
