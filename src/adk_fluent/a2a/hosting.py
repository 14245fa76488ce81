"""`DirectoryServer`: a small directory to host, in one SQLite file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.backends.adk.remote import cards, sdk
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.serve.admission import Admission, check_auth
from adk_fluent.serve.limits import Authenticate, ServeLimits
from adk_fluent.serve.listening import Listening

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST: Final = 24 * 3600.0
"""Seconds that an agent may stay known without a heartbeat."""

PAGE: Final = 1024 * 1024
"""Bytes of cards after which an answer goes on in another one."""
MEMORY: Final = ":memory:"

_TABLE: Final = """
create table if not exists agents (
    id text primary key, card text not null, abilities text not null, tags text not null,
    seconds real not null, expires real not null
)
"""


class Refused(Exception):
    """A request that cannot be taken, and why."""


class Book:
    """The agents that are known, in an SQLite file, which is opened when it is needed.

    Args:
        seconds: how long one stays known without a heartbeat, if it does not say.
        now: seconds since 1970.

    Raises:
        ArgumentError: it is no such file, and cannot become one.
    """

    def __init__(self, path: str, seconds: float, now: Any = time.time) -> None:
        self._path, self._seconds, self._now = path, seconds, now
        self._held: sqlite3.Connection | None = None
        try:
            self._database.execute("select 1 from agents limit 1")
        except sqlite3.Error as error:
            raise ArgumentError(f"DirectoryServer(store=): {path!r:.200} cannot be used: {error}.") from error

    @property
    def _database(self) -> sqlite3.Connection:
        if self._held is None:
            # Each request is served in one go, so that whichever thread serves them may use it.
            self._held = sqlite3.connect(
                self._path, isolation_level=None, timeout=30.0, check_same_thread=False
            )
            self._held.execute("pragma journal_mode = wal")
            self._held.execute(_TABLE)
        return self._held

    def close(self) -> None:
        """Close the file; what is kept in memory stays."""
        if self._held is not None and self._path != MEMORY:
            self._held.close()
            self._held = None

    def register(self, told: Mapping[str, Any]) -> str:
        """Take an agent in; its id, which is always the same for the same URL.

        Raises:
            Refused: it is no card, or it would stay known for too long.
        """
        try:
            card = cards.well_formed(told.get("card"))
        except cards.CardError as error:
            raise Refused(f"card: it is no agent card: {error}") from error
        text = json.dumps(card)
        if len(text) > cards.LARGEST:
            raise Refused(f"card: it is larger than {cards.LARGEST // 1024} KiB")
        seconds = told.get("seconds")
        seconds = self._seconds if seconds is None else seconds
        if not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST:
            raise Refused(f"seconds: it is a number from 0 to {LONGEST:g}")
        able = _folded([*cards.abilities(card), *_words(told, "capabilities")])
        id = hashlib.sha256(sdk.urls_in(card)[0].encode()).hexdigest()[:32]
        row = (id, text, json.dumps(able), json.dumps(_words(told, "tags")), seconds)
        sql = "insert or replace into agents values (?, ?, ?, ?, ?, ?)"
        self._database.execute(sql, (*row, self._now() + seconds))
        return id

    def heartbeat(self, id: str) -> bool:
        """Keep an agent for as long again; whether it is known."""
        sql = "update agents set expires = ? + seconds where id = ? and expires > ?"
        with closing(self._database.execute(sql, (self._now(), id, self._now()))) as done:
            return done.rowcount > 0

    def remove(self, id: str) -> None:
        """Forget an agent."""
        self._database.execute("delete from agents where id = ?", (id,))

    def find(
        self, capabilities: list[str], tags: list[str], after: str = ""
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of the agents that can do all of this and have all of these tags, by id.

        What expired is forgotten.

        Args:
            after: the id after which the page begins.

        Returns:
            The agents, and the id after which the next page begins, if there is one.
        """
        self._database.execute("delete from agents where expires <= ?", (self._now(),))
        wanted, under = set(_folded(capabilities)), set(_folded(tags))
        found: list[dict[str, Any]] = []
        size, sql = 0, "select id, card, abilities, tags from agents where id > ? order by id"
        with closing(self._database.execute(sql, (after,))) as rows:
            for id, card, able, tagged in rows:
                if not (wanted <= set(json.loads(able)) and under <= set(_folded(json.loads(tagged)))):
                    continue
                size += len(card) + len(tagged)
                if found and size > PAGE:
                    return found, str(found[-1]["id"])
                found.append({"id": id, "card": json.loads(card), "tags": json.loads(tagged)})
        return found, None


