"""The context manager of a resource learns how a run ended, to commit or roll back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, T
from adk_fluent.backends.adk import resources as open_resources
from adk_fluent.di import Resource, close
from adk_fluent.errors import ResourceError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang
from tests.clock import ClockLoop, Works, advance, with_clock
from tests.limits import LIMIT, happens

PAY = call_tool("pay", amount=7)
HOUR = 3600.0
FAILED = LlmResponse(error_code="SAFETY", error_message="blocked")


class Bank:
    """A SQLite database, and connections that commit or roll back in each of the usual ways."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "bank.db"
        self.told: list[type[BaseException] | None] = []
        with sqlite3.connect(self.file) as db:
            db.execute("create table paid (amount integer)")
        db.close()

    @property
    def paid(self) -> list[int]:
        """The committed entries."""
        db = sqlite3.connect(self.file)
        try:
            return [amount for (amount,) in db.execute("select amount from paid")]
        finally:
            db.close()

    def connection(self) -> sqlite3.Connection:
        """SQLite's own: a context manager that commits, or rolls back after an exception."""
        return sqlite3.connect(self.file)

    @contextmanager
    def manager(self) -> Generator[sqlite3.Connection]:
        with self._open() as db:
            yield db

    @asynccontextmanager
    async def async_manager(self) -> AsyncGenerator[sqlite3.Connection]:
        with self._open(check_same_thread=False) as db:
            yield db

    def generator(self) -> Generator[sqlite3.Connection]:
        with self._open() as db:
            yield db

    async def async_generator(self) -> AsyncGenerator[sqlite3.Connection]:
        with self._open(check_same_thread=False) as db:
            yield db

    @contextmanager
    def _open(self, **options: Any) -> Generator[sqlite3.Connection]:
        db = sqlite3.connect(self.file, **options)
        try:
            yield db
        except BaseException as error:
            self.told.append(type(error))
            db.rollback()
            raise
        else:
            self.told.append(None)
            db.commit()
        finally:
            db.close()


def pay(amount: int, db: sqlite3.Connection) -> str:
    """Pay an amount."""
    db.execute("insert into paid values (?)", (amount,))
    return "paid"


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    """An empty database."""
    return Bank(tmp_path)


WAYS = ["connection", "manager", "async_manager", "generator", "async_generator"]


def clerk(bank: Bank, way: str = "manager") -> Expr[Any]:
    """An agent that pays, and another one after it."""
    db = Resource(getattr(bank, way), scope="invocation")
    return (Agent("a").tools(pay) >> Agent("b")).inject(db=db)


def models(last: Any = "done") -> Any:
    """`a` pays; `b` does what is given."""
    return mock_backend({"a": [PAY, "paid"], "b": last})


async def _fails(clerk: Expr[Any]) -> None:
    with pytest.raises(Exception, match="boom"):
        await clerk.run("hi", backend=models(ValueError("boom")))


async def _reports_an_error(clerk: Expr[Any]) -> None:
    with pytest.raises(RunError, match="blocked"):
        await clerk.ask_async("hi", backend=models(FAILED))


async def _is_cancelled(clerk: Expr[Any]) -> None:
    hang = Hang()
    task = asyncio.ensure_future(clerk.run("hi", backend=models(hang)))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _takes_too_long(clerk: Expr[Any]) -> None:
    with pytest.raises(TimeoutError):
        await clerk.timeout(HOUR).run("hi", backend=models(Works(2 * HOUR)))


async def _is_left(clerk: Expr[Any]) -> None:
    async with aclosing(clerk.stream("hi", backend=models())) as events:
        async for event in events:
            if event.tool_responses:
                break


ENDS = {
    "fails": (_fails, ValueError),
    "reports an error": (_reports_an_error, RunError),
    "is cancelled": (_is_cancelled, asyncio.CancelledError),
    "takes too long": (_takes_too_long, TimeoutError),
    "is left": (_is_left, asyncio.CancelledError),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_succeeds_commits(bank: Bank, way: str) -> None:
    """The context manager of a run that succeeds sees no exception, and commits."""
    assert await clerk(bank, way).ask_async("hi", backend=models()) == "done"
    assert bank.paid == [7]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ENDS)
