"""Tools that are given a database, opened for each run and closed with it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.di import Resource
from adk_fluent.testing import call_tool, mock_backend


@contextmanager
def connect() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table prices (article text, price int)")
        db.execute("insert into prices values ('tea', 3)")
        yield db


def price(article: str, db: sqlite3.Connection) -> int:
    """The price of an article."""
    (found,) = db.execute("select price from prices where article = ?", (article,)).fetchone()
    return found


clerk = Agent("clerk").tool(price).inject(db=Resource(connect, scope="invocation"))

SCRIPT = {"clerk": [call_tool("price", article="tea"), "Tea costs 3."]}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)

if __name__ == "__main__":
    print(asyncio.run(clerk.ask_async("What does tea cost?", backend=BACKEND)))
