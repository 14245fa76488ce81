"""A session with a target: turn after turn on ADK's own runner."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.events import DISCARDS, RAISED, AgentEvent, Pending
from adk_fluent.backends.reading import Reading
from adk_fluent.cli.errors import FailedRunError, one_line
from adk_fluent.cli.target import Target
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts.check import checked_once
from adk_fluent.errors import ADKFluentError, ArgumentError, SessionError, what_happened

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import ADKBackend, Compiled
    from adk_fluent.ir.base import Node


class Conversation:
    """Several turns in one session.

    Args:
        target: what answers.
        sessions: the SQLite file that keeps sessions; by default they end with this process.
        session_id: the session to go on in; a new one by default.
        state: written to the session with the first turn.
        backend: what runs an expression; a test's mock, or by default ADK with the agents' own models.

    Attributes:
        pending: what the last turn waits for and nobody has answered.
        store: the file that keeps the session, if one does.
    """

    def __init__(
        self,
        target: Target,
        *,
        sessions: Path | None = None,
        session_id: str | None = None,
        state: Mapping[str, Any] | None = None,
        backend: ADKBackend | None = None,
    ) -> None:
        from adk_fluent.backends.adk.api import ADKBackend, sqlite

        store = sqlite.sqlite_sessions(sessions) if sessions else None
        self._backend = backend or ADKBackend(session_service=store)
        self._compiled = _compile(target, self._backend, None if session_id else state or {})
        self._reading = Reading(self._compiled.named)
        self.session_id: str = session_id or str(uuid.uuid4())
        self.store: Path | None = sessions
        self.pending: list[Pending] = []
        self._run, self._state = "", state

    @property
    def root(self) -> Node:
        """The tree that runs, with unique names."""
        return self._compiled.named.root

    def shown(self, event: AgentEvent) -> AgentEvent:
        """The event as the target's policy lets a caller see it."""
        return self._reading.shown(event)

    async def turn(self, prompt: str) -> AsyncGenerator[AgentEvent, None]:
        """The events of one turn, pieces of answers included.

        Raises:
            FailedRunError: a model or tool failed.
        """
        state, self._state = self._state, None
        events = self._backend.stream(
            self._compiled, prompt, session_id=self.session_id, state=state, streaming=True
        )
        async with aclosing(self._checked(events)) as checked:
            async for event in checked:
                yield event

    async def answer(self, answers: Mapping[str, Any]) -> AsyncGenerator[AgentEvent, None]:
        """Go on with the turn that waits for these answers.

        Raises:
            ArgumentError: an answer has another form than `Pending.form` names; the turn waits on.
            SessionError: the session does not wait for one of them.
            FailedRunError: a model or tool failed.
        """
        events = self._backend.resume(self._compiled, session_id=self.session_id, approvals=answers)
        async with aclosing(self._checked(events)) as checked:
            async for event in checked:
                yield event

    async def look(self) -> Mapping[str, Pending]:
        """Take up what the last run of a stored session waits for; id → what all its runs wait for."""
        found: dict[str, Pending] = {}
        with suppress(SessionError):  # there is no such session yet
            for run, asked in (await self._waiting()).items():
                self._run, self.pending = run, [*asked]
                found |= {each.id: each for each in asked}
        return found

    async def _waiting(self) -> Mapping[str, Sequence[Pending]]:
        """Run → what it waits for; of an app that cannot go on, approvals alone."""
        session = await self._backend.session(self._compiled, self.session_id)
        if self._compiled.app.resumability_config is not None:
            return session.waiting
        return {run: [p for p in asked if p.kind == "approval"] for run, asked in session.waiting.items()}

    async def state(self) -> dict[str, Any]:
        """What the session's state holds now."""
        session = await self._backend.session(self._compiled, self.session_id)
        return {key: value for key, value in session.state.items() if value is not None}

    async def _checked(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        problems: dict[str, str] = {}
        before, self.pending = self.pending, []
        asks = bool(before)
        try:
            async with aclosing(events) as running:
                async for event in running:
                    for withdrawn in event.metadata.get(DISCARDS, ()):
                        problems.pop(withdrawn, None)
                    if event.error and not event.content and RAISED not in event.metadata:
                        problems[event.id] = f"model error in agent {event.author!r}: {one_line(event.error)}"
                    asks, self._run = asks or bool(event.pending), event.invocation_id
                    yield event
        except ArgumentError:  # an answer of another form
            self.pending = before
            raise
        except ADKFluentError:
            raise
        except Exception as error:
            raise FailedRunError(what_happened(error)) from error
        if problems:
            raise FailedRunError(next(iter(problems.values())))
        self.pending = [*(await self._waiting()).get(self._run, ())] if asks else []


def _compile(target: Target, backend: ADKBackend, state: Mapping[str, Any] | None) -> Compiled:
    """`state` is what the check may take to be in the session; `None` if that is not known."""
    name = target.app_name if target.app_name.isidentifier() and target.app_name != "user" else ""
    config = ExecutionConfig(app_name=name) if name else ExecutionConfig()
    if target.expression is not None:
        node = target.expression.to_ir()
        with checked_once(node, config, state):
            return backend.compile(node, config, state=state)
    from adk_fluent.adopt.native_runs import as_compiled

    return as_compiled(target.value, config)
