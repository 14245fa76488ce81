"""The agents that a directory knows, in an SQLite file."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, cast

from adk_fluent.a2a.protocol import cards, sdk
from adk_fluent.errors import ArgumentError

LONGEST: Final = 24 * 3600.0
"""Seconds that an agent may stay known without a heartbeat."""

PAGE: Final = 1024 * 1024
"""Bytes of cards after which an answer goes on in another one."""
MEMORY: Final = ":memory:"

PER_USER: Final = 1000
"""Agents that one user may have registered at the same time."""

_TABLES: Final = """
create table if not exists entries (
    id text primary key, owner text not null, card text not null, abilities text not null, tags text not null,
    seconds real not null, expires real not null
);
create table if not exists secrets (value text not null);
drop table if exists agents;
"""
"""The last line removes what versions without owners have left, which nobody verified."""


class Refused(Exception):
    """A request that cannot be taken, and why.

    Attributes:
        status: the HTTP status of the answer.
        more: what the answer has beside the reason.
    """

    def __init__(self, why: str, status: int = 422, **more: object) -> None:
        super().__init__(why)
        self.status: int = status
        self.more: dict[str, object] = more


class Registration:
    """What somebody wants to register, read and checked.

    Attributes:
        urls: where the card sends calls.
        id: its id, which is always the same for the same URL.

    Raises:
        Refused: it is no card, or it would stay known for too long.
    """

    def __init__(self, told: Mapping[str, Any], seconds: float) -> None:
        try:
            card = cards.well_formed(told.get("card"))
        except cards.CardError as error:
            raise Refused(f"card: it is no agent card: {error}") from error
        self._card = json.dumps(card)
        if len(self._card) > cards.LARGEST:
            raise Refused(f"card: it is larger than {cards.LARGEST // 1024} KiB")
        given = told.get("seconds")
        self._seconds: Any = seconds if given is None else given
        if not isinstance(self._seconds, int | float) or not 0 < self._seconds <= LONGEST:
            raise Refused(f"seconds: it is a number from 0 to {LONGEST:g}")
        self._able = json.dumps(_folded([*cards.abilities(card), *_words(told, "capabilities")]))
        self._tags = json.dumps(_words(told, "tags"))
        self.urls: tuple[str, ...] = sdk.urls_in(card)
        self.id: str = hashlib.sha256(self.urls[0].encode()).hexdigest()[:32]

    def row(self, owner: str, now: float) -> tuple[object, ...]:
        """The row of the table."""
        return self.id, owner, self._card, self._able, self._tags, self._seconds, now + self._seconds


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
        self._secret: str | None = None
        try:
            self._database.execute("select 1 from entries limit 1")
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
            self._held.executescript(_TABLES)
        return self._held

    def close(self) -> None:
        """Close the file; what is kept in memory stays."""
        if self._held is not None and self._path != MEMORY:
            self._held.close()
            self._held = None

    def token(self, owner: str, url: str) -> str:
        """What must be found at a URL before its agent is listed for a user; it never changes."""
        if self._secret is None:
            with closing(self._database.execute("select value from secrets")) as rows:
                found = rows.fetchone()
            self._secret = str(found[0]) if found else secrets.token_hex(32)
            if not found:
                self._database.execute("insert into secrets values (?)", (self._secret,))
        told = json.dumps([owner, url]).encode()
        return hmac.new(self._secret.encode(), told, hashlib.sha256).hexdigest()

    def entry(self, told: Mapping[str, Any], owner: str) -> Registration:
        """What a user wants to register, if they may.

        Raises:
            Refused: it is no card, belongs to another user, or is one too many.
        """
        entry = Registration(told, self._seconds)
        if self._owner(entry.id) is None:
            sql = "select count(*) from entries where owner = ? and expires > ?"
            with closing(self._database.execute(sql, (owner, self._now()))) as rows:
                if rows.fetchone()[0] >= PER_USER:
                    raise Refused(f"one user may have {PER_USER} agents registered; remove one", 429)
        self._check_owner(entry.id, owner)
        return entry

    def register(self, entry: Registration, owner: str) -> str:
        """Take an agent in, in place of what the same user has registered for the same URL; its id.

        Raises:
            Refused: another user has registered it meanwhile.
        """
        self._check_owner(entry.id, owner)
        sql = "insert or replace into entries values (?, ?, ?, ?, ?, ?, ?)"
        self._database.execute(sql, entry.row(owner, self._now()))
        return entry.id

    def heartbeat(self, id: str, owner: str) -> bool:
        """Keep an agent for as long again; whether it is known.

        Raises:
            Refused: it belongs to another user.
        """
        self._check_owner(id, owner)
        sql = "update entries set expires = ? + seconds where id = ? and expires > ?"
        with closing(self._database.execute(sql, (self._now(), id, self._now()))) as done:
            return done.rowcount > 0

    def remove(self, id: str, owner: str) -> None:
        """Forget an agent.

        Raises:
            Refused: it belongs to another user.
        """
        self._check_owner(id, owner)
        self._database.execute("delete from entries where id = ?", (id,))

    def _check_owner(self, id: str, owner: str) -> None:
        found = self._owner(id)
        if found is not None and found != owner:
            raise Refused("it belongs to another user", 403)

    def _owner(self, id: str) -> str | None:
        """Whose an agent is; `None` for one that is not known, or has expired."""
        sql = "select owner from entries where id = ? and expires > ?"
        with closing(self._database.execute(sql, (id, self._now()))) as rows:
            found = rows.fetchone()
        return None if found is None else str(found[0])

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
        self._database.execute("delete from entries where expires <= ?", (self._now(),))
        wanted, under = set(_folded(capabilities)), set(_folded(tags))
        found: list[dict[str, Any]] = []
        size, sql = 0, "select id, card, abilities, tags from entries where id > ? order by id"
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
