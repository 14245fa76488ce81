"""How a worker reports what a step gave: the result first, and never an error of the engine as the step's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService, Session
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent import Agent
from adk_fluent.backends.temporal import activities
from adk_fluent.errors import EngineError, RunError
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Served, Workers

pytestmark = pytest.mark.newest

LONG = " ".join(f"word{number}" for number in range(40))


async def _streamed(workers: Workers) -> list[str]:
    """The pieces of a streamed answer."""
    backend = Served(workers, {"models": mock_backend({"a": LONG})})
    stream = Agent("a").stream("hi", backend=backend)
    return [event.content or "" async for event in stream if event.is_partial]


async def test_a_result_waits_for_no_pieces(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a streamed call is reported before a batch is due; each piece is read once."""
    monkeypatch.setattr(activities, "BATCH", 3600.0)
    assert "".join(await _streamed(workers)) == LONG


async def test_pieces_that_arrived_are_not_told_twice(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch arrives and its acknowledgement does not: it is sent again, and read once."""
    signal: Callable[..., Any] = WorkflowHandle.signal

    async def signals(self: Any, name: str, **given: Any) -> None:
        await signal(self, name, **given)
        raise RPCError("Connection lost.", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(activities, "BATCH", 0.0)
    monkeypatch.setattr(WorkflowHandle, "signal", signals)
    assert "".join(await _streamed(workers)) == LONG


@pytest.mark.parametrize(
    "error",
    [EngineError("No Temporal server answers."), RPCError("Away.", RPCStatusCode.UNAVAILABLE, b"")],
)
async def test_an_error_of_the_engine_is_not_the_steps(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A step that fails since the engine is away is done again; one that fails itself has failed for good."""
    monkeypatch.setattr(activities, "LATER", None)
    tried: list[str] = []

    async def nested(state: object) -> dict[str, str]:
        tried.append("nested")
        if len(tried) == 1:
            raise error
        return {"done": "yes"}

    async def wrong(state: object) -> None:
        tried.append("wrong")
        raise ConnectionError("of the step")

    backend = Served(workers, {"models": mock_backend({"a": "answer"})})
    assert (await (nested >> Agent("a")).run("hi", backend=backend)).state == {"done": "yes"}
    with pytest.raises(RunError, match="of the step"):
        await (wrong >> Agent("a")).run("hi", backend=backend)
    assert tried == ["nested", "nested", "wrong"]


class Restarting(InMemorySessionService):
    """A store whose database is away the first two times that it is asked."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.asked, self._error = 0, error

    async def get_session(self, **given: Any) -> Session | None:
        """The session."""
        self.asked += 1
        if self.asked <= 2:
            raise self._error
        return await super().get_session(**given)


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ConnectionRefusedError("no database"), 3),
        (sqlite3.OperationalError("database is locked"), 3),
        (KeyError("wrong"), 1),
    ],
)
async def test_a_database_that_restarts_ends_no_run(workers: Workers, error: Exception, asked: int) -> None:
    """A session store that cannot be reached for a moment is asked again; any other error ends the run."""
    store = Restarting(error)
    backend = Served(workers, {"models": mock_backend({"a": "answer"})}, store)
    if asked == 1:
        with pytest.raises(Exception, match="wrong"):
            await Agent("a").run("hi", backend=backend)
        assert store.asked == 1
    else:
        assert (await Agent("a").run("hi", backend=backend)).text == "answer"
