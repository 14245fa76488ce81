"""How long sessions live: forgotten when nobody can name them, else kept; approvals in a conversation."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService, InMemorySessionService

from adk_fluent import Agent, S, gate
from adk_fluent.backends.adk.running.sqlite import sqlite_sessions
from adk_fluent.backends.events import AgentEvent
from adk_fluent.errors import ArgumentError, RunError, SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import SERVICES, Hang, close, seen, session_service

A, B = Agent("a"), Agent("b")
ASK = gate(lambda state: True, message="Send it?")


@pytest.fixture
def service() -> InMemorySessionService:
    """The sessions of a test's backend."""
    return InMemorySessionService()


@pytest.fixture
def backend(service: InMemorySessionService) -> MockBackend:
    """A backend with sessions of its own, in which every agent says `ok`."""
    return mock_backend(default="ok", session_service=service)


async def stored(service: BaseSessionService) -> list[str]:
    """The ids of the sessions that are there."""
    found = await service.list_sessions(app_name="adk_fluent_app", user_id="user")
    return [session.id for session in found.sessions]


# --- streams --------------------------------------------------------------------------------------


async def read(expression: Expr[Any], **options: Any) -> list[AgentEvent]:
    """All events of a stream."""
    return [event async for event in expression.stream("hi", **options)]


async def test_a_stream_forgets_its_session(service: InMemorySessionService, backend: MockBackend) -> None:
    """When a stream has ended, the session that nobody named is gone."""
    assert await read(A, backend=backend)
    assert await stored(service) == []


