"""One run of an expression: which backend, compiled once, in which session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from adk_fluent.config import execution_config
from adk_fluent.errors import ArgumentError, EventLoopError, RunError
from adk_fluent.expr.options import checked

if TYPE_CHECKING:
    from adk_fluent.backends.adk.backend import ADKBackend, Compiled
    from adk_fluent.backends.adk.runner import Services
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
        from adk_fluent.backends.adk.backend import default_backend

        return default_backend()

    @property
    def compiled(self) -> Compiled:
        """What the backend runs; compiled once per expression, backend and configuration."""
        backend = self.backend
        cache = _cache_of(self._expression)
        found = cache.get((id(backend), self._config))
        if found is None or found[0] is not backend:
            given = cast("Mapping[str, Any] | None", self._options.get("state"))
            known = None if "session_id" in self._options else given or {}
            found = (backend, backend.compile(self._expression.node, self._config, state=known))
            cache[id(backend), self._config] = found
        return found[1]

    @property
    def services(self) -> Services:
        """The services given for this run."""
        from adk_fluent.backends.adk.runner import Services

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
        """Events as they happen."""
        shown = self.compiled.shown
        async with aclosing(self.events(prompt, self._session_id(), streaming=True)) as events:
            async for event in events:
                yield shown(event)

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
        session_id = self._options.get("session_id")
        if session_id:
            return _answer(await self.result(prompt))
        session_id = self._session_id()
        try:
            return _answer(await self.result(prompt, session_id))
        finally:
            if "session_service" not in self._options:
                await self.backend.forget(self.compiled, session_id, self._user_id, self.services)

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
        return await self._collect(events, session_id)

    async def rewind(self, before_invocation_id: str) -> None:
        """Undo a run and all after it."""
        await self.backend.rewind(
            self.compiled,
            session_id=self._options["session_id"],
            before_invocation_id=before_invocation_id,
            user_id=self._user_id,
            services=self.services,
        )

    async def _collect(self, events: Sequence[AgentEvent], session_id: str) -> RunResult[T_co]:
        from adk_fluent.backends.events import RunResult, answers

        compiled = self.compiled
        answer = next(reversed(answers(events)), None)  # the user gets it, whoever it is from
        session = await self.backend.session(compiled, session_id, self._user_id, self.services)
        return RunResult[T_co](
            [event if event is answer else compiled.shown(event) for event in events],
            state=session.state,
            session_id=session_id,
            origins=compiled.named.origins,
            parse=compiled.parse,
            pending=self.backend.waiting(session, events[-1].invocation_id if events else ""),
        )

    def without_state(self) -> Run[T_co]:
        """The same, for the turns after the first: the state given was for the start."""
        return Run(self._expression, {k: v for k, v in self._options.items() if k != "state"})

    def new_session_id(self) -> str:
        """The session id given, or a new one."""
        return self._session_id()

    def _session_id(self) -> str:
        return self._options.get("session_id") or str(uuid.uuid4())


def _answer(result: RunResult[T_co]) -> T_co:
    if waiting := result.pending:
        raise RunError(
            f"{waiting[0].agent!r} waits for approval: {waiting[0].message}. "
            "Use run(), whose result has .pending, and resume()."
        )
    if result and (problem := result[-1].error):
        raise RunError(f"{result.origin(result[-1].author)!r} gave no answer but an error: {problem}.")
    return result.output


def _cache_of(expression: Terminals[Any]) -> dict[Any, Any]:
    try:
        return expression._cache  # pyright: ignore[reportPrivateUsage]  # the cache is kept where it dies with its expression
    except AttributeError:
        object.__setattr__(expression, "_cache", cache := dict[Any, Any]())
        return cache