def _words(told: Mapping[str, Any], name: str) -> list[str]:
    given: object = told.get(name) or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in cast("list[object]", given)):
        raise Refused(f"{name}: it is a list of words")
    return cast("list[str]", given)


def _folded(words: list[str]) -> list[str]:
    return sorted({word.casefold() for word in words})


class DirectoryServer:
    """A directory of agents: they register, say that they are still there, and expire when they do not.

    It is an ASGI app, too. `AgentDirectory` asks it. It needs the extra `a2a`.

    Args:
        store: the SQLite file that keeps it over a restart; by default the memory of this process.
        seconds: how long an agent stays known without a heartbeat, if it does not say.
        auth: the token or API key to have, or a function from the headers of a request to a user's name. By
            default everybody on this machine may ask and register.

    Raises:
        ArgumentError: the time is not positive, or longer than a day; or the file or `auth` is none.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        seconds: float = 300.0,
        auth: AuthConfig | Authenticate | None = None,
    ) -> None:
        if not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"DirectoryServer(seconds=) is a number from 0 to {LONGEST:g}.")
        if "://" in str(store):
            raise ArgumentError("DirectoryServer(store=) takes an SQLite file, not the URL of a database.")
        check_auth(auth, "DirectoryServer(auth=)")
        self._book = Book(MEMORY if store is None else str(store), seconds)
        self._app: ASGIApp = Admission(self._routed(), auth, ServeLimits(body=cards.LARGEST * 2), _Open())
        self._listening = Listening(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        await self._app(scope, receive, send)

    def _routed(self) -> ASGIApp:
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def agents(request: Request) -> JSONResponse:
            if request.method == "GET":
                asked = request.query_params
                of = asked.getlist("capability"), asked.getlist("tag")
                found, after = self._book.find(*of, asked.get("after", ""))
                return JSONResponse({"agents": found, **({"next": after} if after else {})})
            try:
                told: object = await request.json()
                if not isinstance(told, dict):
                    raise Refused("the body is no JSON object")
                return JSONResponse({"id": self._book.register(cast("dict[str, Any]", told))})
            except (Refused, ValueError, RecursionError) as error:
                return JSONResponse({"error": str(error)}, status_code=422)

        async def heartbeat(request: Request) -> JSONResponse:
            if self._book.heartbeat(request.path_params["id"]):
                return JSONResponse({})
            return JSONResponse({"error": "it is not known; register it again"}, status_code=404)

        async def remove(request: Request) -> JSONResponse:
            self._book.remove(request.path_params["id"])
            return JSONResponse({})

        return Starlette(
            routes=[
                Route("/agents", agents, methods=["GET", "POST"]),
                Route("/agents/{id}/heartbeat", heartbeat, methods=["POST"]),
                Route("/agents/{id}", remove, methods=["DELETE"]),
                Route("/health", _health),
            ]
        )

    @property
    def url(self) -> str:
        """Where it listens.

        Raises:
            ServerError: it does not.
        """
        return self._listening.url

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen, and return when requests are taken.

        Raises:
            ServerError: it cannot listen there, or listens already.
        """
        await self._listening.start(host, port)

    async def stop(self) -> None:
        """Stop listening, and close the file."""
        if await self._listening.stop():
            self._book.close()

    async def __aenter__(self) -> DirectoryServer:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()


async def _health(request: Request) -> JSONResponse:
    from starlette.responses import JSONResponse

    return JSONResponse({"status": "ok"})


class _Open:
    """There is always room."""

    def place(self, body: bytes) -> AbstractContextManager[str | None]:
        return nullcontext()
