"""One run of an expression: which backend, compiled once, in which session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from adk_fluent.config import execution_config
from adk_fluent.errors import ArgumentError, EventLoopError, RunError, SessionError, no_answer, sentence
from adk_fluent.expr.options import checked

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.backend import ADKBackend, Compiled
    from adk_fluent.backends.adk.running.runner import Services
    from adk_fluent.backends.events import AgentEvent, RunResult
    from adk_fluent.expr.terminals import Terminals

T_co = TypeVar("T_co", covariant=True)

_SERVICES = ("session_service", "artifact_service", "memory_service", "credential_service")
_OPTIONS = (*_SERVICES, "app_name", "user_id", "session_id", "state", "backend", "config")


class Run(Generic[T_co]):
    """An expression with the options of one call."""

    def __init__(self, expression: Terminals[T_co], options: Mapping[str, Any]) -> None:
        from adk_fluent.errors import did_you_mean

        for name in options:
            if name not in _OPTIONS:
                raise ArgumentError(f"A run has no option {name!r}.{did_you_mean(name, _OPTIONS)}")
        options = checked(options)
        self._expression = expression
        self._options: Mapping[str, Any] = options
        self._user_id: str = options.get("user_id") or "user"
        self._config = execution_config(options.get("config"))
        if app_name := options.get("app_name"):
            self._config = replace(self._config, app_name=app_name)

    # --- what runs it -----------------------------------------------------------------------------

    @property
    def backend(self) -> ADKBackend:
        """The backend given, or the one this expression always uses."""
        given = self._options.get("backend")
        if given is not None:
            return given
        from adk_fluent.backends.adk.running.backend import default_backend

        return default_backend()

    @property
    def compiled(self) -> Compiled:
        """What the backend runs; compiled once per expression, backend and configuration.

        It is checked once for each kind of state that it is run with, since that may make a key be missing.
        """
        from adk_fluent.backends.recent import Recent, forms_of
        from adk_fluent.contracts.checking import check_on_build

        backend, node, config = self.backend, self._expression.node, self._config
        given = cast("Mapping[str, Any] | None", self._options.get("state"))
        known = None if "session_id" in self._options else given or {}
        kind = (
            None
            if known is None
            else frozenset((key, type(value).__qualname__) for key, value in known.items())
        )

        def make() -> tuple[Compiled, Recent[None]]:
            compiled, checked = backend.compile(node, config, state=known), Recent[None]()
            checked.get(kind, lambda: None)
            return compiled, checked

        compiled, checked = forms_of(self._expression, backend).get(config, make)
        checked.get(kind, lambda: check_on_build(node, config=config, state=known, mode=config.contracts))
        return compiled

    @property
    def services(self) -> Services:
        """The services given for this run."""
        from adk_fluent.backends.adk.running.runner import Services

        return Services(**{name: self._options.get(name) for name in _SERVICES})

    # --- running ----------------------------------------------------------------------------------

    async def events(
        self, prompt: Any, session_id: str, *, streaming: bool
    ) -> AsyncGenerator[AgentEvent, None]:
        """The events of this run."""
        source = self.backend.stream(
            self.compiled,
            prompt,
            user_id=self._user_id,
            session_id=session_id,
            state=self._options.get("state"),
            services=self.services,
            streaming=streaming,
        )
        async with aclosing(source) as events:
            async for event in events:
                yield event

    async def stream(self, prompt: Any) -> AsyncGenerator[AgentEvent, None]:
        """Events as they happen; a session that nobody named is deleted, unless the run waits in it."""
        from adk_fluent.backends.events import DISCARDS

        compiled, session_id, waits = self.compiled, self._session_id(), False
        telling: list[AgentEvent] = []
        try:
            async with aclosing(self.events(prompt, session_id, streaming=True)) as events:
                async for event in events:
                    waits = waits or bool(event.pending)
                    if event.error or DISCARDS in event.metadata:
                        telling.append(event)
                    yield compiled.shown(event)
        finally:
            if not waits:
                await self._forget(compiled, session_id)
        self._raise_uncaught(telling)

    async def result(self, prompt: Any, session_id: str | None = None) -> RunResult[T_co]:
        """All events of the run, with the state after it."""
        session_id = session_id or self._session_id()
        async with aclosing(self.events(prompt, session_id, streaming=False)) as source:
            events = [event async for event in source]
        return await self._collect(events, session_id)

    async def answer(self, prompt: Any) -> T_co:
        """The answer alone; a session that nobody named is deleted.

        Raises:
            RunError: the run waits for a person, or ended with an event that reports an error.
        """
        compiled, session_id = self.compiled, self._session_id()
        try:
            return _answer(await self.result(prompt, session_id))
        finally:
            await self._forget(compiled, session_id)

    def ask(self, prompt: Any) -> T_co:
        """The answer, waited for."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.answer(prompt))
        raise EventLoopError(
            "ask() cannot wait inside a running event loop; write `await expr.ask_async(...)`."
        )

    async def map(self, prompts: Sequence[Any], concurrency: int) -> list[T_co]:
        """The answers to all prompts, in order."""
        whole = isinstance(concurrency, int) and concurrency >= 1  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not whole:  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
            raise ArgumentError("map() takes a list of prompts and a positive whole number as concurrency.")
        if "session_id" in self._options:
            raise ArgumentError("map() runs each prompt in a session of its own; leave session_id out.")
        slots = asyncio.Semaphore(concurrency)

        async def one(prompt: Any) -> T_co:
            async with slots:
                return await self.answer(prompt)

        async with self.opened():
            tasks = [asyncio.ensure_future(one(prompt)) for prompt in prompts]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def resume(self, approvals: Mapping[str, Any]) -> RunResult[T_co]:
        """The rest of a paused run."""
        session_id = self._options["session_id"]
        source = self.backend.resume(
            self.compiled,
            session_id=session_id,
            approvals=approvals,
            user_id=self._user_id,
            services=self.services,
        )
        async with aclosing(source) as stream:
            events = [event async for event in stream]
        return await self._collect(events, session_id, resumed=True)

    async def rewind(self, before_invocation_id: str) -> None:
        """Undo a run and all after it."""
        await self.backend.rewind(
            self.compiled,
            session_id=self._options["session_id"],
            before_invocation_id=before_invocation_id,
            user_id=self._user_id,
            services=self.services,
        )

    async def _collect(
        self, events: Sequence[AgentEvent], session_id: str, *, resumed: bool = False
    ) -> RunResult[T_co]:
        from adk_fluent.backends.events import RunResult, answers

        compiled = self.compiled
        answer = next(reversed(answers(events)), None)  # the user gets it, whoever it is from
        session = await self.backend.session(compiled, session_id, self._user_id, self.services)
        pending = self.backend.waiting(session, events[-1].invocation_id if events else "")
        earlier = self.backend.earlier(compiled, session, events) if resumed else []
        result = RunResult[T_co](
            [event if event is answer else compiled.shown(event) for event in events],
            state=session.state,
            session_id=session_id,
            origins=compiled.named.origins,
            parse=compiled.answered([*earlier, *events], session.state, pending),
            pending=pending,
            earlier=earlier,
        )
        self._raise_uncaught(events, result)
        return result

    def _raise_uncaught(self, events: Sequence[AgentEvent], result: RunResult[T_co] | None = None) -> None:
        """Raise what an event reports that nothing caught."""
        from adk_fluent.backends.events import uncaught

        if (event := uncaught(events)) is not None:
            agent = self.compiled.named.origins.get(event.author, event.author)
            error = RunError(no_answer(agent, event.error or ""))
            error.result = result
            raise error

    # --- sessions ---------------------------------------------------------------------------------

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep what the tools hold open, such as connections to MCP servers, from run to run."""
        return self.backend.opened(self.compiled)

    async def leave(self, session_id: str) -> bool:
        """End a conversation: its session is deleted as `answer` and `stream` do; whether it is."""
        compiled = self.compiled
        try:
            session = await self.backend.session(compiled, session_id, self._user_id, self.services)
        except SessionError:  # nothing ran in it
            return False
        waits = bool(self.backend.waiting(session))
        return not waits and await self._forget(compiled, session_id)

    async def _forget(self, compiled: Compiled, session_id: str) -> bool:
        """Delete a session, unless the caller named it or keeps it in a service of theirs; whether it is."""
        if self._options.get("session_id") or self._options.get("session_service") is not None:
            return False
        await self.backend.forget(compiled, session_id, self._user_id, self.services)
        return True

    def within(self, session_id: str) -> Run[T_co]:
        """The same, in a session that exists: the state given was for its start."""
        options = {name: value for name, value in self._options.items() if name != "state"}
        return Run(self._expression, {**options, "session_id": session_id})

    def new_session_id(self) -> str:
        """The session id given, or a new one."""
        return self._session_id()

    def _session_id(self) -> str:
        return self._options.get("session_id") or str(uuid.uuid4())


def _answer(result: RunResult[T_co]) -> T_co:
    if waiting := result.pending:
        raise RunError(
            f"{waiting[0].agent!r} waits for approval: {sentence(waiting[0].message)} "
            "Use run(), whose result has .pending, and resume()."
        )
    return result.output
