"""What a backend is, and what one is that stores sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from adk_fluent.backends.events import AgentEvent, Pending, RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import RunError
from adk_fluent.ir.base import Node


@runtime_checkable
class Backend(Protocol):
    """Turns an IR tree into something that runs, and runs it.

    These three methods are enough for `run`, `stream`, `ask`, `map` and `session`. What a caller reads in a
    result is worked out from the events: the text, who sees it, the typed answer, the state. So an event says
    who its author is (the name of an agent), whether it is an answer (`is_final`), and what it writes
    (`state_delta`, `None` for a key that goes).

    `run` and `stream` get these options, and perhaps more in a later version:

    - `state`: what the state holds before the run;
    - `history`: the events of the turns before this one in a conversation, those of the `user` among them;
    - `streaming`: whether pieces of answers are wanted, too (`is_partial`);
    - `user_id`, `session_id`: whose run it is, and in which conversation.

    A `RunError` that `run` raises may have the events until then as its `result`, a `RunResult` of them; see
    `gathered`.
    """

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> Any:
        """What this backend runs for `node`; compiled once per expression and configuration."""
        ...

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        """Run to the end and give all events."""
        ...

    # Positional and keyword arguments of any kind together let a backend declare the options it has.
    def stream(self, compiled: Any, prompt: Any, *_: Any, **options: Any) -> AsyncIterator[AgentEvent]:
        """Give events as they happen."""
        ...


async def gathered(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    """All events of a source, for the `run` of a backend that has a `stream`.

    Raises:
        RunError: what the source raised, with the events before it as its `result`.
    """
    found: list[AgentEvent] = []
    try:
        async for event in events:
            found.append(event)
    except RunError as error:
        error.result = RunResult(found)
        raise
    return found


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as a backend stores it.

    Attributes:
        state: what its state holds; a key whose value is `None` is absent.
        waiting: run (`invocation_id`) → what it waits for; only runs that wait are in it.
        runs: run → its events in order, without what the user said.
    """

    state: Mapping[str, Any]
    waiting: Mapping[str, Sequence[Pending]] = field(default_factory=dict[str, "Sequence[Pending]"])
    runs: Mapping[str, Iterable[AgentEvent]] = field(default_factory=dict[str, "Iterable[AgentEvent]"])


@runtime_checkable
class SessionBackend(Backend, Protocol):
    """A backend that stores sessions, so that another run, or another process, can go on in one.

    It knows the conversation and the state of a session by itself: its `run` and `stream` get no `history`,
    and `state` is what is written to the session before the run. `services` are the `session_service`,
    `artifact_service`, `memory_service` and `credential_service` of the caller, those that were given.
    """

    def session(
        self, compiled: Any, *, session_id: str, user_id: str, services: Mapping[str, Any]
    ) -> Awaitable[StoredSession]:
        """A session.

        Raises:
            SessionError: there is none of that id.
        """
        ...

    def resume(
        self,
        compiled: Any,
        *,
        session_id: str,
        approvals: Mapping[str, Any],
        user_id: str,
        services: Mapping[str, Any],
    ) -> AsyncIterator[AgentEvent]:
        """Answer what a paused run waits for, and give the events that follow: at least one, of that run.

        Args:
            approvals: `Pending.id` → the answer, also to what is no approval.

        Raises:
            SessionError: there is no such session, or it does not wait for one of these answers.
        """
        ...

    def rewind(
        self,
        compiled: Any,
        *,
        session_id: str,
        before_invocation_id: str,
        user_id: str,
        services: Mapping[str, Any],
    ) -> Awaitable[None]:
        """Undo a run and all after it.

        Raises:
            SessionError: there is no such session, or no such run in it.
        """
        ...

    def forget(
        self, compiled: Any, *, session_id: str, user_id: str, services: Mapping[str, Any]
    ) -> Awaitable[None]:
        """Delete a session that nobody can name any more; it may be that there is none."""
        ...


class LiveConversation(Protocol):
    """A live conversation as a backend holds it: what is sent and what comes of it, at the same time."""

    async def send(self, said: Any) -> None:
        """Send a message, or a blob in real time."""
        ...

    def events(self) -> AsyncGenerator[AgentEvent, None]:
        """What happens, until the conversation ends; closing it closes the connection."""
        ...

    def close(self) -> None:
        """Say that nothing more will be sent."""
        ...


@runtime_checkable
class LiveBackend(SessionBackend, Protocol):
    """A backend that can hold live conversations as well."""

    def live(
        self,
        compiled: Any,
        *,
        session_id: str,
        user_id: str,
        state: Mapping[str, Any],
        modality: Literal["audio", "text"],
        services: Mapping[str, Any],
    ) -> Awaitable[LiveConversation]:
        """A live conversation in a session, which is created when missing.

        Raises:
            UnsupportedNodeError: something in the expression cannot run live.
            SessionError: there is a `state` for the start of a session that has begun.
        """
        ...