async def test_a_stream_keeps_a_session_with_a_name(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """A session that the caller named stays, and so does one in a service of the caller's."""
    await read(A, backend=backend, session_id="mine")
    assert await stored(service) == ["mine"]
    own = InMemorySessionService()
    await read(A, backend=backend, session_service=own)
    assert len(await stored(own)) == 1


async def test_a_stream_that_fails_forgets_its_session(service: InMemorySessionService) -> None:
    """An error leaves no session behind."""
    failing = mock_backend({"a": "ok", "b": RunError("no")}, session_service=service)
    with pytest.raises(RunError, match="no"):
        await read(A >> B, backend=failing)
    assert await stored(service) == []


async def test_a_stream_that_is_closed_forgets_its_session(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """Who stops reading leaves no session behind."""
    async with aclosing((A >> B).stream("hi", backend=backend)) as events:
        async for _ in events:
            break
        assert len(await stored(service)) == 1
    assert await stored(service) == []


async def test_a_stream_that_is_cancelled_forgets_its_session(service: InMemorySessionService) -> None:
    """Nor does who is cancelled."""
    hang = Hang("first ")
    hanging = mock_backend({"a": hang}, session_service=service)
    task = asyncio.ensure_future(read(A, backend=hanging))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stored(service) == []


async def test_a_cancelled_deletion_is_finished() -> None:
    """A second cancellation, while the session is being deleted, waits for that."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(InMemorySessionService):
        async def delete_session(self, **names: Any) -> None:
            begun.set()
            await go_on.wait()
            await super().delete_session(**names)

    service = Slow()
    task = asyncio.ensure_future(read(A, backend=mock_backend(default="ok", session_service=service)))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stored(service) == []


async def test_a_stream_that_waits_keeps_its_session(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """A run that waits for a person can be resumed by the session its events name."""
    events = await read(A >> ASK >> B, backend=backend)
    (pending,) = events[-1].pending
    assert await stored(service) == [events[-1].session_id]
    result = await (A >> ASK >> B).resume(
        session_id=events[-1].session_id, approvals={pending.id: True}, backend=backend
    )
    assert result.text == "ok"


async def test_a_stream_that_is_closed_at_a_question_keeps_its_session(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """It may be left at the question itself."""
    async with aclosing((A >> ASK >> B).stream("hi", backend=backend)) as events:
        async for event in events:
            if event.pending:
                break
    assert len(await stored(service)) == 1


@pytest.mark.parametrize("kind", SERVICES)
async def test_every_store_forgets(kind: str, tmp_path: Any) -> None:
    """Sessions are deleted in every store of ADK's that a backend was given."""
    service = session_service(kind, tmp_path)
    backend = mock_backend(default="ok", session_service=service)
    await read(A, backend=backend)
    async with A.session(backend=backend) as chat:
        await chat.send("hi")
    await A.ask_async("hi", backend=backend)
    assert await stored(service) == []
    await close(service)


# --- events ---------------------------------------------------------------------------------------


async def test_every_event_names_its_session(backend: MockBackend) -> None:
    """Each event of a run, a stream, a conversation and a resumed run says which session it is of."""
    expression = S.set(x=1) >> (A | B) >> ASK >> A
    result = await expression.run("hi", backend=backend)
    resumed = await expression.resume(
        session_id=result.session_id, approvals={result.pending[0].id: True}, backend=backend
    )
    assert {event.session_id for event in [*result, *resumed]} == {result.session_id}
    streamed = await read(expression, backend=backend, session_id="mine")
    assert {event.session_id for event in streamed} == {"mine"}
    assert any(event.is_partial for event in streamed)
    async with A.session(backend=backend) as chat:
        assert {event.session_id for event in await chat.send("hi")} == {chat.session_id}


# --- conversations --------------------------------------------------------------------------------


async def talk(expression: Expr[Any], **options: Any) -> str:
    """Two turns of a conversation; the session."""
    async with expression.session(**options) as chat:
        for prompt in ("one", "two"):
            await chat.send(prompt)
    return chat.session_id


async def test_a_conversation_forgets_its_session(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """When a conversation is over, the session that nobody named is gone; a turn in it is refused."""
    async with A.session(backend=backend) as chat:
        await chat.send("hi")
        assert await stored(service) == [chat.session_id]
    assert await stored(service) == []
    with pytest.raises(SessionError, match=r"is over and its session deleted.*session\(keep=True\)"):
        await chat.send("still there?")
    with pytest.raises(SessionError, match="is over"):
        await chat.resume({"x": True})


async def test_a_conversation_that_is_kept(service: InMemorySessionService, backend: MockBackend) -> None:
    """With `keep=True` it stays, as it does with a name or in a service of the caller's."""
    kept = await talk(A, backend=backend, keep=True)
    assert await stored(service) == [kept]
    await talk(A, backend=backend, session_id="mine")
    assert sorted(await stored(service)) == sorted([kept, "mine"])
    own = InMemorySessionService()
    there = await talk(A, backend=backend, session_service=own)
    assert await stored(own) == [there]
    assert (await A.run("and?", backend=backend, session_id=kept)).session_id == kept


async def test_a_conversation_that_fails_forgets_its_session(service: InMemorySessionService) -> None:
    """An error leaves no session behind."""
    failing = mock_backend({"a": RunError("no")}, session_service=service)
    with pytest.raises(RunError, match="no"):
        await talk(A, backend=failing)
    assert await stored(service) == []


async def test_a_conversation_that_is_cancelled_forgets_its_session(
    service: InMemorySessionService,
) -> None:
    """Nor does a cancellation."""
    hang = Hang()
    hanging = mock_backend({"a": hang}, session_service=service)
    task = asyncio.ensure_future(talk(A, backend=hanging))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stored(service) == []


async def test_a_conversation_without_a_turn(service: InMemorySessionService, backend: MockBackend) -> None:
    """Where nothing was said there is nothing to forget."""
    async with A.session(backend=backend):
        pass
    assert await stored(service) == []


async def test_a_conversation_can_be_closed(service: InMemorySessionService, backend: MockBackend) -> None:
    """Without `async with`, `aclose` ends it, also twice."""
    chat = A.session(backend=backend)
    await chat.send("hi")
    await chat.aclose()
    await chat.aclose()
    assert await stored(service) == []


async def test_approving_in_a_conversation(backend: MockBackend) -> None:
    """`chat.resume` goes on with the turn that waits, and the conversation goes on after it."""
    models = mock_backend({"a": ["draft one", "draft two"], "b": ["sent one", "sent two"]})
    async with (A >> ASK >> B >> S.counter("sent")).session(backend=models) as chat:
        for number, said in (1, "sent one"), (2, "sent two"):
            asked = await chat.send(f"prompt {number}")
            (pending,) = asked.pending
            assert asked.text == ""
            answered = await chat.resume(approvals={pending.id: True})
            assert (answered.text, answered.pending, answered.state["sent"]) == (said, [], number)
            assert answered.session_id == chat.session_id
    assert "prompt 1" in seen(models.calls["b"][1])
    assert "sent one" in seen(models.calls["b"][1])


async def test_refusing_in_a_conversation(backend: MockBackend) -> None:
    """A refusal ends the turn, not the conversation."""
    async with (A >> ASK >> B).session(backend=backend) as chat:
        asked = await chat.send("hi")
        refused = await chat.resume({asked.pending[0].id: False})
        assert "Not approved" in refused.text
        assert len((await chat.send("again")).pending) == 1


async def test_resuming_what_does_not_wait(backend: MockBackend) -> None:
    """An approval that nobody asked for is an error that says what is asked."""
    async with A.session(backend=backend) as chat:
        await chat.send("hi")
        with pytest.raises(SessionError, match="does not wait for 'x'; it waits for nothing"):
            await chat.resume({"x": True})


async def test_a_conversation_that_waits_keeps_its_session(
    service: InMemorySessionService, backend: MockBackend
) -> None:
    """Left while a run waits, the session stays, to be resumed from elsewhere; once answered it does not."""
    expression = A >> ASK >> B
    async with expression.session(backend=backend) as chat:
        asked = await chat.send("hi")
    assert await stored(service) == [chat.session_id]
    later = await expression.resume(
        session_id=chat.session_id, approvals={asked.pending[0].id: True}, backend=backend
    )
    assert later.text == "ok"
    await chat.aclose()
    assert await stored(service) == []


@pytest.mark.parametrize("place", [".", "notes.txt", "none/kept.db"])
def test_a_file_that_is_none_is_refused_at_once(place: str, tmp_path: Path) -> None:
    """Where it is named, outside of any loop: a thread that opens it in a run could outlive the run."""
    (tmp_path / "notes.txt").write_text("My notes.")
    said = r"The session file '.*' cannot be used: (unable to open database file|file is not a database)\."
    with pytest.raises(ArgumentError, match=said):
        sqlite_sessions(tmp_path / place)