@with_clock
async def test_a_run_that_does_not_rolls_back(bank: Bank, way: str, end: str) -> None:
    """One that fails, reports an error, is cancelled, takes too long or is left passes an exception on."""
    ending, _ = ENDS[end]
    await ending(clerk(bank, way))
    assert bank.paid == []


@pytest.mark.parametrize("end", ENDS)
@with_clock
async def test_the_exception_says_how_the_run_ended(bank: Bank, end: str) -> None:
    """The context manager is given the exception of the run, or `CancelledError` if it was cut short."""
    ending, expected = ENDS[end]
    await ending(clerk(bank))
    (told,) = bank.told
    assert told is not None
    assert issubclass(told, expected)


async def test_an_error_that_the_run_recovers_from_is_none(bank: Bank) -> None:
    """A fallback that answers makes the run succeed, so what was done is committed."""
    db = Resource(bank.manager, scope="invocation")
    agent = (Agent("a").tools(pay) >> (Agent("b") // Agent("c"))).inject(db=db)
    for broken in (FAILED, ValueError("boom")):
        backend = mock_backend({"a": [PAY, "paid"], "b": broken, "c": "done"})
        assert await agent.ask_async("hi", backend=backend) == "done"
    assert (bank.paid, bank.told) == ([7, 7], [None, None])


@pytest.mark.parametrize("last", ["done", ValueError("boom")])
async def test_on_adks_own_runner(bank: Bank, last: Any) -> None:
    """ADK's own runner passes the same exceptions to resources."""
    app = models(last).compile(clerk(bank).node).published()
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    events = runner.run_async(user_id="u", session_id="s", new_message=message)
    async with aclosing(events) as run:
        try:
            assert [event async for event in run]
        except ValueError:
            assert last != "done"
    assert bank.paid == ([7] if last == "done" else [])


async def test_a_context_manager_that_suppresses_the_exception(bank: Bank) -> None:
    """A run stays failed if a context manager suppresses its exception; the others are given it, too."""
    told: list[type[BaseException]] = []

    @contextmanager
    def suppressing() -> Generator[str]:
        try:
            yield "log"
        except ValueError as error:
            told.append(type(error))

    def both(db: sqlite3.Connection, log: str) -> str:
        """Pay."""
        return pay(7, db)

    given = {
        "db": Resource(bank.manager, scope="invocation"),
        "log": Resource(suppressing, scope="invocation"),
    }
    agent = (Agent("a").tools(both) >> Agent("b")).inject(**given)
    with pytest.raises(Exception, match="boom"):
        await agent.run("hi", backend=mock_backend({"a": [call_tool("both"), "x"], "b": ValueError("boom")}))
    assert (bank.paid, told, bank.told) == ([], [ValueError], [ValueError])


class Full(Exception):
    """A database that cannot commit."""


def _full(bank: Bank, order: list[str]) -> dict[str, Resource]:
    @contextmanager
    def named(name: str, fails: bool = False) -> Generator[str]:
        try:
            yield name
        except BaseException as error:
            order.append(f"{name}: {type(error).__name__}")
            raise
        else:
            order.append(f"{name}: closed")
            if fails:
                raise Full("disk")

    made: dict[str, Callable[[], Any]] = {
        "db": bank.manager,
        "queue": lambda: named("queue", fails=True),
        "lock": lambda: named("lock"),
    }
    return {name: Resource(factory, scope="invocation") for name, factory in made.items()}


def three(db: sqlite3.Connection, queue: str, lock: str) -> str:
    """Pay."""
    return pay(7, db)


async def test_a_commit_that_fails_fails_the_run(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """The last one is closed first; if one cannot be closed, those before it see why, and the run fails."""
    order: list[str] = []
    agent = Agent("a").tools(three).inject(**_full(bank, order))
    message = "its resource 'queue' could not be closed, so what was done with it may be lost: Full: disk"
    with pytest.raises(ResourceError, match=message) as raised:
        await agent.run("hi", backend=mock_backend({"a": [call_tool("three"), "done"]}))
    assert isinstance(raised.value.__cause__, Full)
    assert order == ["lock: closed", "queue: closed"]
    assert (bank.told, bank.paid) == ([Full], [])
    assert not [record for record in caplog.records if record.name == "adk_fluent.resources"]


async def test_closing_fails_after_the_run_has_failed(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """The error of the run is the one that is raised; that of closing is logged."""

    @contextmanager
    def breaking() -> Generator[int]:
        try:
            yield 1
        finally:
            raise Full("disk")

    def both(db: sqlite3.Connection, other: int) -> str:
        """Pay."""
        return pay(7, db)

    given = {
        "db": Resource(bank.manager, scope="invocation"),
        "other": Resource(breaking, scope="invocation"),
    }
    agent = (Agent("a").tools(both) >> Agent("b")).inject(**given)
    with pytest.raises(Exception, match="boom"):
        await agent.run("hi", backend=mock_backend({"a": [call_tool("both"), "x"], "b": ValueError("boom")}))
    assert (bank.told, bank.paid) == ([ValueError], [])
    assert "Resource 'other' could not be closed: Full at test_transactions.py:" in caplog.text


@pytest.mark.parametrize("scope", ["session", "app"])
async def test_longer_lived_resources_get_no_exception(bank: Bank, scope: Any) -> None:
    """One of a session or the app is closed without an exception, whatever became of a run that used it."""
    agent = (Agent("a").tools(pay) >> Agent("b")).inject(db=Resource(bank.async_manager, scope=scope))
    with pytest.raises(Exception, match="boom"):
        await agent.run("hi", backend=models(ValueError("boom")))
    assert bank.told == []
    await close()
    assert (bank.told, bank.paid) == ([None], [7])


@pytest.mark.parametrize("cancelled", [False, True])
def test_when_the_event_loop_ends(bank: Bank, cancelled: bool) -> None:
    """One of the app sees no exception when its event loop ends; one of a run that ends with it sees one."""
    log: list[type[BaseException] | None] = bank.told

    async def main() -> None:
        scope: Any = "invocation" if cancelled else "app"
        agent = (Agent("a").tools(look) >> Agent("b")).inject(db=Resource(bank.async_manager, scope=scope))
        hang = Hang()
        script = {"a": [call_tool("look"), "x"], "b": hang if cancelled else "done"}
        task = asyncio.ensure_future(agent.run("hi", backend=mock_backend(script)))
        await (hang.started.wait() if cancelled else task)

    asyncio.run(main())
    assert log == ([asyncio.CancelledError] if cancelled else [None])


def look(db: sqlite3.Connection) -> str:
    """Look at the database."""
    return "fine"


# --- what never ends ------------------------------------------------------------------------------


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


class Stuck:
    """Factories that return nothing until an event is set."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.closed = threading.Event()

    async def hangs_async(self) -> int:
        self.started.set()
        await _for_ever()
        return 1

    def hangs(self) -> int:
        self.started.set()
        assert self.go_on.wait(LIMIT)
        return 1

    @contextmanager
    def enters_late(self) -> Generator[int]:
        self.started.set()
        assert self.go_on.wait(LIMIT)
        try:
            yield 1
        finally:
            self.closed.set()

    @asynccontextmanager
    async def async_manager(self) -> AsyncGenerator[int]:
        await self.hangs_async()
        yield 1

    async def takes_too_long(self, run: Coroutine[Any, Any, object]) -> None:
        """Let two hours pass in a run once it waits in a factory, and not before."""
        self.started.clear()
        task = asyncio.ensure_future(run)
        await happens(self.started)
        advance(2 * HOUR)
        await task


def use(db: int) -> int:
    """Use it."""
    return db


HANGING = ["hangs", "hangs_async", "enters_late", "async_manager"]


@pytest.mark.parametrize("scope", ["invocation", "session", "app"])
@pytest.mark.parametrize("way", HANGING)
@with_clock
async def test_a_factory_that_hangs(way: str, scope: Any) -> None:
    """`.timeout()`, `T.timeout` and cancelling the run end it, although the factory has not returned."""
    stuck = Stuck()
    resource = Resource(getattr(stuck, way), scope=scope)
    script = {"a": [call_tool("use"), "done"]}
    agent = Agent("a").tools(use).inject(db=resource)
    try:
        with pytest.raises(TimeoutError):
            await stuck.takes_too_long(agent.timeout(HOUR).run("hi", backend=mock_backend(script)))
        timed = Agent("a").tools(T.timeout(use, HOUR)).inject(db=resource)
        with pytest.raises(Exception, match=r"longer than 3600 s"):
            await stuck.takes_too_long(timed.run("hi", backend=mock_backend(script)))
        stuck.started.clear()
        task = asyncio.ensure_future(agent.run("hi", backend=mock_backend(script)))
        await happens(stuck.started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        here = vars(open_resources)["_loops"].here()
        assert (here.runs, here.shared, here.idle) == ({}, {}, {})
    finally:
        stuck.go_on.set()


@with_clock
async def test_a_resource_that_opens_too_late_is_closed() -> None:
    """A context manager that is entered in its thread after the run stopped waiting is left again."""
    stuck = Stuck()
    agent = Agent("a").tools(use).inject(db=Resource(stuck.enters_late, scope="invocation"))
    script = {"a": [call_tool("use"), "done"]}
    with pytest.raises(TimeoutError):
        await stuck.takes_too_long(agent.timeout(HOUR).run("hi", backend=mock_backend(script)))
    assert not stuck.closed.is_set()
    stuck.go_on.set()
    await happens(stuck.closed)


async def test_closing_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource that does not close in time fails the run, which then ends."""
    monkeypatch.setattr(open_resources, "CLOSING", 0.05)

    @asynccontextmanager
    async def hangs() -> AsyncGenerator[int]:
        yield 1
        await _for_ever()

    made: Callable[[], AbstractAsyncContextManager[int]] = hangs
    agent = Agent("a").tools(use).inject(db=Resource(made, scope="invocation"))
    with pytest.raises(ResourceError, match=r"'db' could not be closed.*longer than 0.05 s"):
        await agent.run("hi", backend=mock_backend({"a": [call_tool("use"), "done"]}))


def test_a_factory_that_hangs_does_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ask` ends when its time is over, although a thread of the factory still runs."""
    stuck, loops = Stuck(), list[ClockLoop]()

    def new_loop() -> ClockLoop:
        loops.append(ClockLoop())
        return loops[-1]

    def hangs() -> int:
        stuck.started.set()
        loops[-1].call_soon_threadsafe(advance, 2 * HOUR)
        return stuck.hangs()

    monkeypatch.setattr(asyncio.events, "new_event_loop", new_loop)
    agent = Agent("a").tools(use).inject(db=Resource(hangs)).timeout(HOUR)
    try:
        with pytest.raises(TimeoutError):
            agent.ask("hi", backend=mock_backend({"a": [call_tool("use"), "done"]}))
    finally:
        stuck.go_on.set()
    assert stuck.started.is_set()


async def test_a_factory_that_needs_the_event_loop() -> None:
    """A factory in a thread that needs the running loop gets an error with the remedy, `in_thread=False`."""

    def client() -> asyncio.Future[int]:
        found = asyncio.get_running_loop().create_future()
        found.set_result(5)
        return found

    script = {"a": [call_tool("use"), "done"]}
    agent = Agent("a").tools(use)
    with pytest.raises(ResourceError, match=r"no running event loop.*Resource\(\.\.\., in_thread=False\)"):
        await agent.inject(db=Resource(client)).run("hi", backend=mock_backend(script))
    run = await agent.inject(db=Resource(client, in_thread=False)).run("hi", backend=mock_backend(script))
    assert [response.result for event in run for response in event.tool_responses] == [{"result": 5}]
    await close()
